#include <troupe/collectives/detail/shared_blocks.hpp>

#include <sys/mman.h>

#include <algorithm>

#include <troupe/collectives/detail/sealed_file.hpp>

namespace troupe::collectives::detail {
namespace {

void unmap(std::byte* memory, std::size_t bytes) {
  if (memory != nullptr) munmap(memory, bytes);
}

}  // namespace

SharedBlocks::~SharedBlocks() {
  for (const Block& block : blocks_) unmap(block.memory, block.bytes);
}

const SharedBlocks::Block* SharedBlocks::find(int rank, std::uint64_t id) const {
  const auto found =
      std::ranges::find_if(blocks_, [&](const Block& block) { return block.rank == rank && block.id == id; });
  return found == blocks_.end() ? nullptr : &*found;
}

bool SharedBlocks::know(std::span<const SharedPlace> places) const {
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    if (find(static_cast<int>(rank), places[rank].id) == nullptr) return false;
  }
  return true;
}

Status SharedBlocks::learn(std::span<const SharedPlace> places) {
  Status all;
  for (int rank = 0; rank < static_cast<int>(places.size()); ++rank) {
    const SharedPlace& place = places[static_cast<std::size_t>(rank)];
    if (find(rank, place.id) != nullptr) continue;
    forget_oldest(rank);
    Block& block = blocks_.emplace_back(Block{.rank = rank, .id = place.id, .bytes = place.bytes});
    if (rank == own_rank_) continue;
    const auto memory = map_peer_file(place.process, {.file = place.file, .id = place.id, .bytes = place.bytes});
    if (memory.ok()) {
      block.memory = *memory;
    } else {
      all = memory.error();
    }
  }
  return all;
}

float* SharedBlocks::values(int rank, const SharedPlace& place) const {
  return reinterpret_cast<float*>(find(rank, place.id)->memory + place.offset);
}

void SharedBlocks::forget_oldest(int rank) {
  const auto is_of_rank = [rank](const Block& block) { return block.rank == rank; };
  if (static_cast<std::size_t>(std::ranges::count_if(blocks_, is_of_rank)) < kMaxBlocks) return;
  const auto oldest = std::ranges::find_if(blocks_, is_of_rank);
  unmap(oldest->memory, oldest->bytes);
  blocks_.erase(oldest);
}

}  // namespace troupe::collectives::detail
