#include <troupe/tests/learner/engine/node_cases.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>

#include <troupe/learner/engine/cpu/convolution.hpp>
#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

/// What an element may be off, of the largest one of its output: some rounding errors of 6e-8 each, in sums of many.
/// And half of its last digit where it is stored as bfloat16. docs/gpu.md tells users so.
constexpr double kRelative = 1e-5, kBf16 = 0x1p-8;
/// The variance of a column is a difference that leaves nothing but rounding errors where all rows are alike, as one
/// row is: there the processor's own error in float32 is the measure, in these operations and no others.
constexpr std::string_view kDifferences[] = {"batch_moments", "batch_sums_grad"};
constexpr double kProcessor = 4;

float from_bf16(std::uint16_t x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16); }
std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace

double rounded(double x, DType dtype) {
  return dtype == DType::kBF16 ? from_bf16(to_bf16(static_cast<float>(x))) : static_cast<float>(x);
}

std::vector<std::byte> stored(const Values& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * dtype_bytes(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto put = [&](auto value) { std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value)); };
    if (dtype == DType::kI32) put(static_cast<std::int32_t>(values[i]));
    if (dtype == DType::kU8) put(static_cast<std::uint8_t>(values[i]));
    if (dtype == DType::kF32) put(static_cast<float>(values[i]));
    if (dtype == DType::kBF16) put(to_bf16(static_cast<float>(values[i])));
  }
  return bytes;
}
Values loaded(const std::vector<std::byte>& bytes, DType dtype) {
  Values values(bytes.size() / dtype_bytes(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto get = [&]<typename T>(T value) {
      std::memcpy(&value, bytes.data() + i * sizeof(value), sizeof(value));
      return value;
    };
    values[i] = dtype == DType::kI32   ? get(std::int32_t{})
                : dtype == DType::kU8  ? static_cast<double>(get(std::uint8_t{}))
                : dtype == DType::kF32 ? static_cast<double>(get(float{}))
                                       : from_bf16(get(std::uint16_t{}));
  }
  return values;
}

std::string NodeCase::describe() const {
  std::string text = fmt::format("{}{} (", op->name, bf16 ? " in bfloat16" : "");
  for (const Side& side : in) text += side.spec.shape.to_string() + " ";
  text += ") -> (";
  for (const Side& side : out) text += side.spec.shape.to_string() + " ";
  return text + fmt::format("), {} of {} rows, integer {} {} {} {}", valid, batch, attr.integer[0], attr.integer[1],
                            attr.integer[2], attr.integer[3]);
}

std::vector<Shape> shapes_of(const std::vector<Side>& sides) {
  std::vector<Shape> shapes;
  for (const Side& side : sides) shapes.push_back(side.spec.shape);
  return shapes;
}

namespace {

/// The outputs by the processor's kernel for T, of operands that are rounded as the device stores them.
template <typename T>
std::vector<Values> compute(const NodeCase& node) {
  constexpr DType kType = sizeof(T) == 8 ? DType::kF64 : DType::kF32;
  const std::size_t count = node.in.size() + node.out.size();
  std::vector<Operand> operands(count);
  std::vector<std::vector<T>> reals(count);
  std::vector<std::vector<std::int32_t>> integers(count);
  std::vector<std::vector<std::uint8_t>> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const bool input = i < node.in.size();
    const Side& side = input ? node.in[i] : node.out[i - node.in.size()];
    reals[i].resize(static_cast<std::size_t>(side.spec.shape.elements()));
    if (input)
      std::transform(side.values.begin(), side.values.end(), reals[i].begin(),
                     [](double x) { return static_cast<T>(x); });
    operands[i].data = reals[i].data();
    operands[i].shape = &side.spec.shape;
    fold(side.spec, side.spec.shape, &operands[i].rows, &operands[i].cols);
    if (input && side.dtype == DType::kI32) {
      integers[i].assign(side.values.begin(), side.values.end());
      operands[i].data = integers[i].data();
    }
    if (side.dtype == DType::kU8) {
      bytes[i].assign(reals[i].begin(), reals[i].end());
      operands[i].data = bytes[i].data();
    }
  }
  const ValidRows valid{node.batch, node.valid, node.valid, node.batch};
  KernelArgs args{.in = operands.data(),
                  .out = operands.data() + node.in.size(),
                  .attr = &node.attr,
                  .gemm = nullptr,
                  .valid = &valid};
  std::unique_ptr<GemmPlan> gemm;
  if (node.op->gemm != nullptr) {
    auto made = make_gemm(GemmBackend::kEigen, node.op->gemm(shapes_of(node.in), node.attr), kType);
    EXPECT_TRUE(made.ok()) << made.error().message;
    gemm = std::move(*made);
    args.gemm = gemm.get();
  }
  std::unique_ptr<ConvPlan> conv;
  std::vector<double> workspace;
  if (node.op->conv != nullptr) {
    const ConvShape shape = node.op->conv(shapes_of(node.in), node.attr);
    auto made = make_convolution(GemmBackend::kEigen, shape, shape.batch, kType);
    EXPECT_TRUE(made.ok()) << made.error().message;
    conv = std::move(*made);
    workspace.resize(conv->workspace_bytes() / sizeof(double) + 1);
    args.conv = conv.get();
    args.workspace = workspace.data();
  }
  node.op->kernel(kType == DType::kF64 ? kernels_f64() : kernels_f32_generic())(args);
  std::vector<Values> outputs;
  for (std::size_t o = node.in.size(); o < count; ++o) {
    if (!bytes[o].empty()) reals[o].assign(bytes[o].begin(), bytes[o].end());
    outputs.emplace_back(reals[o].begin(), reals[o].end());
  }
  return outputs;
}

}  // namespace

