#include <troupe/learner/ops/embedding.hpp>

#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

constexpr OpDef kEmbeddingGrad{
    .name = "embedding_grad",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      const Place place = in[0].place == Place::kRows ? Place::kPartial : in[0].place;
      return std::vector<ValueSpec>{{attr.shape, DType::kF32, place}};
    },
    .kernel = [](const KernelTable& table) { return table.embedding_grad; },
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
