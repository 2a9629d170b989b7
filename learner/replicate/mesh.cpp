#include <troupe/learner/replicate/mesh.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/graph/hlo.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

// split cuts a value along an axis into pieces, join puts them together; each is the other's gradient. One node does
// all pieces, so the gradient of a parameter is put together by one copy and not by adding up padded pieces.
// integer 0: axis, 1: number of pieces.

Shape with_axis(const Shape& shape, int axis, std::int64_t size) {
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[static_cast<std::size_t>(axis)] = size;
  return Shape(dims);
}

/// The same elements lie in `whole` and one after the other in `pieces`: calls copy(whole, piece, elements) for each
/// run.
template <typename T, typename Copy>
void for_each_run(const Operand& whole, const Operand* pieces, const Attr& attr, const Copy& copy) {
  const int axis = static_cast<int>(attr.integer[0]);
  std::int64_t outer = 1;
  for (int i = 0; i < axis; ++i) outer *= (*whole.shape)[i];
  if (outer == 0) return;
  const std::int64_t stride = whole.elements() / outer;
  std::int64_t offset = 0;
  for (std::int64_t p = 0; p < attr.integer[1]; ++p) {
    const std::int64_t run = pieces[p].elements() / outer;
    for (std::int64_t i = 0; i < outer && pieces[p].data != nullptr; ++i) {
      copy(whole.as<T>() + i * stride + offset, pieces[p].as<T>() + i * run, run);
    }
    offset += run;
  }
}

template <typename T>
void split_kernel(const KernelArgs& args) {
  for_each_run<T>(args.in[0], args.out, *args.attr,
                  [](const T* whole, T* piece, std::int64_t n) { std::copy_n(whole, n, piece); });
}
template <typename T>
void join_kernel(const KernelArgs& args) {
  for_each_run<T>(args.out[0], args.in, *args.attr,
                  [](T* whole, const T* piece, std::int64_t n) { std::copy_n(piece, n, whole); });
}

Var join(std::span<const Var> pieces, int axis);
std::vector<Var> split(Var x, int axis, std::int64_t count);

std::vector<Var> split_vjp(const VjpArgs& args) {
  std::vector<Var> grads(args.out_grads.begin(), args.out_grads.end());
  const auto some = std::ranges::find_if(grads, [](Var grad) { return static_cast<bool>(grad); });
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i]) {
      grads[i] =
          fill(args.graph.constant({}, {0.0F}), args.graph.spec(args.outputs[i]).shape, args.graph.spec(*some).place);
    }
  }
  return {join(grads, static_cast<int>(args.attr.integer[0]))};
}

constexpr OpDef kSplit{
    .name = "split",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      TROUPE_TRY(check_real(in, 1));
      const int axis = static_cast<int>(attr.integer[0]);
      const std::int64_t size = in[0].shape[axis], count = attr.integer[1];
      std::vector<ValueSpec> pieces;
      for (std::int64_t p = 0; p < count; ++p) {
        const std::int64_t part = size * (p + 1) / count - size * p / count;
        pieces.push_back({with_axis(in[0].shape, axis, part), DType::kF32, in[0].place});
      }
      return pieces;
    },
    .kernel = [](const KernelTable& table) -> KernelFn {
      return table.dtype == DType::kF64 ? split_kernel<double> : split_kernel<float>;
    },
    .vjp = split_vjp,
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      hlo::Values pieces;
      hlo::Sizes begin(static_cast<std::size_t>(n.in[0].rank())),
          end(n.in[0].shape().dims().begin(), n.in[0].shape().dims().end());
      const auto axis = static_cast<std::size_t>(n.attr.integer[0]);
      for (const ValueSpec& piece : n.out_specs) {
        end[axis] = begin[axis] + piece.shape[static_cast<int>(axis)];
        pieces.push_back(slice(n.in[0], begin, end));
        begin[axis] = end[axis];
      }
      return pieces;
    },
};

constexpr OpDef kJoin{
    .name = "join",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      TROUPE_TRY(check_real(in, static_cast<std::size_t>(attr.integer[1])));
      const int axis = static_cast<int>(attr.integer[0]);
      std::int64_t size = 0;
      for (const ValueSpec& piece : in) size += piece.shape[axis];
      return std::vector<ValueSpec>{{with_axis(in[0].shape, axis, size), DType::kF32, in[0].place}};
    },
    .kernel = [](const KernelTable& table) -> KernelFn {
      return table.dtype == DType::kF64 ? join_kernel<double> : join_kernel<float>;
    },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return split(args.out_grads[0], static_cast<int>(args.attr.integer[0]), args.attr.integer[1]);
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {concat(n.in, n.attr.integer[0])}; },
};

std::vector<Var> split(Var x, int axis, std::int64_t count) {
  std::vector<Var> pieces = x.graph->emit(kSplit, std::array{x}, {.integer = {axis, count}});
  pieces.resize(static_cast<std::size_t>(count));  // after an error there are as many as emit() likes
  return pieces;
}
Var join(std::span<const Var> pieces, int axis) {
  if (!pieces[0]) return {};
  return pieces[0].graph->emit(kJoin, pieces, {.integer = {axis, static_cast<std::int64_t>(pieces.size())}})[0];
}

