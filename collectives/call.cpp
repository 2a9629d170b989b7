#include <troupe/collectives/call.hpp>

#include <fmt/format.h>

#include <cmath>

namespace troupe::collectives {

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMean:
      return "mean";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kProduct:
      return "product";
  }
  return "unknown";
}

std::string_view to_string(CallKind kind) {
  switch (kind) {
    case CallKind::kAllReduce:
      return "all_reduce";
    case CallKind::kAllGather:
      return "all_gather";
    case CallKind::kReduceScatter:
      return "reduce_scatter";
    case CallKind::kBroadcast:
      return "broadcast";
    case CallKind::kBarrier:
      return "barrier";
  }
  return "unknown";
}

namespace {

constexpr char kInPlace = '\x01';  // begins no tensor's name

}  // namespace

std::string in_place_of(const Call& call) { return kInPlace + call.describe(); }

std::optional<std::string_view> stood_for(std::string_view name) {
  if (name.empty() || name.front() != kInPlace) return std::nullopt;
  return name.substr(1);
}

std::string Call::describe() const {
  if (const auto text = stood_for(name)) return std::string(*text);
  std::string text = fmt::format("{} \"{}\"", to_string(kind), name);
  if (kind != CallKind::kBarrier) {
    const auto values = static_cast<std::int64_t>(count * sizeof(float) / dtype_bytes(dtype));
    text += fmt::format(" {}{}", to_string(dtype), (shape.rank() > 0 ? shape : Shape{values}).to_string());
  }
  if (kind == CallKind::kAllReduce || kind == CallKind::kReduceScatter) text += fmt::format(" {}", to_string(op));
  if (kind == CallKind::kBroadcast) text += fmt::format(" from rank {}", root);
  if (wire != DType::kF32) text += fmt::format(" as {}", to_string(wire));
  return text;
}

Status check_same_call(const Call& first, int first_rank, const Call& second, int second_rank, CallPlace place) {
  if (first == second) return {};
  return Error{Code::kShapeMismatch,
               fmt::format("collective: rank {} calls {}, but rank {} calls {} (call {} of epoch {})", second_rank,
                           second.describe(), first_rank, first.describe(), place.index, place.epoch)};
}

Status check_arguments(const Call& call, const CallOptions& options, const GroupView& view, std::size_t in,
                       std::size_t out) {
  auto invalid = [&](const std::string& what) {
    return Error{Code::kInvalidArgument,
                 fmt::format("collective: rank {} calls {}: {}", view.rank, call.describe(), what)};
  };
  if (!std::isfinite(options.weight) || options.weight < 0) {
    return invalid(fmt::format("weight is {}, expected a number >= 0", options.weight));
  }
  if (call.root < 0 || call.root >= view.size) return invalid(fmt::format("the group has {} ranks", view.size));
  if (call.wire != DType::kF32 && call.wire != DType::kBF16) return invalid("values travel as float32 or bfloat16");
  if (call.dtype != DType::kF32 &&
      (call.dtype != DType::kI64 || call.kind != CallKind::kAllGather || call.wire != DType::kF32)) {
    return invalid("only float32 is reduced or rounded, and only int64 gathered besides");
  }
  const std::size_t values = call.count * sizeof(float) / dtype_bytes(call.dtype);
  if (call.shape.rank() > 0 && call.shape.elements() != static_cast<std::int64_t>(values)) {
    return invalid(
        fmt::format("shape {} has {} elements, expected {}", call.shape.to_string(), call.shape.elements(), values));
  }
  const auto ranks = static_cast<std::size_t>(view.size);
  const std::size_t expected_in = call.kind == CallKind::kReduceScatter ? call.count * ranks : call.count;
  const std::size_t expected_out = call.kind == CallKind::kAllGather ? call.count * ranks : call.count;
  if (in != expected_in || out != expected_out) {
    return invalid(
        fmt::format("buffers hold {} and {} elements, expected {} and {}", in, out, expected_in, expected_out));
  }
  return {};
}

Error no_group_yet(const Call& call) {
  return {Code::kCancelled, fmt::format("collective: {}: no group yet", call.describe())};
}

Status check_view(const GroupView& view) {
  if (view.size >= 1 && view.rank >= 0 && view.rank < view.size) return {};
  return Error{Code::kInvalidArgument, fmt::format("group of epoch {}: rank {} of {}, expected 0 <= rank < size",
                                                   view.epoch, view.rank, view.size)};
}

}  // namespace troupe::collectives
