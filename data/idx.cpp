#include <troupe/data/idx.hpp>

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include <troupe/core/atomic_file.hpp>

namespace troupe::data {
namespace {

constexpr std::uint64_t kIdxBytesMax = 1ull << 30;
constexpr std::uint8_t kUnsignedBytes = 0x08;
constexpr int kRankMax = 4;
/// Deflate packs at most 258 bytes into 2 bits.
constexpr std::int64_t kGzipRatioMax = 1032;

/// A gzip stream that is read piece by piece.
class Gunzip {
 public:
  explicit Gunzip(std::span<const std::byte> compressed) {
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(compressed.data()));  // zlib only reads it
    stream_.avail_in = static_cast<uInt>(compressed.size());
    constexpr int kGzipOnly = 16;
    open_ = inflateInit2(&stream_, kGzipOnly + MAX_WBITS) == Z_OK;
  }
  ~Gunzip() {
    if (open_) inflateEnd(&stream_);
  }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  /// Fills `out`, less where the stream ends. Errors: kCorrupt.
  Result<std::size_t> read(std::span<std::uint8_t> out) {
    if (!open_) return Error{Code::kInternal, "zlib: no memory"};
    stream_.next_out = out.data();
    stream_.avail_out = static_cast<uInt>(out.size());
    while (stream_.avail_out > 0 && !ended_) {
      const int state = inflate(&stream_, Z_NO_FLUSH);
      ended_ = state == Z_STREAM_END;
      if (state == Z_BUF_ERROR) return Error{Code::kCorrupt, "the gzip stream is cut off"};
      if (state != Z_OK && !ended_) {
        return Error{Code::kCorrupt, fmt::format("no good gzip stream: {}",
                                                 stream_.msg != nullptr ? stream_.msg : "it does not decompress")};
      }
    }
    return out.size() - stream_.avail_out;
  }
  /// Whether nothing is left: neither in the stream nor behind it.
  Result<bool> at_end() {
    std::array<std::uint8_t, 1> more{};
    TROUPE_ASSIGN(const std::size_t read_more, read(more));
    return read_more == 0 && stream_.avail_in == 0;
  }

 private:
  z_stream stream_{};
  bool open_ = false;
  bool ended_ = false;
};

Error corrupt(std::string what) { return Error{Code::kCorrupt, std::move(what)}; }

Result<IdxArray> parse(std::span<const std::byte> compressed) {
  Gunzip stream(compressed);
  std::array<std::uint8_t, 4 + 4 * kRankMax> header{};
  const auto part = [&](std::size_t begin, std::size_t count) { return std::span(header).subspan(begin, count); };
  TROUPE_ASSIGN(const std::size_t magic, stream.read(part(0, 4)));
  const int rank = header[3];
  if (magic < 4 || header[0] != 0 || header[1] != 0 || header[2] != kUnsignedBytes || rank < 1 || rank > kRankMax) {
    return corrupt(
        fmt::format("not IDX: begins with {:02x} {:02x} {:02x} {:02x}, expected 00 00 08 and a rank of 1 .. {}",
                    header[0], header[1], header[2], header[3], kRankMax));
  }
  const std::size_t sizes = 4 * static_cast<std::size_t>(rank);
  TROUPE_ASSIGN(const std::size_t got_sizes, stream.read(part(4, sizes)));
  if (got_sizes < sizes) return corrupt("ends within its header");
  std::vector<std::int64_t> dims;
  std::int64_t elements = 1;
  for (std::size_t at = 4; at < 4 + sizes; at += 4) {
    std::int64_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size = size << 8 | header[at + i];
    if (size < 1 || size > kIdxElementsMax / elements) {
      return corrupt(fmt::format("dimension {} has size {}, expected at least 1 and at most {} elements in all",
                                 dims.size(), size, kIdxElementsMax));
    }
    dims.push_back(size);
    elements *= size;
  }
  IdxArray array{Shape(dims), {}};
  // A header can promise anything; memory is taken for what the compressed bytes could hold at most.
  if (elements > static_cast<std::int64_t>(compressed.size()) * kGzipRatioMax) {
    return corrupt(
        fmt::format("promises {} elements, which {} compressed bytes cannot hold", elements, compressed.size()));
  }
  array.values.resize(static_cast<std::size_t>(elements));
  TROUPE_ASSIGN(const std::size_t got, stream.read(array.values));
  if (got < array.values.size()) {
    return corrupt(fmt::format("{} elements of {}, expected {}", got, array.shape.to_string(), elements));
  }
  TROUPE_ASSIGN(const bool whole, stream.at_end());
  if (!whole) return corrupt(fmt::format("more bytes than its shape {} has", array.shape.to_string()));
  return array;
}

}  // namespace

Result<IdxArray> read_idx(const std::filesystem::path& file) {
  TROUPE_ASSIGN(const std::vector<std::byte> compressed, read_file(file.string(), kIdxBytesMax));
  Result<IdxArray> array = parse(compressed);
  if (!array.ok()) return Error{array.error().code, fmt::format("{}: {}", file.string(), array.error().message)};
  return array;
}

}  // namespace troupe::data
