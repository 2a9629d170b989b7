// Where replicas meet without leaving their GPUs: joints and reductions of a group whose values are in this program's
// memory (NCCL's). The host only makes the calls.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <troupe/learner/engine/cuda/cuda_program.hpp>

namespace troupe::learner {

/// What a joint does to the program's memory: in the order of its stream.
class CudaProgram::Memory final : public JointMemory {
 public:
  explicit Memory(const CudaProgram& program) : program_(program), api_(program.gpu_->api()) {}

  int gpu() const override { return program_.gpu_->index(); }
  Status copy(std::span<const float> from, std::span<float> to) override {
    return program_.check(api_.copy(to.data(), from.data(), to.size_bytes(), program_.stream_), "copying a value");
  }
  Status scale(std::span<float> values, float by) override {
    if (by == 0) {
      return program_.check(api_.fill(values.data(), 0, values.size_bytes(), program_.stream_), "clearing a value");
    }
    const auto count = static_cast<std::int64_t>(values.size());
    TroupeCudaCall call{.inputs = 1, .outputs = 1};
    call.in[0] = {.data = values.data(),
                  .rows = 1,
                  .cols = count,
                  .dtype = TROUPE_CUDA_F32,
                  .shape = {.rank = 1, .dims = {count}}};
    call.out[0] = call.in[0];
    call.real[0] = static_cast<double>(by);
    const TroupeCudaKernel* const affine = api_.find_kernel("affine");
    if (affine == nullptr) {
      return Error{Code::kUnavailable, fmt::format("{}: the plug-in has no kernel for affine", program_.gpu_->name())};
    }
    return program_.check(api_.launch(affine, &call, program_.stream_), "scaling a value");
  }
  Result<std::shared_ptr<float[]>> allocate(std::size_t count) override {
    TROUPE_ASSIGN(auto memory, program_.gpu_->allocate(count * sizeof(float), "a collective of the step"));
    const auto owner = std::make_shared<gpu::GpuMemory>(std::move(memory));
    return std::shared_ptr<float[]>(owner, owner->as<float>());
  }
  Status wait() override { return program_.synchronise(); }

 private:
  const CudaProgram& program_;
  const TroupeCudaApi& api_;
};

Status CudaProgram::run_joint_here(const Node& node) {
  const auto values = [](const TroupeCudaOperand& of) -> std::span<float> {
    return {static_cast<float*>(of.data), static_cast<std::size_t>(of.rows * of.cols)};
  };
  Memory memory(*this);
  return unless_lost(host_.joints[static_cast<std::size_t>(node.joint)].forward(
      {values(node.call.in[0]), values(node.call.out[0]), host_.rows, &memory}));
}

/// A collective tells a GPU that fails under it in words of its own, as what another epoch of the group might mend; but
/// this process cannot, and any further call says so.
Status CudaProgram::unless_lost(Status collective) const {
  if (collective.ok()) return collective;
  std::size_t free = 0;
  const Status there = check(gpu_->api().free_memory(&free), "a collective");
  if (there.ok() || there.error().code != Code::kLost) return collective;
  return Error{Code::kLost, fmt::format("{} ({})", there.error().message, collective.error().message)};
}

bool CudaProgram::reduces_here() const {
  return std::ranges::all_of(host_.minimized, [this](const Minimized& m) {
    return !m.spec.reduce || (m.spec.reduce_gpu && m.spec.reduce_gpu() == gpu_->index());
  });
}

Status CudaProgram::reduce_here() {
  TROUPE_ASSIGN(const bool finite, own_gradients_are_finite());
  const auto spoil = [this](float* shared) -> Status {
    TROUPE_TRY(check(gpu_->api().fill(shared, 0xff, sizeof(float), stream_), "spoiling a gradient"));  // not a number
    return synchronise();
  };
  TROUPE_TRY(synchronise());  // the reduction has a stream of its own
  return unless_lost(host_.reduce_parts(
      gpu_->index(), [this](const Minimized& m) { return groups_[m.group].gradient.as<float>(); },
      finite ? nullptr : std::function<Status(float*)>(spoil)));
}

/// Of the gradients that replicas do not share.
Result<bool> CudaProgram::own_gradients_are_finite() {
  for (std::size_t i = 0; i < host_.minimized.size(); ++i) {
    const Minimized& m = host_.minimized[i];
    if (m.shares.own.empty() || host_.idle(m)) continue;
    double* next = squares_of_[i];
    std::vector<TroupeCudaSquares> parts;
    add_squares(m, m.shares.own, &next, &parts);
    TROUPE_TRY(sum_squares(parts));
    std::vector<double> squares(static_cast<std::size_t>(next - squares_of_[i]));
    TROUPE_TRY(check(gpu_->api().copy(squares.data(), squares_of_[i], squares.size() * sizeof(double), stream_),
                     "reading the length of a gradient"));
    TROUPE_TRY(synchronise());
    if (!std::ranges::all_of(squares, [](double each) { return std::isfinite(each); })) return false;
  }
  return true;
}

}  // namespace troupe::learner
