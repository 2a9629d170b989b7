#pragma once
// Memory whose contents other processes of this host can read where they lie. A frame that is made here reaches them
// without a copy: what travels is where it stands (transport/shared_memory.hpp lends it). A process that has such peers
// has one of these; its frame pools take their large buffers from it.
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include <troupe/core/error.hpp>

namespace troupe {

class LendableMemory;

struct LendableDeleter {
  void operator()(std::byte* block) const;
  std::shared_ptr<LendableMemory> memory = nullptr;
  std::size_t bytes = 0;
};
/// A block, given back to its memory with the array, which keeps the memory.
using LendableArray = std::unique_ptr<std::byte[], LendableDeleter>;

/// Who lends blocks to others, and hears from them when they have been read.
class Lender {
 public:
  virtual ~Lender() = default;
  /// Lets go of what has come back until now. Any thread; must not wait.
  virtual void take_back() = 0;
};

/// One file without a name: others map it for reading and nobody can cut it. Thread-safe. Pages are taken from the
/// system as blocks first reach them and are kept for later blocks: a sealed file cannot give back some. All go with
/// the object and the last process that has mapped it. So it holds what its users have needed at most.
class LendableMemory : public std::enable_shared_from_this<LendableMemory> {
 public:
  static constexpr std::size_t kGranule = 16 * 1024;  ///< blocks start at multiples of it: pools' size classes fit
  /// Smaller ones belong elsewhere: to say where they are would cost as much as to send them.
  static constexpr std::size_t kLeastBlock = 64 * 1024;
  static constexpr std::size_t kMost = std::size_t{64} << 30;

  /// Room for `bytes` (a granule to kMost; rounded down to granules) at most, of which none are taken yet.
  /// Errors: kInvalidArgument; kIo.
  static Result<std::shared_ptr<LendableMemory>> make(std::size_t bytes);
  /// As make(), with room for as much as this machine has and its limit of files' sizes allows.
  static Result<std::shared_ptr<LendableMemory>> make();
  ~LendableMemory();
  LendableMemory(const LendableMemory&) = delete;
  LendableMemory& operator=(const LendableMemory&) = delete;

  /// A block of at least `bytes` > 0, not cleared. Null when there is no room or no memory for it, and in a forked
  /// child, which has none of these pages.
  LendableArray take(std::size_t bytes);

  void add(std::weak_ptr<Lender> lender);
  /// Has all lenders let go of what has come back: for who would else take a new block, whose pages have to be made.
  /// The owners of blocks may take locks as they are let go of; the caller must hold none of these.
  void take_back();

  /// Bytes from the start to `bytes`, when all of them lie here.
  std::optional<std::size_t> offset_of(std::span<const std::byte> bytes) const;

  int file() const { return file_; }
  std::size_t size() const { return size_; }

 private:
  LendableMemory(int file, std::byte* data, std::size_t size);
  friend struct LendableDeleter;
  void give_back(std::byte* block, std::size_t bytes);

  const int file_;
  std::byte* const data_;
  const std::size_t size_;
  const pid_t process_;
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace troupe
