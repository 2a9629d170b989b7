#pragma once
// What each op becomes in ONNX.
#include <span>
#include <string>
#include <string_view>

#include <troupe/learner/export/onnx_builder.hpp>
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// One node of the graph, for the rule of its op. Values are row-major and images NHWC, as everywhere in Troupe; where
/// ONNX wants NCHW the rule transposes, and runtimes take out what cancels.
struct OnnxNode {
  OnnxBuilder& to;
  std::span<const std::string> in;  ///< names of the operands
  std::span<const ValueSpec> in_specs;
  const ValueSpec& out;  ///< output 0
  const Attr& attr;
};

/// Adds what the node becomes and returns the name of its output 0; ops have no other output that inference reads.
using OnnxRule = std::string (*)(const OnnxNode& node);

/// The rule of the shipped op `name`; null when there is none: ops that only training needs have none.
OnnxRule onnx_rule(std::string_view name);

}  // namespace troupe::learner
