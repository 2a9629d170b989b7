#pragma once
// Bytes that one part sends while they stay another's: a gradient on its way to other hosts, which is copied nowhere
// else. Who lends them may neither change nor free them; once it wants to, it takes them back, and whatever is still
// to be sent of them is sent from a copy.
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

namespace troupe {

/// Thread-safe.
class LentBytes {
 public:
  explicit LentBytes(std::span<const std::byte> bytes) : size_(bytes.size()), bytes_(bytes) {}
  LentBytes(const LentBytes&) = delete;
  LentBytes& operator=(const LentBytes&) = delete;

  std::size_t size() const { return size_; }
  /// Calls `use` with them; what it returns. They do not change before it has returned, so it must not wait.
  template <typename Use>
  auto with(const Use& use) const {
    const std::lock_guard lock(mutex_);
    return use(bytes_);
  }
  /// From now on with() gives a copy of what is there now. Waits for no more than a with() in progress.
  void take_back();

 private:
  const std::size_t size_;
  mutable std::mutex mutex_;
  std::span<const std::byte> bytes_;
  std::unique_ptr<std::byte[]> copy_;  // once it has been taken back
};

}  // namespace troupe
