#include <troupe/messages/columns.hpp>

#include <algorithm>
#include <array>

#include <troupe/messages/detail/finite.hpp>
#include <troupe/messages/detail/wire.hpp>

namespace troupe::messages {
namespace {

__extension__ typedef unsigned __int128 Wide;

/// Bytes of a column, or more than kMaxColumnBytes when it does not fit: the product saturates, dimension by dimension.
std::size_t saturated_bytes(DType dtype, std::span<const std::int64_t> dims, std::int64_t rows) {
  Wide bytes = Wide{dtype_bytes(dtype)} * static_cast<std::uint64_t>(rows);
  for (std::int64_t dim : dims) bytes = std::min(bytes * static_cast<std::uint64_t>(dim), Wide{kMaxColumnBytes} + 1);
  return static_cast<std::size_t>(bytes);
}

}  // namespace

Result<TensorSpec> read_spec(schema::TensorSpec::Reader spec, std::string_view where) {
  TensorSpec result;
  TROUPE_ASSIGN(result.name, text_of(spec.getName(), kMaxColumnNameBytes, where));
  TROUPE_ASSIGN(result.dtype, dtype_of(spec.getDtype(), where));
  const auto dims = spec.getDims();
  if (dims.size() > Shape::kMaxRank) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got rank {}, expected at most {}", where, dims.size(), Shape::kMaxRank)};
  }
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  for (unsigned i = 0; i < dims.size(); ++i) {
    sizes[i] = dims[i];
    if (sizes[i] < 1) {
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: dimension {} is {}, expected at least 1", where, i, sizes[i])};
    }
  }
  // Checked before a Shape exists, so that its product cannot overflow.
  if (saturated_bytes(result.dtype, std::span(sizes).first(dims.size()), 1) > kMaxColumnBytes) {
    return Error{Code::kInvalidArgument, fmt::format("{}: a row of more than {} bytes", where, kMaxColumnBytes)};
  }
  result.shape = Shape(std::span<const std::int64_t>(sizes).first(dims.size()));
  return result;
}

Status check_columns(const Signature& signature, std::int64_t rows, std::string_view where) {
  if (signature.empty() || signature.size() > kMaxColumns) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got {} columns, expected 1..{}", where, signature.size(), kMaxColumns)};
  }
  if (rows < 0 || rows > kMaxRows) {
    return Error{Code::kInvalidArgument, fmt::format("{}: got {} rows, expected 0..{}", where, rows, kMaxRows)};
  }
  for (std::size_t i = 0; i < signature.size(); ++i) {
    const TensorSpec& spec = signature[i];
    const bool printable = std::ranges::all_of(spec.name, [](char c) { return c > ' ' && c < 0x7f; });
    if (spec.name.empty() || spec.name.size() > kMaxColumnNameBytes || !printable) {
      return Error{Code::kInvalidArgument, fmt::format("{}: the name of column {} is not 1..{} printable characters",
                                                       where, i, kMaxColumnNameBytes)};
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (signature[j].name == spec.name) {
        return Error{Code::kInvalidArgument, fmt::format("{}: two columns are named {}", where, spec.name)};
      }
    }
    if (std::ranges::any_of(spec.shape.dims(), [](std::int64_t dim) { return dim < 1; })) {
      return Error{Code::kInvalidArgument, fmt::format("{}: {} has no elements", where, spec.to_string())};
    }
    if (saturated_bytes(spec.dtype, spec.shape.dims(), std::max<std::int64_t>(rows, 1)) > kMaxColumnBytes) {
      return Error{Code::kInvalidArgument, fmt::format("{}: {} rows of {} take more than {} bytes", where, rows,
                                                       spec.to_string(), kMaxColumnBytes)};
    }
  }
  return {};
}

std::size_t column_head_words(const Signature& signature) {
  std::size_t words = 1;  // the list's tag
  for (const TensorSpec& spec : signature) {
    words += 2 + 3 + text_words(spec.name.size()) + static_cast<std::size_t>(spec.shape.rank());  // Column, TensorSpec
  }
  return words;
}

void write_spec(schema::TensorSpec::Builder to, const TensorSpec& spec) {
  to.setName(kj::StringPtr(spec.name.data(), spec.name.size()));
  to.setDtype(to_schema(spec.dtype));
  auto dims = to.initDims(static_cast<unsigned>(spec.shape.rank()));
  for (unsigned axis = 0; axis < dims.size(); ++axis) dims.set(axis, spec.shape[static_cast<int>(axis)]);
}

void write_specs(capnp::List<schema::Column>::Builder columns, const Signature& signature) {
  for (unsigned i = 0; i < signature.size(); ++i) write_spec(columns[i].initSpec(), signature[i]);
}

MutableBatchView lay_out_columns(MessageWriter& writer, capnp::List<schema::Column>::Builder columns,
                                 const Signature& signature, std::int64_t rows) {
  MutableBatchView view{&signature, rows, {}};
  view.columns.reserve(signature.size());
  for (unsigned i = 0; i < signature.size(); ++i) {
    auto data = writer.aligned_data(signature[i].bytes() * static_cast<std::size_t>(rows));
    view.columns.emplace_back(reinterpret_cast<std::byte*>(data.get().begin()), data.get().size());
    columns[i].adoptData(std::move(data));
  }
  return view;
}

Result<ReadColumns> read_columns(capnp::List<schema::Column>::Reader columns, std::int64_t rows, std::string_view where,
                                 Values values) {
  if (columns.size() > kMaxColumns) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got {} columns, expected at most {}", where, columns.size(), kMaxColumns)};
  }
  auto signature = std::make_shared<Signature>();
  signature->reserve(columns.size());
  for (unsigned i = 0; i < columns.size(); ++i) {
    TROUPE_ASSIGN(TensorSpec spec, read_spec(columns[i].getSpec(), fmt::format("{}: column {}", where, i)));
    signature->push_back(std::move(spec));
  }
  TROUPE_TRY(check_columns(*signature, rows, where));
  ReadColumns result{signature, BatchView{signature.get(), rows, {}}};
  result.view.columns.reserve(columns.size());
  for (unsigned i = 0; i < columns.size(); ++i) {
    const TensorSpec& spec = (*signature)[i];
    const capnp::Data::Reader data = columns[i].getData();
    const std::size_t expected = spec.bytes() * static_cast<std::size_t>(rows);
    if (data.size() != expected) {
      return Error{Code::kInvalidArgument, fmt::format("{}: column {} has {} bytes, expected {} for {} rows", where,
                                                       spec.to_string(), data.size(), expected, rows)};
    }
    const std::span<const std::byte> bytes{reinterpret_cast<const std::byte*>(data.begin()), data.size()};
    if (values == Values::kFinite) TROUPE_TRY(check_finite(spec, bytes, where));
    result.view.columns.push_back(bytes);
  }
  return result;
}

Status check_finite(const TensorSpec& column, std::span<const std::byte> values, std::string_view where) {
  if (all_finite(column.dtype, values)) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{}: column {} holds a NaN or an infinity", where, column.to_string())};
}

}  // namespace troupe::messages
