#pragma once
// Whether floating-point numbers are finite, told from their bits. Internal to this folder. At the speed of memory on
// every CPU: a maximum of unsigned integers, say, takes baseline x86-64 four times as long.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <troupe/core/tensor.hpp>

namespace troupe::messages {

/// Sees the bits of numbers; kExponent: those of their exponent, which are all set in infinities and NaNs alone. One
/// more in the exponent's last place then carries into the sign's.
template <typename Bits, Bits kExponent>
class FiniteCheck {
 public:
  void see(Bits bits) { seen_ |= static_cast<Bits>((bits & kMagnitude) + kOne); }
  bool all_finite() const { return (seen_ & static_cast<Bits>(~kMagnitude)) == 0; }

 private:
  static constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  static constexpr Bits kOne = kExponent & static_cast<Bits>(~(kExponent << 1));
  Bits seen_ = 0;
};

using FiniteF32 = FiniteCheck<std::uint32_t, 0x7f800000>;
using FiniteBF16 = FiniteCheck<std::uint16_t, 0x7f80>;
using FiniteF64 = FiniteCheck<std::uint64_t, 0x7ff0000000000000>;

template <typename Bits, Bits kExponent>
bool all_finite(FiniteCheck<Bits, kExponent> check, std::span<const std::byte> values) {
  for (std::size_t i = 0; i + sizeof(Bits) <= values.size(); i += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, values.data() + i, sizeof(bits));
    check.see(bits);
  }
  return check.all_finite();
}

/// True of integers. values: of whole numbers.
inline bool all_finite(DType dtype, std::span<const std::byte> values) {
  switch (dtype) {
    case DType::kF32:
      return all_finite(FiniteF32(), values);
    case DType::kF64:
      return all_finite(FiniteF64(), values);
    case DType::kBF16:
      return all_finite(FiniteBF16(), values);
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
      return true;
  }
  return true;
}

}  // namespace troupe::messages
