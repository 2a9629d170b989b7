#include <troupe/core/stacks.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/core/detail/byte_shuffle.hpp>

namespace troupe {
namespace {

std::size_t product(std::span<const std::int64_t> dims) {
  std::size_t all = 1;
  for (const std::int64_t dim : dims) all *= static_cast<std::size_t>(dim);
  return all;
}

/// The dimension that the planes are parts of, or -1 when there is none.
int axis_of(const TensorSpec& column) {
  const int rank = column.shape.rank();
  const int axis = column.stack.axis == -1 ? rank - 1 : column.stack.axis;
  return axis >= 0 && axis < rank ? axis : -1;
}

PlaneLayout layout_of(const TensorSpec& column) {
  const auto axis = static_cast<std::size_t>(axis_of(column));
  const auto dims = column.shape.dims();
  const auto planes = static_cast<std::size_t>(column.stack.planes);
  return {.planes = planes,
          .outer = product(dims.first(axis)),
          .unit = product(dims.subspan(axis)) * dtype_bytes(column.dtype) / planes};
}

detail::Interleaved interleaved(const PlaneLayout& layout) { return {layout.planes, layout.outer, layout.unit}; }

std::int32_t place_at(std::span<const std::byte> places, std::size_t index) {
  std::int32_t place;
  std::memcpy(&place, places.data() + index * sizeof(place), sizeof(place));
  return place;
}

}  // namespace

Status check_stacks(const Signature& signature, std::string_view where) {
  for (const TensorSpec& column : signature) {
    const Stack& stack = column.stack;
    if (stack.planes == 1) continue;
    const int axis = axis_of(column);
    if (stack.planes > 1 && stack.planes <= kMostPlanes && axis >= 0 && column.shape[axis] > 0 &&
        column.shape[axis] % stack.planes == 0) {
      continue;
    }
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: {} is a stack of {} planes along dimension {}, expected 1 to {} that a dimension is "
                             "made of",
                             where, column.to_string(), stack.planes, stack.axis, kMostPlanes)};
  }
  return {};
}

bool same_stacks(const Signature& a, const Signature& b) {
  return std::ranges::equal(a, b, {}, &TensorSpec::stack, &TensorSpec::stack);
}

Stacks::Stacks(Signature whole) : whole_(std::move(whole)), split_(whole_) {
  TROUPE_CHECK(check_stacks(whole_, "signature").ok(), "a signature with a stack that is none");
  for (std::size_t c = 0; c < whole_.size(); ++c) {
    split_[c].stack = {};
    if (whole_[c].stack.planes == 1) continue;
    const PlaneLayout layout = layout_of(whole_[c]);
    const Pool pool{layout.bytes(), whole_[c].dtype};
    const auto found = std::ranges::find(pools_, pool);
    columns_.push_back({c, layout, static_cast<std::size_t>(found - pools_.begin())});
    if (found == pools_.end()) pools_.push_back(pool);
    split_[c] = {whole_[c].name, DType::kI32, Shape{whole_[c].stack.planes}};
  }
}

Status Stacks::check_planes(const BatchView& rows, std::string_view where) const {
  if (rows.planes.size() != pools_.size()) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: planes of {} sizes, expected {}", where, rows.planes.size(), pools_.size())};
  }
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    const std::size_t bytes = rows.planes[p].size();
    if (bytes % pools_[p].bytes == 0 && bytes / pools_[p].bytes <= kMostPlanesOfRows) continue;
    return Error{Code::kInvalidArgument, fmt::format("{}: {} bytes of planes, expected at most {} planes of {}", where,
                                                     bytes, kMostPlanesOfRows, pools_[p].bytes)};
  }
  for (const Column& column : columns_) {
    const auto count = static_cast<std::int32_t>(rows.planes[column.pool].size() / column.layout.bytes());
    const auto places = rows.columns[column.index];
    for (std::size_t i = 0; i < places.size() / sizeof(std::int32_t); ++i) {
      const std::int32_t place = place_at(places, i);
      if (place >= 0 && place < count) continue;
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: row {} of column \"{}\" names plane {}, expected 0..{}", where,
                               i / column.layout.planes, whole_[column.index].name, place, count - 1)};
    }
  }
  return {};
}

