#pragma once
// What a Graph holds, for the three parts that read it: building (graph.cpp), differentiation (gradients.cpp) and
// planning (plan.cpp). Plain data; ids index the vectors.
#include <deque>
#include <string>
#include <vector>

#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/graph/param_buffer.hpp>

namespace troupe::learner {

/// Where a value comes from; `index` in Value says which one.
enum class Source : std::uint8_t { kInput, kConstant, kParam, kState, kNode };

struct Value {
  ValueSpec spec;
  Source source = Source::kNode;
  std::int32_t index = 0;  ///< of the input, constant, group or node; 0 for state
  std::int32_t entry = 0;  ///< of the parameter or state in its layout; of the output of its node
};

struct Node {
  const OpDef* op = nullptr;  ///< null: joint
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;
  Attr attr;
  std::int32_t joint = -1;
  int device = 0;  ///< logical; programs with fewer devices take it modulo theirs
};

/// Makes the whole value out of the stripes' parts; `forward`, unless empty, makes another one of it.
struct Joint {
  JointFn forward;
  JointFn backward;
  bool largest = false;           ///< of the parts, instead of their sum
  std::int32_t gradient_of = -1;  ///< the node whose gradient it passes on
};

struct InputDef {
  std::string name;
  std::uint32_t value = 0;
};

struct GroupDef {
  std::string name;
  ParamLayout layout;               ///< of online groups and the state; a target has its online group's
  std::vector<Init> inits;          ///< for each entry
  std::vector<std::int64_t> value;  ///< for each entry its value id, or -1 where the graph does not read it
  std::int32_t online = -1;         ///< the group that a target or an average follows
  std::int64_t every_steps = 0;     ///< of a target or an average
  double decay = 0;                 ///< of an average; 0 for a target, which is a copy
};

struct MinimizeDef {
  std::int32_t group = 0;
  OptimizerSpec spec;
  std::vector<std::uint32_t> gradients;  ///< for each entry of the group's layout
};

struct NamedValue {
  std::string name;
  std::uint32_t value = 0;
};

struct GraphData {
  std::deque<Value> values;  // stable references: gradient rules add values while they look at others
  std::vector<Node> nodes;
  std::vector<InputDef> inputs;
  std::vector<std::vector<float>> constants;
  std::vector<GroupDef> groups;
  GroupDef state;
  std::vector<Joint> joints;
  std::vector<MinimizeDef> minimized;
  std::vector<NamedValue> outputs;
  std::vector<NamedValue> metrics;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> assigns;  ///< state value, new value
};

struct GraphAccess {
  static GraphData& data(Graph& graph) { return *graph.data_; }
  static const GraphData& data(const Graph& graph) { return *graph.data_; }
};

/// This stripe's part of a global shape: `rows` of `batch` examples.
Shape local_shape(const ValueSpec& spec, std::int64_t batch, std::int64_t rows);
/// Folds a local shape as Operand describes.
void fold(const ValueSpec& spec, const Shape& local, std::int64_t* rows, std::int64_t* cols);

}  // namespace troupe::learner
