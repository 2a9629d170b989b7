#pragma once
// The safetensors format (github.com/huggingface/safetensors): u64 header size, JSON header, raw little-endian tensors.
// Checkpoints hold parameters and optimiser slots in it, so that any framework can read them; nothing executes.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::messages {

/// A named tensor whose bytes somebody else owns. Names are free text (slashes too) of 1 to 256 bytes of UTF-8 without
/// control characters, unique in a file; they never become paths.
struct TensorBytes {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsFile {
  /// In the order of the file. They point into the parsed bytes, where a foreign file may have left them unaligned.
  std::vector<TensorBytes> tensors;
  SafetensorsMetadata metadata;
};

/// Headers above this are refused before they are read (the reference implementation allows 100 MB).
inline constexpr std::size_t kMaxSafetensorsHeader = std::size_t{16} << 20;
inline constexpr std::size_t kMaxSafetensorsTensors = 65536;

/// Size field and header for `tensors`, which `order` then lists in the order in which their bytes must follow: widest
/// elements first, then by name, so that every tensor is aligned to its element and equal input gives equal files.
/// Errors: kInvalidArgument naming the tensor (name, or bytes that are not dtype x shape).
Result<std::vector<std::byte>> safetensors_header(std::span<const TensorBytes> tensors,
                                                  const SafetensorsMetadata& metadata, std::vector<std::size_t>& order);

/// The whole file in memory.
Result<std::vector<std::byte>> encode_safetensors(std::span<const TensorBytes> tensors,
                                                  const SafetensorsMetadata& metadata);

/// Reads a whole file from untrusted bytes: header cap, known dtypes, rank <= 8, sizes as 128-bit products, ranges that
/// neither overlap nor leave holes and end at the end of the file, no duplicate names.
/// Errors: kCorrupt saying what, where, got, expected.
Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> file);

}  // namespace troupe::messages
