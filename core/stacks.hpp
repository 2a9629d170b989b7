#pragma once
// Rows whose stacks are split: each plane is there once, and a column that is a stack (TensorSpec::stack) names its
// planes. This is how rows of pixels go from env actors to replay, lie in its table and in its journal; adders write
// whole rows, and whoever samples gets whole rows again, bit for bit. Planes are known by their bytes, so that neither
// environments nor adders say which are the same, and a column that is called a stack without being one is only dearer.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe {

/// Where the bytes of a stack's planes lie: `outer` times a `unit` of the first plane, one of the second and so on.
struct PlaneLayout {
  std::size_t planes = 1;
  std::size_t outer = 1;
  std::size_t unit = 1;
  std::size_t bytes() const { return outer * unit; }  ///< of one plane
  friend bool operator==(const PlaneLayout&, const PlaneLayout&) = default;
};

/// Planes of a stack, and of a pool of split rows.
inline constexpr std::int64_t kMostPlanes = 65'536;
inline constexpr std::size_t kMostPlanesOfRows = std::size_t{1} << 30;

/// Errors: kInvalidArgument when a column's dimension is not made of as many equal planes as its stack says.
Status check_stacks(const Signature& signature, std::string_view where);

/// Whether the columns of two signatures, which are the same otherwise, are the same stacks.
bool same_stacks(const Signature& a, const Signature& b);

/// How rows of a signature are split. Planes of one size and dtype lie together in a pool.
class Stacks {
 public:
  /// whole: check_stacks() is ok.
  explicit Stacks(Signature whole);

  struct Column {
    std::size_t index = 0;  ///< in the signature
    PlaneLayout layout;
    std::size_t pool = 0;
  };
  struct Pool {
    std::size_t bytes = 0;  ///< of a plane
    DType dtype = DType::kU8;
    friend bool operator==(const Pool&, const Pool&) = default;
  };
  /// Without any, split rows are whole rows.
  bool any() const { return !columns_.empty(); }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<Pool>& pools() const { return pools_; }
  const Signature& whole() const { return whole_; }
  /// Of split rows: a column that is a stack is int32 [planes], places in its pool.
  const Signature& split() const { return split_; }

  /// Whether these rows, of either signature, are split: the planes of each pool are in BatchView::planes.
  bool is_split(const BatchView& rows) const { return any() && !rows.planes.empty(); }
  /// That split rows name planes that are there. Errors: kInvalidArgument.
  Status check_planes(const BatchView& rows, std::string_view where) const;
  /// Copies split rows, which check_planes() has taken, to rows first.. of `out`, of whole().
  void join(const BatchView& rows, const MutableBatchView& out, std::int64_t first) const;

 private:
  Signature whole_, split_;
  std::vector<Column> columns_;
  std::vector<Pool> pools_;
};

/// The stack of these planes, layout.planes of them. to: as many bytes as all have.
void join_planes(const PlaneLayout& layout, const std::byte* const* planes, std::byte* to);

/// Of a plane, to look for it by: equal planes have the same, and others hardly ever. Several times as fast as a
/// checksum for disks.
std::uint64_t fingerprint(std::span<const std::byte> plane);

/// Splits whole rows. Equal planes of one split() are one. What rows of experience are like makes it fast: a stack is
/// mostly that of the row before with one new plane, or another column's of a row further on, and is then compared
/// where it lies. Only planes that remain are taken out and looked for.
class StackSplitter {
 public:
  explicit StackSplitter(const Stacks& stacks);
  /// The same rows, which are there until the next call. `stacks` must outlive them.
  BatchView split(const BatchView& whole);

 private:
  struct Where {
    std::size_t column, row;  // of stacks_.columns()
  };
  struct Pool {
    std::unique_ptr<std::byte[]> bytes;  // grown by hand, since a vector would write zeros first
    std::size_t room = 0;                // planes
    std::int32_t count = 0;
    std::unordered_map<std::uint64_t, std::int32_t> by_fingerprint;  // the first plane with it; others are not found
    std::unordered_map<std::int32_t, Where> by_first;                // a stack that begins with this plane
  };
  std::span<const std::byte> bytes_at(const BatchView& whole, Where stack) const;
  std::span<std::int32_t> places_at(Where stack);
  bool copy_places(const BatchView& whole, Where like, Where stack);
  std::optional<Where> take_apart(const BatchView& whole, Where stack);
  std::int32_t place_of(const Stacks::Column& column, std::span<const std::byte> stack, std::size_t k);
  static void make_room(Pool& pool, std::size_t planes, std::size_t plane_bytes);

  const Stacks& stacks_;
  std::vector<std::vector<std::int32_t>> places_;  // of each column that is a stack
  std::vector<Pool> pools_;
};

/// Rows in either form as whole ones.
class WholeRows {
 public:
  explicit WholeRows(const Stacks& stacks) : stacks_(stacks) {}
  /// Those rows themselves when they are whole, else joined ones, which are there until the next call.
  BatchView of(const BatchView& rows);

 private:
  const Stacks& stacks_;
  std::vector<std::byte> bytes_;
};

}  // namespace troupe
