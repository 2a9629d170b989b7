#pragma once
// An array in the memory of a PJRT device. Buffers never change: a program makes new ones, in the memory of those that
// were donated to it.
#include <cstddef>
#include <cstdint>
#include <span>

#include <troupe/core/tensor.hpp>
#include <troupe/pjrt/event.hpp>

namespace troupe::pjrt {

/// The API's number of an element type.
c::Type type_of(DType dtype);

/// Empty until made and after a move. The handle keeps its client; freeing it does not wait for work that still reads
/// it, whose memory the plug-in keeps until then.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<const Plugin> keeper, c::Buffer* buffer) : handle_(std::move(keeper), buffer) {}
  explicit operator bool() const { return static_cast<bool>(handle_); }
  c::Buffer* get() const { return handle_.get(); }

  /// Begins to copy all of it, row-major, to `to`, which must be as large and stay until the event is reached. What is
  /// copied is what the buffer has now, also where a later program gets it donated. Errors: the plug-in's.
  Result<Event> begin_copy_to(std::span<std::byte> to) const;
  /// The same of the bytes from `offset` on, as they lie in the device's memory.
  Result<Event> begin_copy_to(std::span<std::byte> to, std::int64_t offset) const;
  /// Copies all of it and waits.
  template <typename T>
  Status copy_to(std::span<T> to) const {
    TROUPE_ASSIGN(const Event done, begin_copy_to(std::as_writable_bytes(to)));
    return done.await();
  }
  /// The first `size` bytes of it where it lies, on a device whose memory is the host's (Client::is_host()), once
  /// ready() is reached. Valid until it is freed or donated. A copy would take a hop over a thread of the plug-in's.
  Result<std::span<const std::byte>> view(std::size_t size) const;
  /// Bytes of all of it on the host.
  Result<std::size_t> bytes() const;
  /// When the program that makes it has done so.
  Result<Event> ready() const;
  /// Where it lies in the device's memory: to tell whether a donated buffer was reused.
  Result<std::uintptr_t> address() const;
  /// Frees the memory now; later uses are errors.
  Status free() const;

 private:
  Handle<c::Buffer, c::BufferDestroy> handle_;
};

}  // namespace troupe::pjrt
