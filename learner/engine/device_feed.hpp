#pragma once
// What stands between a program on a GPU and data that is on the GPU already: it fills the inputs of every step of a
// launch and takes what the step has put out, without the host in between. Program::attach() takes one; replay on the
// GPU is one.
#include <cstdint>

#include <troupe/gpu/api.h>
#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::learner {

/// An input or output of a program on a GPU, at the same address for the program's life.
struct DeviceSpan {
  void* data = nullptr;  ///< null: of an input that the step does not read
  std::int64_t elements = 0;
  DType dtype = DType::kF32;
};

/// Called by the thread that calls the program, with the program's stream; does not wait for the GPU. Whatever the
/// recorded calls put on it is recorded the second time that a launch of so many steps begins and replayed from then
/// on, so it reads what changes from memory: kernels and copies of pinned and device memory at fixed addresses, all on
/// this stream, and no waits for others.
class DeviceFeed {
 public:
  virtual ~DeviceFeed() = default;
  /// Before every launch, not recorded: sends what the launch needs and orders it behind other streams. After an error
  /// the launch has not begun, and nothing has changed.
  virtual Status before_launch(int steps, TroupeCudaStream* stream) = 0;
  // The two that follow may go on while the step before, or this one, moves its parameters, which they do not touch.

  /// Recorded: fills the program's inputs for step `step` of the launch, counted from 0.
  virtual Status enqueue_inputs(int step, TroupeCudaStream* stream) = 0;
  /// Recorded: takes the outputs of that step. control->skip, on the GPU, says that it did not count.
  virtual Status enqueue_outputs(int step, const TroupeCudaControl* control, TroupeCudaStream* stream) = 0;
};

}  // namespace troupe::learner
