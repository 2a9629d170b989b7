#include <troupe/learner/ops/embedding.hpp>

#include <cmath>

#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

/// Indices as vectors of one number.
hlo::Value lookup(const hlo::Value& index) {
  hlo::Sizes sizes(index.shape().dims().begin(), index.shape().dims().end());
  sizes.push_back(1);
  return reshape(index, Shape(sizes));
}
hlo::Value is_row(const hlo::Value& index, std::int64_t rows) {
  return is_at_least(index, 0) & is_less(index, static_cast<double>(rows));
}
constexpr OpDef kEmbeddingGrad{
    .name = "embedding_grad",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      const Place place = in[0].place == Place::kRows ? Place::kPartial : in[0].place;
      return std::vector<ValueSpec>{{attr.shape, DType::kF32, place}};
    },
    .kernel = [](const KernelTable& table) { return table.embedding_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value index = lookup(n.in[1]), known = is_row(n.in[1], n.attr.shape[0]);
      const hlo::Value table = give_back(n.in[0], index, {0}, n.attr.shape);
      // One NaN shows that an index was none; it stands in the first element.
      const hlo::Value all = is_equal(sum(convert(!known, hlo::Element::kI32), all_axes(known)), 0);
      const hlo::Value first = n.to.constant(NAN, {{1, 1}});
      const hlo::Sizes rest = {table.size(0) - 1, table.size(1) - 1};
      return {select(all, table, table + pad(first, 0, {.low = {0, 0}, .high = rest}))};
    },
};
constexpr OpDef kEmbedding{
    .name = "embedding",
    .infer = [](Specs in, const Attr&) -> Inferred {
      if (in[0].shape.rank() != 2 || in[0].dtype != DType::kF32 || in[0].place != Place::kReplicated ||
          in[1].dtype != DType::kI32) {
        return shape_error(in, "a replicated table [vocabulary, n] and int32 indices");
      }
      std::vector<std::int64_t> dims(in[1].shape.dims().begin(), in[1].shape.dims().end());
      dims.push_back(in[0].shape[1]);
      return std::vector<ValueSpec>{{Shape(dims), DType::kF32, in[1].place}};
    },
    .kernel = [](const KernelTable& table) { return table.embedding; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.graph.emit1(kEmbeddingGrad, {args.out_grads[0], args.inputs[1]},
                               {.shape = args.graph.spec(args.inputs[0]).shape})};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value known = is_row(n.in[1], n.in[0].size(0));
      const hlo::Value taken = take(n.in[0], lookup(select(known, n.in[1], 0)), {0});
      return {select(over_last(known, taken.shape()), taken, NAN)};
    },
};

}  // namespace

Var embedding(Var table, Var indices) {
  return table && indices ? table.graph->emit1(kEmbedding, {table, indices}) : Var{};
}

std::vector<EmbeddingTable> embedding_tables(const Graph& graph) {
  const GraphData& data = GraphAccess::data(graph);
  std::vector<EmbeddingTable> tables;
  for (std::uint32_t id = 0; id < data.values.size(); ++id) {
    const Value& value = data.values[id];
    if (value.source != Source::kParam) continue;
    const auto group = static_cast<std::size_t>(value.index);
    bool looked_up = data.groups[group].online < 0, read = false;
    for (const Node& node : data.nodes) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != id) continue;
        read = true;
        looked_up &= node.op == &kEmbedding && i == 0;
      }
    }
    if (read && looked_up) tables.push_back({group, static_cast<std::size_t>(value.entry)});
  }
  return tables;
}

}  // namespace troupe::learner
