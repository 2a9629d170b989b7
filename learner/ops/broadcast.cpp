#include <troupe/learner/ops/broadcast.hpp>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

std::int64_t size_from_end(const Shape& shape, int back) {
  return back < shape.rank() ? shape[shape.rank() - 1 - back] : 1;
}

/// Whether `part` becomes `whole` by repeating.
bool repeats_to(const ValueSpec& part, const ValueSpec& whole) {
  if (part.shape.rank() > whole.shape.rank()) return false;
  for (int back = 0; back < whole.shape.rank(); ++back) {
    const std::int64_t size = size_from_end(part.shape, back);
    if (size != 1 && size != size_from_end(whole.shape, back)) return false;
  }
  if (whole.place != Place::kRows) return part.place == whole.place;
  if (part.place == Place::kRows) return part.shape.rank() == whole.shape.rank() && part.shape[0] == whole.shape[0];
  // Every stripe has other rows of the whole, so a replicated part repeats over them.
  return part.place == Place::kReplicated &&
         (part.shape.rank() < whole.shape.rank() || (part.shape.rank() > 0 && part.shape[0] == 1));
}

Var sum_to_spec(Var x, const ValueSpec& spec);

// shape and integer 0: those of the result, and how it is split.
constexpr OpDef kBroadcast{
    .name = "broadcast",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      const ValueSpec out{attr.shape, DType::kF32, static_cast<Place>(attr.integer[0])};
      if (in[0].dtype != DType::kF32 || !repeats_to(in[0], out)) {
        return shape_error(in, "a shape that repeats to " + attr.shape.to_string());
      }
      return std::vector<ValueSpec>{out};
    },
    .kernel = [](const KernelTable& table) { return table.broadcast; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      ValueSpec to = args.graph.spec(args.inputs[0]);
      const Place gradient = args.graph.spec(args.out_grads[0]).place;
      if (to.place != Place::kRows) to.place = gradient == Place::kRows ? Place::kPartial : gradient;
      return {sum_to_spec(args.out_grads[0], to)};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      hlo::Sizes axes;
      for (int d = n.attr.shape.rank() - n.in[0].rank(); d < n.attr.shape.rank(); ++d) axes.push_back(d);
      return {broadcast(n.in[0], n.attr.shape, axes)};
    },
};

constexpr OpDef kSumTo{
    .name = "sum_to",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      ValueSpec out{attr.shape, DType::kF32, static_cast<Place>(attr.integer[0])};
      // The sum of rows over stripes is what a replicated value would have been repeated to.
      const ValueSpec part{
          out.shape, out.dtype,
          in[0].place == Place::kRows && out.place == Place::kPartial ? Place::kReplicated : out.place};
      if (in[0].dtype != DType::kF32 || !repeats_to(part, in[0])) {
        return shape_error(in, "a shape to which " + attr.shape.to_string() + " repeats");
      }
      return std::vector<ValueSpec>{out};
    },
    .kernel = [](const KernelTable& table) { return table.sum_to; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      const ValueSpec& x = args.graph.spec(args.inputs[0]);
      const Place place = x.place == Place::kRows ? x.place : args.graph.spec(args.out_grads[0]).place;
      return {broadcast_to(args.out_grads[0], {x.shape, DType::kF32, place})};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const Shape &whole = n.in[0].shape(), &part = n.attr.shape;
      const int missing = whole.rank() - part.rank();
      hlo::Sizes gone;
      for (int d = 0; d < whole.rank(); ++d) {
        if (d < missing || part[d - missing] != whole[d]) gone.push_back(d);
      }
      return {reshape(sum(n.in[0], gone), part)};
    },
};

Var sum_to_spec(Var x, const ValueSpec& spec) {
  return x.graph->emit1(kSumTo, {x}, {.integer = {static_cast<std::int64_t>(spec.place)}, .shape = spec.shape});
}

/// The shape that all of them repeat to, if there is one.
std::optional<Shape> common_shape(std::span<const Var> operands) {
  int rank = 0;
  for (const Var& x : operands) rank = std::max(rank, x.graph->spec(x).shape.rank());
  std::vector<std::int64_t> dims(static_cast<std::size_t>(rank), 1);
  for (const Var& x : operands) {
    for (int back = 0; back < rank; ++back) {
      std::int64_t& size = dims[static_cast<std::size_t>(rank - 1 - back)];
      const std::int64_t own = size_from_end(x.graph->spec(x).shape, back);
      if (own != 1 && size != 1 && own != size) return std::nullopt;
      size = std::max(size, own);
    }
  }
  return Shape(dims);
}

}  // namespace

Var broadcast_to(Var x, const ValueSpec& spec) {
  if (!x) return {};
  return x.graph->emit1(kBroadcast, {x}, {.integer = {static_cast<std::int64_t>(spec.place)}, .shape = spec.shape});
}
Var broadcast(Var x, Var like) { return x && like ? broadcast_to(x, x.graph->spec(like)) : Var{}; }

Var sum_to(Var x, const Shape& shape) {
  if (!x) return {};
  const ValueSpec& spec = x.graph->spec(x);
  const bool keeps_rows = shape.rank() == spec.shape.rank() && shape.rank() > 0 && shape[0] == spec.shape[0];
  if (spec.place != Place::kRows || keeps_rows) return sum_to_spec(x, {shape, DType::kF32, spec.place});
  return sum_to_spec(mask_rows(x), {shape, DType::kF32, Place::kPartial});
}

void broadcast_together(std::span<Var> operands) {
  Graph* const graph = operands.front().graph;
  bool rows = false, alike = true;
  for (const Var& x : operands) {
    if (!x || x.graph != graph) return;
    const ValueSpec &spec = graph->spec(x), &first = graph->spec(operands.front());
    rows |= spec.place == Place::kRows;
    // A batch of one row has the shape of what repeats over rows.
    alike &= spec.shape == first.shape && (spec.place == Place::kRows) == (first.place == Place::kRows);
  }
  const std::optional<Shape> shape = common_shape(operands);
  if (alike || !shape) return;
  for (Var& x : operands) {
    const ValueSpec spec = graph->spec(x);
    const ValueSpec whole{*shape, DType::kF32, rows ? Place::kRows : spec.place};
    const bool is_whole = spec.shape == *shape && spec.place == whole.place;
    if (is_whole || spec.dtype != DType::kF32 || !repeats_to(spec, whole)) continue;
    x = broadcast_to(x, whole);
  }
}

}  // namespace troupe::learner
