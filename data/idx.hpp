#pragma once
// IDX files as LeCun's MNIST page defines them (two zero bytes, element type, rank, big-endian sizes, elements),
// compressed by gzip. Files come from outside: everything is checked before anything is handed out. Used by
// data/images.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::data {

/// A whole file of unsigned bytes, row-major.
struct IdxArray {
  Shape shape;
  std::vector<std::uint8_t> values;
};

/// More elements than this are refused: no data set that fits here needs them.
inline constexpr std::int64_t kIdxElementsMax = std::int64_t{1} << 30;

/// Reads, decompresses and checks a file; memory is bounded by what its header says and by what gzip can pack into the
/// bytes that are there. Errors, naming the file: kNotFound, kIo, kCorrupt (no gzip, a damaged or cut-off stream, a
/// header that is none, more or fewer bytes than it promises).
Result<IdxArray> read_idx(const std::filesystem::path& file);

}  // namespace troupe::data
