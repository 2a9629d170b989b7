#include "tables.hpp"

namespace troupe::python {
namespace {

DType dtype_of(const std::string& name) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU8}) {
    if (to_string(dtype) == name) return dtype;
  }
  raise({Code::kInvalidArgument, "a column has type " + name + ", expected float32, float64, int32, int64 or uint8"});
}

replay::SelectorOptions selector_of(const char* what, const std::string& name, double exponent) {
  if (const auto kind = replay::selector_kind(name)) return {*kind, exponent};
  std::string known;
  for (const replay::SelectorKind kind : replay::kSelectorKinds) {
    known += (known.empty() ? "" : ", ") + std::string(to_string(kind));
  }
  raise({Code::kInvalidArgument, std::string(what) + " is " + name + ", expected one of " + known});
}

}  // namespace

replay::TableOptions table_options(const TableDescription& description) {
  const auto& [name, max_items, sampler, remover, exponent, max_times_sampled, limits, seed] = description;
  const auto& [per_insert, least, min_diff, max_diff] = limits;
  return {.name = name,
          .signature = {},
          .max_items = max_items,
          .sampler = selector_of("sampler", sampler, exponent),
          .remover = selector_of("remover", remover, exponent),
          .limiter = {.samples_per_insert = per_insert,
                      .min_size_to_sample = least,
                      .min_diff = min_diff,
                      .max_diff = max_diff},
          .max_times_sampled = max_times_sampled,
          .seed = seed};
}

replay::SequenceOptions sequence_options(const std::vector<Column>& columns,
                                         const std::vector<TableDescription>& tables,
                                         const PatternDescriptions& patterns, std::int64_t chunk_steps) {
  replay::SequenceOptions options{
      .step = signature_of(columns), .tables = {}, .patterns = {}, .chunk_steps = chunk_steps};
  for (const TableDescription& table : tables) options.tables.push_back(table_options(table));
  for (const auto& [table, pattern] : patterns) {
    auto& columns_of = options.patterns[table];
    for (const auto& [name, of, begin, end, single] : pattern) columns_of.push_back({name, of, begin, end, single});
  }
  return options;
}

Signature signature_of(const std::vector<Column>& columns) {
  Signature signature;
  for (const auto& [column, dtype, shape] : columns) {
    if (shape.size() > Shape::kMaxRank || std::ranges::any_of(shape, [](std::int64_t size) { return size < 1; })) {
      raise({Code::kInvalidArgument,
             "column " + column + ": a size below 1, or more than " + std::to_string(Shape::kMaxRank) + " dimensions"});
    }
    signature.push_back({column, dtype_of(dtype), Shape(std::span(shape))});
  }
  return signature;
}

}  // namespace troupe::python
