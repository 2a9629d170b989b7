#pragma once
// An ONNX graph while it is made: named nodes and initialisers, and in the end the file. The rules of
// learner/export/onnx_ops.cpp add to it what each op becomes.
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/learner/export/onnx.hpp>

namespace troupe::learner {

struct OnnxAttribute {
  std::string_view name;
  std::variant<std::int64_t, float, std::vector<std::int64_t>, std::string> value;
};

/// A dimension that is not known before the model runs: those of a batch.
inline constexpr std::int64_t kOnnxAnySize = -1;

class OnnxBuilder {
 public:
  /// Adds a node with one output and returns the output's name.
  std::string node(std::string_view op, std::vector<std::string> inputs, std::vector<OnnxAttribute> attributes = {});
  /// Adds an initialiser; `name` is a wish. Returns the name that it got.
  std::string floats(std::string_view name, const Shape& shape, std::span<const float> values);
  /// A vector of int64, e.g. the operand that says a new shape; equal ones are shared.
  std::string ints(const std::vector<std::int64_t>& values);
  std::string scalar(double value);
  /// The rows of the batch as a vector of one int64, known when the model runs: those of the first input that has them.
  std::string batch_size();

  /// Declares an input called `name`. dims: kOnnxAnySize where it is the batch.
  void input(std::string_view name, DType dtype, std::vector<std::int64_t> dims);
  /// Declares `value` as the output called `name`.
  void output(std::string_view name, const std::string& value, std::vector<std::int64_t> dims);

  /// The bytes of the ModelProto.
  std::string finish(const OnnxModelInfo& info) const;

 private:
  struct Node {
    std::string op;
    std::vector<std::string> inputs;
    std::string output;
    std::vector<OnnxAttribute> attributes;
  };
  struct Port {
    std::string name;
    DType dtype = DType::kF32;
    std::vector<std::int64_t> dims;
  };

  std::string unused(std::string_view name);

  std::set<std::string, std::less<>> names_;
  std::vector<Node> nodes_;
  std::vector<std::string> tensors_;  // TensorProto's, written
  std::vector<Port> inputs_, outputs_;
  std::map<std::vector<std::int64_t>, std::string> ints_;
};

}  // namespace troupe::learner