/// Calls make(d) for each device of the mesh, placed there.
template <typename Make>
std::vector<Var> on_each(ReplicaContext& context, std::int64_t devices, const Make& make) {
  std::vector<Var> made;
  for (std::int64_t d = 0; d < devices; ++d) {
    const DeviceScope on = context.device(static_cast<int>(d));
    made.push_back(make(static_cast<std::size_t>(d)));
  }
  return made;
}

}  // namespace

Var MeshValue::whole() const { return axis_ < 0 ? pieces_[0] : join(pieces_, axis_); }

namespace {

/// What a stage has emitted since there were `nodes` nodes and `assigns` assignments must treat each row alone.
Status check_stage(const GraphData& data, std::size_t nodes, std::size_t assigns) {
  for (std::size_t i = nodes; i < data.nodes.size(); ++i) {
    const Node& node = data.nodes[i];
    const bool rows_in =
        std::ranges::any_of(node.inputs, [&](std::uint32_t id) { return data.values[id].spec.place == Place::kRows; });
    const bool rows_out =
        std::ranges::all_of(node.outputs, [&](std::uint32_t id) { return data.values[id].spec.place == Place::kRows; });
    if (rows_in && (!rows_out || node.op == nullptr)) {
      return Error{Code::kInvalidArgument, fmt::format("has {}", node.op == nullptr ? "joint" : node.op->name)};
    }
  }
  if (data.assigns.size() > assigns) return Error{Code::kInvalidArgument, "assigns a state"};
  return {};
}

}  // namespace

Var pipeline(ReplicaContext& context, Var x, std::int64_t parts, std::span<const Stage> stages) {
  Graph& graph = context.graph();
  if (!x) return {};
  if (parts < 1 || graph.batch() % parts != 0 || graph.spec(x).place != Place::kRows) {
    return graph.fail(
        Code::kInvalidArgument,
        fmt::format("pipeline: {} parts of a {} value {}, expected rows and a divisor of the batch of {}", parts,
                    to_string(graph.spec(x).place), graph.spec(x).shape.to_string(), graph.batch()));
  }
  // The order of nodes is each device's order: by parts, so that a stage passes one on before it takes the next.
  std::vector<Var> pieces = parts == 1 ? std::vector{x} : split(x, 0, parts);
  for (Var& piece : pieces) {
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const DeviceScope on = context.device(static_cast<int>(i));
      const std::size_t nodes = GraphAccess::data(graph).nodes.size(),
                        assigns = GraphAccess::data(graph).assigns.size();
      piece = stages[i](piece);
      const Status alone = check_stage(GraphAccess::data(graph), nodes, assigns);
      if (parts > 1 && !alone.ok()) {
        return graph.fail(
            Code::kInvalidArgument,
            fmt::format("pipeline: stage {} {}, expected one that treats rows alone", i, alone.error().message));
      }
    }
  }
  return parts == 1 ? pieces[0] : join(pieces, 0);
}

MeshValue mesh_linear(ReplicaContext& context, const MeshValue& x, const LinearLayer& layer, Split how) {
  Graph& graph = context.graph();
  if (!graph.status().ok() || !x.pieces_[0]) return Var{};
  std::int64_t in = 0;
  for (const Var piece : x.pieces_) {
    const Shape& shape = graph.spec(piece).shape;
    if (shape.rank() != 2) {
      return graph.fail(Code::kShapeMismatch,
                        fmt::format("mesh_linear \"{}\": got {}, expected [rows, in]", layer.name, shape.to_string()));
    }
    in = x.axis_ == 1 ? in + shape[1] : shape[1];
  }
  const Var weight = graph.param(layer.group, fmt::format("{}/weight", layer.name), {in, layer.out}, layer.weight);
  const Var bias = graph.param(layer.group, fmt::format("{}/bias", layer.name), {layer.out}, layer.bias);
  const std::int64_t devices = context.devices();
  if (how == Split::kNone || devices == 1) return linear(x.whole(), weight, bias, layer.activation);

  if (how == Split::kBatch) {
    std::int64_t parts = std::min(devices, graph.batch());
    while (graph.batch() % parts != 0) --parts;
    const std::vector<Var> rows = x.axis_ == 0 ? x.pieces_ : split(x.whole(), 0, parts);
    return MeshValue(
        on_each(context, parts, [&](std::size_t d) { return linear(rows[d], weight, bias, layer.activation); }), 0);
  }
  if (x.axis_ != 1) {
    const std::int64_t parts = std::min(devices, layer.out);
    const Var whole = x.whole();
    const std::vector<Var> weights = split(weight, 1, parts), biases = split(bias, 0, parts);
    return MeshValue(
        on_each(context, parts, [&](std::size_t d) { return linear(whole, weights[d], biases[d], layer.activation); }),
        1);
  }
  const auto parts = static_cast<std::int64_t>(x.pieces_.size());
  const std::vector<Var> weights = split(weight, 0, parts);  // cut as the columns of x are
  const std::vector<Var> sums =
      on_each(context, parts, [&](std::size_t d) { return matmul(x.pieces_[d], weights[d]); });
  Var sum = sums[0];
  for (std::size_t d = 1; d < sums.size(); ++d) sum = add(sum, sums[d]);
  return bias_activation(sum, bias, layer.activation);
}

}  // namespace troupe::learner
