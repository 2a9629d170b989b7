#include <troupe/learner/ops/joint.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/learner/graph/graph.hpp>

namespace troupe::learner {
namespace {

class HostMemory final : public JointMemory {
 public:
  int gpu() const override { return -1; }
  Status copy(std::span<const float> from, std::span<float> to) override {
    std::ranges::copy(from, to.begin());
    return {};
  }
  Status scale(std::span<float> values, float by) override {
    for (float& x : values) x = by == 0 ? 0 : by * x;
    return {};
  }
  Result<std::shared_ptr<float[]>> allocate(std::size_t count) override { return std::make_shared<float[]>(count); }
  Status wait() override { return {}; }
};

}  // namespace

JointMemory* host_memory() {
  static HostMemory memory;
  return &memory;
}

Var sum_stripes(Var x) {
  if (!x) return {};
  if (x.graph->spec(x).place != Place::kPartial) {
    return x.graph->fail(Code::kInvalidArgument,
                         fmt::format("sum_stripes: {} value {}, expected a partial sum",
                                     to_string(x.graph->spec(x).place), x.graph->spec(x).shape.to_string()));
  }
  return x.graph->emit_joint(x, nullptr, nullptr);
}

Var joint(Var x, JointFn forward, JointFn backward) {
  return x ? x.graph->emit_joint(x, std::move(forward), std::move(backward)) : Var{};
}

Var joint(Var x, const Shape& shape, JointFn forward, JointFn backward) {
  if (!x) return {};
  const ValueSpec out{shape, DType::kF32, Place::kReplicated};
  return x.graph->emit_joint(x, std::move(forward), std::move(backward), &out);
}

}  // namespace troupe::learner
