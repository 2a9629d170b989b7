#pragma once
// One step of a graph in StableHLO: its nodes, the gradients of what is minimized, their mean over replicas, and the
// update. hlo_module.cpp makes the function around it, its arguments and results, and the loop of several steps.
#include <cstdint>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/learner/engine/pjrt/hlo_module.hpp>
#include <troupe/learner/engine/pjrt/hlo_part.hpp>
#include <troupe/learner/engine/pjrt/hlo_update.hpp>
#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/graph/hlo.hpp>

namespace troupe::learner {

/// References are the module's, which outlives it.
class HloStep {
 public:
  HloStep(const GraphData& data, std::int64_t batch, const HloOptions& options, hlo::Builder& to, const HloPart& part);

  // ---- which parts of the graph are in it ----

  /// kApply alone: without nodes.
  bool applies() const { return options_.phase == HloPhase::kApply; }
  bool updates() const { return (options_.phase == HloPhase::kUpdate || applies()) && !data_.minimized.empty(); }
  /// Of a group, a target's too.
  const ParamLayout& layout_of(std::size_t group) const;

  // ---- what compute() reads, and leaves as it is after the step ----

  hlo::Value rows, first_row, rules, due;  ///< HloRole has what they are; hlo::Node, where rows begin
  std::vector<HloGroup> groups;            ///< by their index
  HloTensors state;
  std::vector<hlo::Value> values;     ///< of the graph's, by their ids: inputs and what is handed are there before
  std::vector<HloTensors> gradients;  ///< of each minimized; of kApply they are there before
  hlo::Value metrics, finite;         ///< finite: whether all gradients of an update are

  Status compute();

 private:
  void bind_sources();
  Status add(const Node& node);
  hlo::Value join(const Joint& joint, const hlo::Value& in, const Shape& out);
  const ParamLayout& layout_of_minimized(std::size_t minimized) const {
    return layout_of(static_cast<std::size_t>(data_.minimized[minimized].group));
  }
  void average_over_replicas();
  void update();

  const GraphData& data_;
  const std::int64_t batch_;
  const HloOptions& options_;
  hlo::Builder& to_;
  const HloPart& part_;
};

/// What the node of an op becomes. Errors: kInvalidArgument without a rule, naming the op.
Result<hlo::Values> lower(const OpDef& op, const hlo::Node& node);

}  // namespace troupe::learner