void Stacks::join(const BatchView& rows, const MutableBatchView& out, std::int64_t first) const {
  const auto count = static_cast<std::size_t>(rows.rows);
  auto stacked = columns_.begin();
  std::vector<const std::byte*> planes;
  for (std::size_t c = 0; c < whole_.size(); ++c) {
    const std::size_t bytes = whole_[c].bytes();
    std::byte* to = out.columns[c].data() + static_cast<std::size_t>(first) * bytes;
    if (stacked == columns_.end() || stacked->index != c) {
      std::memcpy(to, rows.columns[c].data(), count * bytes);
      continue;
    }
    const PlaneLayout& layout = stacked->layout;
    planes.resize(layout.planes);
    for (std::size_t row = 0; row < count; ++row, to += bytes) {
      for (std::size_t k = 0; k < layout.planes; ++k) {
        const auto place = static_cast<std::size_t>(place_at(rows.columns[c], row * layout.planes + k));
        planes[k] = rows.planes[stacked->pool].data() + place * layout.bytes();
      }
      join_planes(layout, planes.data(), to);
    }
    ++stacked;
  }
}

void join_planes(const PlaneLayout& layout, const std::byte* const* planes, std::byte* to) {
  detail::interleave(planes, interleaved(layout), to);
}

std::uint64_t fingerprint(std::span<const std::byte> plane) {
  // Several sums side by side, so that no product waits for the one before.
  constexpr std::size_t kLanes = 8;
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15U;
  std::uint64_t lanes[kLanes] = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto take = [](std::uint64_t& lane, std::uint64_t word) {
    lane = (lane ^ word) * kOdd;
    lane ^= lane >> 32;
  };
  std::uint64_t words[kLanes];
  const std::byte* at = plane.data();
  std::size_t left = plane.size();
  for (; left >= sizeof(words); left -= sizeof(words), at += sizeof(words)) {
    std::memcpy(words, at, sizeof(words));
    for (std::size_t i = 0; i < kLanes; ++i) take(lanes[i], words[i]);
  }
  std::ranges::fill(words, 0);
  std::memcpy(words, at, left);
  for (std::size_t i = 0; i < kLanes; ++i) take(lanes[i], words[i]);
  for (std::size_t i = 1; i < kLanes; ++i) take(lanes[0], lanes[i]);
  return lanes[0];
}

// ---- splitting ----

StackSplitter::StackSplitter(const Stacks& stacks)
    : stacks_(stacks), places_(stacks.columns().size()), pools_(stacks.pools().size()) {}

BatchView StackSplitter::split(const BatchView& whole) {
  if (!stacks_.any()) return whole;
  BatchView rows{&stacks_.split(), whole.rows, whole.columns};
  for (Pool& pool : pools_) {
    pool.count = 0;
    pool.by_fingerprint.clear();
    pool.by_first.clear();
  }
  const auto count = static_cast<std::size_t>(whole.rows);
  for (std::size_t s = 0; s < places_.size(); ++s) {
    const Stacks::Column& column = stacks_.columns()[s];
    places_[s].resize(count * column.layout.planes);
    // As many as rows have that follow each other; a column of the same frames adds few.
    make_room(pools_[column.pool], count + 2 * column.layout.planes, column.layout.bytes());
    std::optional<Where> like;  // where the stack of the row before is, too
    for (std::size_t row = 0; row < count; ++row) {
      const Where stack{s, row};
      if (like.has_value()) ++like->row;
      if (like.has_value() && like->row < count && copy_places(whole, *like, stack)) continue;
      like.reset();
      if (row > 0 && detail::is_shifted(bytes_at(whole, {s, row - 1}).data(), bytes_at(whole, stack).data(),
                                        interleaved(column.layout))) {
        const std::span<std::int32_t> places = places_at(stack);
        std::ranges::copy(places_at({s, row - 1}).subspan(1), places.begin());
        places.back() = place_of(column, bytes_at(whole, stack), column.layout.planes - 1);
        pools_[column.pool].by_first.try_emplace(places.front(), stack);
      } else {
        like = take_apart(whole, stack);
      }
    }
    rows.columns[column.index] = std::as_bytes(std::span(places_[s]));
  }
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    rows.planes.push_back(
        std::span(pools_[p].bytes.get(), static_cast<std::size_t>(pools_[p].count) * stacks_.pools()[p].bytes));
  }
  return rows;
}

