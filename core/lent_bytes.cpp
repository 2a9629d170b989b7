#include <troupe/core/lent_bytes.hpp>

#include <cstring>

namespace troupe {

void LentBytes::take_back() {
  const std::lock_guard lock(mutex_);
  if (copy_ || size_ == 0) return;
  copy_ = std::make_unique_for_overwrite<std::byte[]>(size_);
  std::memcpy(copy_.get(), bytes_.data(), size_);
  bytes_ = {copy_.get(), size_};
}

}  // namespace troupe
