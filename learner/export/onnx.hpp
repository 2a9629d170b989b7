#pragma once
// A forward pass as an ONNX model, for everyone who runs networks without Troupe. Made of the graph and the values that
// a program compiled from it holds; what each op becomes is the table of learner/export/onnx_ops.cpp.
#include <map>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/graph/graph.hpp>

namespace troupe::learner {

/// ai.onnx operators of this set alone, and the format's version that belongs to it.
inline constexpr int kOnnxOpset = 18;
inline constexpr int kOnnxIrVersion = 8;

struct OnnxModelInfo {
  std::string name;                             ///< of the graph
  std::string producer_version;                 ///< of Troupe
  std::map<std::string, std::string> metadata;  ///< free text for whoever reads the file
};

/// The bytes of an .onnx file that computes all of Graph::output() of all inputs, with any number of rows in place of
/// the graph's batch. Inputs and outputs keep their names, parameters and states those of their layouts; nodes on which
/// no output depends are left out. A model is one file of at most 2 GiB, which is protobuf's bound.
/// Errors: the graph's; kInvalidArgument naming an op without a mapping, an output that is none, or the size.
Result<std::string> to_onnx(const Graph& graph, Program& program, const OnnxModelInfo& info);

}  // namespace troupe::learner
