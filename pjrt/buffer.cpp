#include <troupe/pjrt/buffer.hpp>

namespace troupe::pjrt {

c::Type type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return c::kF32;
    case DType::kF64:
      return c::kF64;
    case DType::kBF16:
      return c::kBF16;
    case DType::kI32:
      return c::kS32;
    case DType::kI64:
      return c::kS64;
    case DType::kU8:
      return c::kU8;
  }
  return c::kF32;
}

Result<Event> Buffer::begin_copy_to(std::span<std::byte> to) const {
  c::BufferToHostBuffer args{.buffer = get(), .to = to.data(), .size = to.size()};
  TROUPE_TRY(handle_.plugin().call(args));
  return Event(handle_.keeper(), args.event);
}

Result<Event> Buffer::begin_copy_to(std::span<std::byte> to, std::int64_t offset) const {
  c::BufferCopyRawToHost args{
      .buffer = get(), .to = to.data(), .offset = offset, .size = static_cast<std::int64_t>(to.size())};
  TROUPE_TRY(handle_.plugin().call(args));
  return Event(handle_.keeper(), args.event);
}

Result<std::span<const std::byte>> Buffer::view(std::size_t size) const {
  TROUPE_ASSIGN(const std::uintptr_t at, address());
  return std::span(reinterpret_cast<const std::byte*>(at), size);
}

Result<std::size_t> Buffer::bytes() const {
  c::BufferToHostBuffer args{.buffer = get()};
  TROUPE_TRY(handle_.plugin().call(args));
  return args.size;
}

Result<Event> Buffer::ready() const {
  c::BufferReadyEvent args{.buffer = get()};
  TROUPE_TRY(handle_.plugin().call(args));
  return Event(handle_.keeper(), args.event);
}

Result<std::uintptr_t> Buffer::address() const {
  c::BufferUnsafePointer args{.buffer = get()};
  TROUPE_TRY(handle_.plugin().call(args));
  return args.address;
}

Status Buffer::free() const {
  c::BufferDelete args{.buffer = get()};
  return handle_.plugin().call(args);
}

}  // namespace troupe::pjrt