void compute_expected(NodeCase& node) {
  if (node.op == &identity_op() && node.in[0].dtype == DType::kI32) {  // only moves bits
    node.out[0].values = node.in[0].values;
    return;
  }
  const std::vector<Values> exact = compute<double>(node), rounding = compute<float>(node);
  for (std::size_t o = 0; o < exact.size(); ++o) {
    Side& side = node.out[o];
    for (std::size_t i = 0; i < exact[o].size(); ++i) {
      side.values.push_back(static_cast<float>(exact[o][i]));
      const double error = std::abs(rounding[o][i] - exact[o][i]);
      if (std::isfinite(error)) side.processor_error = std::max(side.processor_error, error);
    }
  }
}

std::string difference(const OpDef& op, const Side& side, const std::vector<std::byte>& bytes) {
  const Values got = loaded(bytes, side.dtype);
  const bool cancels = std::ranges::count(kDifferences, op.name) > 0;
  double largest = 0;
  for (const double value : side.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double expected = side.values[i];
    if (std::isnan(expected) && std::isnan(got[i])) continue;
    double bound = 0;
    if (side.dtype != DType::kI32 && side.dtype != DType::kU8) bound = kRelative * largest + 1e-37;
    if (cancels) bound += kProcessor * side.processor_error;
    if (side.dtype == DType::kBF16 || side.rounded) bound += kBf16 * std::abs(expected);
    if (std::abs(got[i] - expected) <= bound || got[i] == expected) continue;
    return fmt::format("element {} is {}, expected {} within {}", i, got[i], expected, bound);
  }
  return {};
}

Values draw(Rng& rng, const std::string& name, std::int64_t elements) {
  Values values(static_cast<std::size_t>(elements));
  const std::size_t limit = name.find('<');
  for (double& value : values) {
    if (limit != std::string::npos) {
      value = static_cast<double>(rng.below(static_cast<std::uint64_t>(std::stoll(name.substr(limit + 1)))));
    } else {
      const bool positive = name.find("positive") != std::string::npos;
      value = static_cast<float>(positive ? 0.5 + rng.uniform() : -1 + 3 * rng.uniform());
    }
  }
  return values;
}

namespace {

std::vector<Values> draw_sources(const GraphData& data, Rng& rng) {
  std::vector<Values> values(data.values.size());
  for (std::size_t id = 0; id < values.size(); ++id) {
    const Value& value = data.values[id];
    const auto index = static_cast<std::size_t>(value.index), entry = static_cast<std::size_t>(value.entry);
    const std::int64_t elements = value.spec.shape.elements();
    switch (value.source) {
      case Source::kInput:
        values[id] = draw(rng, data.inputs[index].name, elements);
        break;
      case Source::kConstant:
        values[id].assign(data.constants[index].begin(), data.constants[index].end());
        break;
      case Source::kParam:
        values[id] = draw(rng, data.groups[index].layout.entries[entry].name, elements);
        break;
      case Source::kState:
        values[id] = draw(rng, data.state.layout.entries[entry].name, elements);
        break;
      case Source::kNode:
        break;
    }
  }
  return values;
}

/// As Planner::choose_types() in a bfloat16 program on a GPU.
bool is_narrow(const OpDef& op, const ValueSpec& spec, std::size_t input, bool is_input) {
  if (spec.dtype == DType::kI32 || spec.dtype == DType::kU8) return false;
  if (op.gemm != nullptr) return is_input && input < 2;
  const bool image = spec.place == Place::kRows && spec.shape.rank() == 4;
  if (op.conv != nullptr && is_input && input == 1) return true;  // the weight, or an image too
  return (op.conv != nullptr || op.bf16_kernel != nullptr) && image;
}

}  // namespace

void walk(const Graph& graph, const Walk& how, const std::function<void(const NodeCase&)>& check) {
  const GraphData& data = GraphAccess::data(graph);
  Rng rng(how.seed);
  const bool bf16 = how.bf16;
  std::vector<Values> values = draw_sources(data, rng);
  for (std::size_t id = 0; id < values.size() && how.spoil; ++id) {
    const Source source = data.values[id].source;
    if (source == Source::kInput || source == Source::kParam) how.spoil(data.values[id].spec, values[id]);
  }
  for (const Node& from : data.nodes) {
    if (from.op == nullptr || from.op->alias) {  // sums of one stripe, and names for what there is
      values[from.outputs[0]] = values[from.inputs[0]];
      continue;
    }
    NodeCase node{.op = from.op, .attr = from.attr, .batch = graph.batch(), .valid = how.valid};
    for (const std::uint32_t id : from.inputs) {
      const ValueSpec& spec = data.values[id].spec;
      node.in.push_back({spec, spec.dtype, values[id]});
    }
    for (const std::uint32_t id : from.outputs)
      node.out.push_back({data.values[id].spec, data.values[id].spec.dtype, {}});
    for (std::size_t i = 0; i < node.in.size() && bf16; ++i) {
      if (!is_narrow(*from.op, node.in[i].spec, i, true)) continue;
      node.bf16 = true;
      node.in[i].dtype = DType::kBF16;
      for (double& value : node.in[i].values) value = rounded(value, DType::kBF16);
    }
    for (Side& side : node.out) {
      if (!bf16 || !is_narrow(*from.op, side.spec, 0, false)) continue;
      node.bf16 = true;
      side.dtype = DType::kBF16;
    }
    compute_expected(node);
    for (std::size_t o = 0; o < node.out.size(); ++o) values[from.outputs[o]] = node.out[o].values;
    if (node.bf16 == bf16) check(node);
  }
}

}  // namespace troupe::learner
