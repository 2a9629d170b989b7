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

void take_plane(const PlaneLayout& layout, std::span<const std::byte> stack, std::size_t k, std::byte* to) {
  detail::deinterleave(stack.data(), {layout.planes, layout.outer, layout.unit}, k, to);
}

void join_planes(const PlaneLayout& layout, const std::byte* const* planes, std::byte* to) {
  detail::interleave(planes, {layout.planes, layout.outer, layout.unit}, to);
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
  BatchView rows{&stacks_.split(), whole.rows, whole.columns};
  if (!stacks_.any()) return whole;
  for (Pool& pool : pools_) {
    pool.bytes.clear();
    pool.count = 0;
    pool.by_fingerprint.clear();
  }
  const auto count = static_cast<std::size_t>(whole.rows);
  for (std::size_t s = 0; s < places_.size(); ++s) {
    const Stacks::Column& column = stacks_.columns()[s];
    Pool& pool = pools_[column.pool];
    const std::size_t plane = column.layout.bytes(), stack = plane * column.layout.planes;
    places_[s].resize(count * column.layout.planes);
    for (std::size_t i = 0; i < places_[s].size(); ++i) {
      pool.bytes.resize((static_cast<std::size_t>(pool.count) + 1) * plane);
      take_plane(column.layout, whole.columns[column.index].subspan(i / column.layout.planes * stack, stack),
                 i % column.layout.planes, pool.bytes.data() + static_cast<std::size_t>(pool.count) * plane);
      places_[s][i] = place_of_last(pool, plane);
    }
    rows.columns[column.index] = std::as_bytes(std::span(places_[s]));
  }
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    rows.planes.push_back(
        std::span(pools_[p].bytes).first(static_cast<std::size_t>(pools_[p].count) * stacks_.pools()[p].bytes));
  }
  return rows;
}

/// The place of the plane that was written behind the others, which is then one of them, unless it is there already.
std::int32_t StackSplitter::place_of_last(Pool& pool, std::size_t plane_bytes) {
  const std::byte* const last = pool.bytes.data() + static_cast<std::size_t>(pool.count) * plane_bytes;
  const auto [found, fresh] = pool.by_fingerprint.try_emplace(fingerprint({last, plane_bytes}), pool.count);
  const std::byte* const like = pool.bytes.data() + static_cast<std::size_t>(found->second) * plane_bytes;
  if (!fresh && std::memcmp(like, last, plane_bytes) == 0) return found->second;
  return pool.count++;
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
