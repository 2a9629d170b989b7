#pragma once
// The blocks of shareable memory that the ranks of a group have shown to each other, as one rank has mapped them.
// Private to the shared-memory back end. Every rank looks up the same places in the same order, so all know the same
// blocks at any call, and all come to the next new one together.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/collectives/detail/shared_place.hpp>
#include <troupe/core/error.hpp>

namespace troupe::collectives::detail {

class SharedBlocks {
 public:
  /// Of each rank; of one more, its oldest is forgotten. A program has one for its gradients and one for each shard's
  /// values in the middle of a step.
  static constexpr std::size_t kMaxBlocks = 16;

  explicit SharedBlocks(int own_rank) : own_rank_(own_rank) {}
  ~SharedBlocks();
  SharedBlocks(const SharedBlocks&) = delete;
  SharedBlocks& operator=(const SharedBlocks&) = delete;

  /// Whether all of these blocks are known. places: by rank.
  bool know(std::span<const SharedPlace> places) const;
  /// Learns those that are not. Errors: as map_peer_file(); they are known then all the same, and lead nowhere.
  Status learn(std::span<const SharedPlace> places);
  /// Where the values are in this process, of known places; not for the own rank.
  float* values(int rank, const SharedPlace& place) const;

 private:
  struct Block {
    int rank = 0;
    std::uint64_t id = 0;
    std::byte* memory = nullptr;  // null: the own rank's, or it could not be mapped
    std::size_t bytes = 0;
  };
  const Block* find(int rank, std::uint64_t id) const;
  void forget_oldest(int rank);

  const int own_rank_;
  std::vector<Block> blocks_;  // the oldest first
};

}  // namespace troupe::collectives::detail
