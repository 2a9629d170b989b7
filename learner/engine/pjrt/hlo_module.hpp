#pragma once
// One step of a graph as a StableHLO module, for engines that compile whole programs: forward, and the gradients of
// what is minimized. It takes the graph's own nodes, not a plan: the compiler places and fuses.
//
// Unlike elsewhere in Troupe, a parameter group is no flat buffer here but an array for each tensor. XLA copies what it
// cuts out of a larger array, and on TPUs lays it out anew: in each step as much as the optimiser reads and writes.
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/graph/hlo.hpp>

namespace troupe::learner {

/// What an argument or a result of @main is.
enum class HloRole : std::uint8_t {
  kRows,      ///< int32: how many rows of the batch are data (ValidRows)
  kInput,     ///< input `index` of the graph: all rows of the batch
  kRules,     ///< float32 [minimized, kHloRuleNumbers]: hlo_rule() of each for this step
  kDue,       ///< int32 [groups]: whether a target or an average follows in this step
  kParams,    ///< tensor `entry` of group `index`; as a result, after the update
  kSlot,      ///< the same of optimiser slot `part` of minimized `index`
  kState,     ///< tensor `entry` of the replica's state; as a result, what was assigned
  kOutput,    ///< output `index` of the graph: all rows, those that are no data too
  kMetrics,   ///< all metrics of the graph; behind those of an update 1 where it was skipped, else 0
  kGradient,  ///< tensor `entry` of the gradient of minimized `index`, as it is applied; of kApply an argument
  kHanded,    ///< value `index` of the graph, from a part of the step to later ones and to functions of the host's
};
std::string_view to_string(HloRole role);

struct HloSlot {
  HloRole role = HloRole::kRows;
  std::size_t index = 0;
  std::size_t part = 0, entry = 0;
  hlo::Type type;
  std::int64_t lends_to = -1;  ///< of an argument: the result that gets its memory; it is gone after a run
};

/// A function of the host's in the middle of a step. Its values are handed (HloRole::kHanded).
struct HloCall {
  std::size_t joint = 0;  ///< of GraphData::joints
  std::uint32_t in = 0, out = 0;
};

struct HloModule {
  std::string text;
  std::vector<HloSlot> arguments;  ///< what the step does not read is not among them, but for the rows
  std::vector<HloSlot> results;
  std::vector<HloCall> calls;  ///< of a part of a step: what the host does before the next one, in this order
};

/// kAct: neither gradients nor the nodes that only they need. kGradients: gradients are results. kUpdate: they are
/// applied, as Program::run() does it, skipping the step where they are not finite; what is updated is donated. kApply:
/// that alone, of gradients that are arguments.
enum class HloPhase : std::uint8_t { kAct, kGradients, kUpdate, kApply };

struct HloOptions {
  HloPhase phase = HloPhase::kGradients;
  bool bf16 = false;  ///< see hlo::Builder
  /// Whether each minimized group is updated in this step (OptimizerSpec::every_steps); empty: all. Of the others
  /// nothing is computed.
  std::vector<bool> due = {};
  bool gradients = false;  ///< Of kUpdate of one step: they are results too
  /// Of an update: so many steps in one run, in a loop. Inputs, rules and due flags then have a row for each, outputs
  /// and metrics too; all steps have equally many rows of data. Rules and flags are those of updates that are not
  /// skipped, so a skipped step leaves its row to the next one, and the last ones are not used.
  std::int64_t steps = 1;
  /// Replicas of the program, each with its own batch. They meet in joints and in an update, whose gradient is the mean
  /// of theirs by their rows where its OptimizerSpec::reduce says so; then all take the same step.
  std::int64_t replicas = 1;
  std::int64_t global_batch = 0;  ///< rows of all of them, of more than one
};

/// The graph as one replica with one stripe. What a node becomes has its name and number in Graph::to_string() as its
/// location, such as "conv2d %12", by which compilers speak of it. Errors: the graph's own; kInvalidArgument for an
/// operation that has no rule or a function of the host's in the middle of the step that has none for so many replicas,
/// in words that say what to do.
Result<HloModule> make_hlo_module(const GraphData& data, std::int64_t batch, const HloOptions& options = {});
Result<HloModule> make_hlo_module(const Graph& graph, const HloOptions& options = {});

/// The same in parts, run one after the other with HloModule::calls between them: functions of the host's cut the step.
/// They keep the graph's order, since replicas meet in them, and those that do not wait for each other share a cut. An
/// update, and a step of several replicas, are one part; there functions are refused, as above.
Result<std::vector<HloModule>> make_hlo_parts(const GraphData& data, std::int64_t batch, const HloOptions& options);

}  // namespace troupe::learner
