#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/stacks.hpp>
#include <troupe/replay/detail/signature_bytes.hpp>

namespace troupe::replay::detail {
namespace {

/// Added to the rank of a column that is a stack, of which more follows: those of others are as they always were.
constexpr int kStacked = 0x80;

}  // namespace

void put_signature(ByteWriter& out, const Signature& signature) {
  out.put(static_cast<std::uint32_t>(signature.size()));
  for (const TensorSpec& spec : signature) {
    out.put_string(spec.name);
    out.put(static_cast<std::uint8_t>(spec.dtype));
    const bool stacked = spec.stack != Stack{};
    out.put(static_cast<std::uint8_t>(spec.shape.rank() + (stacked ? kStacked : 0)));
    for (std::int64_t dim : spec.shape.dims()) out.put(dim);
    if (!stacked) continue;
    out.put(spec.stack.planes);
    out.put(static_cast<std::int32_t>(spec.stack.axis));
  }
}

Result<Signature> get_signature(ByteReader& in) {
  Signature signature;
  const auto columns = in.get<std::uint32_t>();
  for (std::uint32_t c = 0; c < columns && in.ok(); ++c) {
    TensorSpec spec;
    spec.name = in.get_string();
    const auto dtype = in.get<std::uint8_t>();
    const auto rank_byte = in.get<std::uint8_t>();
    const bool stacked = (rank_byte & kStacked) != 0;
    const int rank = rank_byte & ~kStacked;
    if (dtype > static_cast<std::uint8_t>(DType::kU8) || rank > Shape::kMaxRank) {
      return Error{Code::kCorrupt, fmt::format("column {} has dtype {} and rank {}", c, dtype, rank)};
    }
    spec.dtype = static_cast<DType>(dtype);
    std::vector<std::int64_t> dims(static_cast<std::size_t>(rank));
    for (std::int64_t& dim : dims) dim = in.get<std::int64_t>();
    if (std::any_of(dims.begin(), dims.end(), [](std::int64_t dim) { return dim < 0; })) {
      return Error{Code::kCorrupt, fmt::format("column {} has a negative dimension", c)};
    }
    spec.shape = Shape(std::span<const std::int64_t>(dims));
    if (stacked) spec.stack = {in.get<std::int64_t>(), in.get<std::int32_t>()};
    signature.push_back(std::move(spec));
  }
  // What has run out of bytes is no signature, which whoever reads on will find.
  if (const Status stacks = check_stacks(signature, "signature"); in.ok() && !stacks.ok()) {
    return Error{Code::kCorrupt, stacks.error().message};
  }
  return signature;
}

}  // namespace troupe::replay::detail
