#include <fmt/format.h>

#include <algorithm>

#include <troupe/replay/detail/signature_bytes.hpp>

namespace troupe::replay::detail {

void put_signature(ByteWriter& out, const Signature& signature) {
  out.put(static_cast<std::uint32_t>(signature.size()));
  for (const TensorSpec& spec : signature) {
    out.put_string(spec.name);
    out.put(static_cast<std::uint8_t>(spec.dtype));
    out.put(static_cast<std::uint8_t>(spec.shape.rank()));
    for (std::int64_t dim : spec.shape.dims()) out.put(dim);
  }
}

Result<Signature> get_signature(ByteReader& in) {
  Signature signature;
  const auto columns = in.get<std::uint32_t>();
  for (std::uint32_t c = 0; c < columns && in.ok(); ++c) {
    TensorSpec spec;
    spec.name = in.get_string();
    const auto dtype = in.get<std::uint8_t>();
    const auto rank = in.get<std::uint8_t>();
    if (dtype > static_cast<std::uint8_t>(DType::kU8) || rank > Shape::kMaxRank) {
      return Error{Code::kCorrupt, fmt::format("column {} has dtype {} and rank {}", c, dtype, rank)};
    }
    spec.dtype = static_cast<DType>(dtype);
    std::vector<std::int64_t> dims(rank);
    for (std::int64_t& dim : dims) dim = in.get<std::int64_t>();
    if (std::any_of(dims.begin(), dims.end(), [](std::int64_t dim) { return dim < 0; })) {
      return Error{Code::kCorrupt, fmt::format("column {} has a negative dimension", c)};
    }
    spec.shape = Shape(std::span<const std::int64_t>(dims));
    signature.push_back(std::move(spec));
  }
  return signature;
}

}  // namespace troupe::replay::detail
