#include <troupe/learner/engine/policy.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/learner/graph/graph_data.hpp>

namespace troupe::learner {
namespace {

/// What the graph reads and gives are these columns, and nothing else.
Status check_policy_graph(const Graph& graph, const PolicyColumns& columns) {
  const GraphData& data = GraphAccess::data(graph);
  for (const InputDef& input : data.inputs) {
    if (find(columns.inputs, input.name) < 0) {
      return Error{Code::kNotFound,
                   fmt::format("policy: the network reads {}, which is no column of its input", input.name)};
    }
  }
  Signature given;
  for (const NamedValue& output : data.outputs) {
    const Shape& shape = data.values[output.value].spec.shape;
    if (shape.rank() < 1 || shape[0] != graph.batch()) {
      return Error{Code::kShapeMismatch, fmt::format("policy: output {} is {}, expected {} rows", output.name,
                                                     shape.to_string(), graph.batch())};
    }
    given.push_back({output.name, DType::kF32, Shape(shape.dims().subspan(1))});
  }
  return check_same(given, columns.outputs, "policy: outputs of the network");
}

/// Nobody acts by what a network begins with at random, and to draw it takes seconds where it is a large orthogonal
/// matrix: it is 0 until load().
void begin_without_draws(Graph& graph) {
  const auto undrawn = [](std::vector<Init>& inits) {
    for (Init& init : inits) {
      if (init.kind != Init::Kind::kConstant) init = Init::constant(0);
    }
  };
  GraphData& data = GraphAccess::data(graph);
  for (GroupDef& group : data.groups) undrawn(group.inits);
  undrawn(data.state.inits);
}

}  // namespace

Policy::Policy(std::unique_ptr<Program> program, PolicyColumns columns, std::int64_t rows)
    : program_(std::move(program)),
      layout_(published()),
      fingerprint_(layout_.fingerprint()),
      columns_(std::move(columns)),
      rows_(rows),
      inputs_(columns_.inputs, rows) {}

Result<std::unique_ptr<Policy>> Policy::make(const Network& network, PolicyColumns columns,
                                             const PolicyOptions& options) {
  if (options.rows < 1) {
    return Error{Code::kInvalidArgument, fmt::format("policy: rows is {}, expected at least 1", options.rows)};
  }
  Graph graph(options.rows);
  network(graph);
  TROUPE_TRY(graph.status());
  TROUPE_TRY(check_policy_graph(graph, columns));
  begin_without_draws(graph);
  TROUPE_ASSIGN(std::unique_ptr<Program> program, Program::compile(graph, options.compile));
  if (program->group_count() == 0) {
    return Error{Code::kInvalidArgument, "policy: no parameter groups, expected at least one"};
  }
  for (const ParamEntry& entry : program->state().layout().entries) {
    bool is_published = false;
    for (std::size_t g = 0; g < program->group_count(); ++g) {
      is_published = is_published || is_published_with(program->group(g).layout().group, entry.name);
    }
    if (is_published) continue;
    return Error{Code::kInvalidArgument,
                 fmt::format("policy: state \"{}\", expected a name that begins with \"state/{}/\"", entry.name,
                             program->group(0).layout().group)};
  }
  std::unique_ptr<Policy> policy(new Policy(std::move(program), std::move(columns), options.rows));
  TROUPE_TRY(policy->bind());
  return policy;
}

Status Policy::bind() {
  const BatchView inputs = inputs_.view();
  for (std::size_t c = 0; c < columns_.inputs.size(); ++c) {
    const TensorSpec& column = columns_.inputs[c];
    if (column.dtype == DType::kF32) {
      TROUPE_TRY(program_->bind(column.name, inputs.as<float>(c)));
    } else if (column.dtype == DType::kI32) {
      TROUPE_TRY(program_->bind(column.name, inputs.as<std::int32_t>(c)));
    } else if (column.dtype == DType::kU8) {
      TROUPE_TRY(program_->bind(column.name, inputs.as<std::uint8_t>(c)));
    } else {
      return Error{Code::kInvalidArgument,
                   fmt::format("policy: input {}, expected float32, int32 or uint8", column.to_string())};
    }
  }
  return {};
}

Status Policy::load(std::span<const float> parameters, std::uint64_t fingerprint) {
  if (fingerprint != fingerprint_ || static_cast<std::int64_t>(parameters.size()) != layout_.elements) {
    return Error{
        Code::kShapeMismatch,
        fmt::format("parameters of group \"{}\": got {} values with fingerprint {:016x}, expected {} with {:016x}",
                    layout_.group, parameters.size(), fingerprint, layout_.elements, fingerprint_)};
  }
  const std::vector<std::span<float>> to = tensors();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto from = parameters.subspan(static_cast<std::size_t>(layout_.entries[i].offset), to[i].size());
    std::ranges::copy(from, to[i].begin());
  }
  program_->parameters_changed();
  return {};
}

std::vector<float> Policy::values() const {
  std::vector<float> all(static_cast<std::size_t>(layout_.elements), 0.0F);
  const std::vector<std::span<float>> from = tensors();
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::ranges::copy(from[i], all.begin() + layout_.entries[i].offset);
  }
  return all;
}

ParamLayout Policy::published() const {
  std::vector<const ParamLayout*> groups;
  for (std::size_t g = 0; g < program_->group_count(); ++g) groups.push_back(&program_->group(g).layout());
  return published_layout(groups, program_->state().layout());
}

std::vector<std::span<float>> Policy::tensors() const {
  std::vector<std::span<float>> all;
  const auto add = [&all](ParamBuffer& buffer) {
    for (const ParamEntry& entry : buffer.layout().entries) all.push_back(buffer.tensor(entry));
  };
  for (std::size_t g = 0; g < program_->group_count(); ++g) add(program_->group(g));
  add(program_->state());  // all of it is published
  return all;
}

Status Policy::act(const BatchView& inputs, const MutableBatchView& outputs) {
  if (inputs.rows < 1 || inputs.rows > rows_ || outputs.rows != inputs.rows ||
      inputs.columns.size() != columns_.inputs.size() || outputs.columns.size() != columns_.outputs.size()) {
    return Error{Code::kShapeMismatch,
                 fmt::format("act: {} rows of {} columns to {} rows of {}, expected n rows of {} and of {} with n in "
                             "1..{}",
                             inputs.rows, inputs.columns.size(), outputs.rows, outputs.columns.size(),
                             columns_.inputs.size(), columns_.outputs.size(), rows_)};
  }
  for (std::size_t c = 0; c < inputs.columns.size(); ++c) {
    const auto from = inputs.columns[c];
    const std::size_t expected = columns_.inputs[c].bytes() * static_cast<std::size_t>(inputs.rows);
    if (from.size() != expected) {
      return Error{Code::kShapeMismatch, fmt::format("act: {} bytes for {}, expected {}", from.size(),
                                                     columns_.inputs[c].to_string(), expected)};
    }
    std::memcpy(inputs_.mutable_view().columns[c].data(), from.data(), from.size());
  }
  TROUPE_TRY(program_->run());
  for (std::size_t c = 0; c < outputs.columns.size(); ++c) {
    const auto result = std::as_bytes(program_->output(columns_.outputs[c].name));
    const auto to = outputs.columns[c];
    if (to.size() != columns_.outputs[c].bytes() * static_cast<std::size_t>(outputs.rows)) {
      return Error{Code::kShapeMismatch,
                   fmt::format("act: {} bytes for {}", to.size(), columns_.outputs[c].to_string())};
    }
    std::memcpy(to.data(), result.data(), to.size());
  }
  return {};
}

}  // namespace troupe::learner