std::span<const std::byte> StackSplitter::bytes_at(const BatchView& whole, Where stack) const {
  const Stacks::Column& column = stacks_.columns()[stack.column];
  const std::size_t bytes = column.layout.planes * column.layout.bytes();
  return whole.columns[column.index].subspan(stack.row * bytes, bytes);
}

std::span<std::int32_t> StackSplitter::places_at(Where stack) {
  const std::size_t planes = stacks_.columns()[stack.column].layout.planes;
  return std::span(places_[stack.column]).subspan(stack.row * planes, planes);
}

/// Gives a stack the places of `like` when it is the same.
bool StackSplitter::copy_places(const BatchView& whole, Where like, Where stack) {
  if (stacks_.columns()[like.column].layout != stacks_.columns()[stack.column].layout) return false;
  const std::span<const std::byte> bytes = bytes_at(whole, stack);
  if (std::memcmp(bytes_at(whole, like).data(), bytes.data(), bytes.size()) != 0) return false;
  std::ranges::copy(places_at(like), places_at(stack).begin());
  return true;
}

/// Returns another stack that is the same, if one is found.
std::optional<StackSplitter::Where> StackSplitter::take_apart(const BatchView& whole, Where stack) {
  const Stacks::Column& column = stacks_.columns()[stack.column];
  const std::span<std::int32_t> places = places_at(stack);
  places.front() = place_of(column, bytes_at(whole, stack), 0);
  const auto [like, fresh] = pools_[column.pool].by_first.try_emplace(places.front(), stack);
  if (!fresh && copy_places(whole, like->second, stack)) return like->second;
  for (std::size_t k = 1; k < places.size(); ++k) places[k] = place_of(column, bytes_at(whole, stack), k);
  return std::nullopt;
}

/// The place of a stack's k-th plane, which is put behind the others of its pool unless it is there already.
std::int32_t StackSplitter::place_of(const Stacks::Column& column, std::span<const std::byte> stack, std::size_t k) {
  Pool& pool = pools_[column.pool];
  const std::size_t bytes = column.layout.bytes(), count = static_cast<std::size_t>(pool.count);
  if (count == pool.room) make_room(pool, 2 * count + 1, bytes);
  std::byte* const last = pool.bytes.get() + count * bytes;
  detail::deinterleave(stack.data(), interleaved(column.layout), k, last);
  const auto [found, fresh] = pool.by_fingerprint.try_emplace(fingerprint({last, bytes}), pool.count);
  const std::byte* const like = pool.bytes.get() + static_cast<std::size_t>(found->second) * bytes;
  if (!fresh && std::memcmp(like, last, bytes) == 0) return found->second;
  return pool.count++;
}

void StackSplitter::make_room(Pool& pool, std::size_t planes, std::size_t plane_bytes) {
  if (pool.room >= planes) return;
  auto bytes = std::make_unique_for_overwrite<std::byte[]>(planes * plane_bytes);
  if (pool.count > 0) std::memcpy(bytes.get(), pool.bytes.get(), static_cast<std::size_t>(pool.count) * plane_bytes);
  pool.bytes = std::move(bytes);
  pool.room = planes;
}

BatchView WholeRows::of(const BatchView& rows) {
  if (!stacks_.is_split(rows)) return rows;
  const auto count = static_cast<std::size_t>(rows.rows);
  bytes_.resize(count * row_bytes(stacks_.whole()));
  MutableBatchView whole{&stacks_.whole(), rows.rows, {}};
  std::span<std::byte> rest = bytes_;
  for (const TensorSpec& column : stacks_.whole()) {
    whole.columns.push_back(rest.first(count * column.bytes()));
    rest = rest.subspan(count * column.bytes());
  }
  stacks_.join(rows, whole, 0);
  return whole.view();
}

}  // namespace troupe
