#pragma once
// What the GPU at hand does at best, measured on the spot through the same plug-in: how long a node of a CUDA graph
// takes that does nothing, how fast its memory is copied, how fast a large product is. And the bound for a step that
// follows.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <troupe/bench/gpu/device.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::bench {

/// What a step cannot do without.
struct StepCost {
  double nodes = 0;  ///< kernels one behind the other, each of which needs all of the one before
  double bytes = 0;  ///< read and written, if everything that is used again were fetched again
  double flops = 0;
};

struct GpuLimits {
  double node_s = 0;
  double bytes_per_s = 0;
  double flops = 0, tf32_flops = 0;  ///< a second

  /// The three limits never add up: the greatest of them is what no step can pass. (What stays in the GPU's caches can
  /// be faster than its memory: for steps of a few microseconds the bytes are not the limit.)
  double seconds(const StepCost& cost, bool tf32) const {
    return std::max({cost.nodes * node_s, cost.bytes / bytes_per_s, cost.flops / (tf32 ? tf32_flops : flops)});
  }
};

class MeasuresLimits {
 public:
  explicit MeasuresLimits(std::shared_ptr<const gpu::Gpu> gpu) : gpu_(std::move(gpu)), api_(gpu_->api()) {
    check(api_.make_stream(&stream_));
  }
  ~MeasuresLimits() { (void)api_.destroy_stream(stream_); }
  MeasuresLimits(const MeasuresLimits&) = delete;
  MeasuresLimits& operator=(const MeasuresLimits&) = delete;

  GpuLimits measure() {
    return {.node_s = node_seconds(),
            .bytes_per_s = bytes_per_second(),
            .flops = product_flops(false),
            .tf32_flops = product_flops(true)};
  }

 private:
  void check(int error) const { gpu_->check(error, "measuring its limits").value(); }

  /// The least of five times, after one that warms up.
  template <typename F>
  double least_seconds(F enqueue) {
    using Clock = std::chrono::steady_clock;
    double least = 1e9;
    for (int i = 0; i < 6; ++i) {
      check(api_.synchronise(stream_));
      const auto begin = Clock::now();
      enqueue();
      check(api_.synchronise(stream_));
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      if (i > 0) least = std::min(least, seconds);
    }
    return least;
  }

  /// The smallest kernel that there is, of one element, so often that what a launch of the graph costs disappears.
  double node_seconds() {
    const int nodes = tiny(2000, 20);
    const gpu::GpuMemory from = gpu_->allocate(256, "a number").value(), to = gpu_->allocate(256, "a number").value();
    check(api_.fill(from.get(), 0, 256, stream_));
    const auto enqueue = [&] { check(api_.to_bf16(from.as<float>(), to.as<std::uint16_t>(), 1, stream_)); };
    enqueue();  // loads it: that cannot be recorded
    check(api_.synchronise(stream_));
    TroupeCudaGraph* graph = nullptr;
    check(api_.begin_capture(stream_));
    for (int i = 0; i < nodes; ++i) enqueue();
    check(api_.end_capture(stream_, &graph));
    const double seconds = least_seconds([&] { check(api_.launch_graph(graph, stream_)); });
    check(api_.destroy_graph(graph));
    return seconds / nodes;
  }

  /// Read and written, of blocks that no cache holds.
  double bytes_per_second() {
    const std::size_t bytes = tiny(std::size_t{1} << 30, std::size_t{1} << 12);
    constexpr int kCopies = 10;
    const gpu::GpuMemory from = gpu_->allocate(bytes, "a copy").value(), to = gpu_->allocate(bytes, "a copy").value();
    check(api_.fill(from.get(), 1, bytes, stream_));
    const double seconds = least_seconds([&] {
      for (int i = 0; i < kCopies; ++i) check(api_.copy(to.get(), from.get(), bytes, stream_));
    });
    return 2.0 * kCopies * static_cast<double>(bytes) / seconds;
  }

  /// Of numbers that are not zero: zeros take less power, and so less time.
  double product_flops(bool tf32) {
    const std::int64_t n = tiny<std::int64_t>(8192, 16);
    const auto bytes = static_cast<std::size_t>(n * n) * sizeof(float);
    const gpu::GpuMemory a = gpu_->allocate(bytes, "a product").value(), b = gpu_->allocate(bytes, "a product").value(),
                         c = gpu_->allocate(bytes, "a product").value();
    Rng rng(1);
    std::vector<float> values(static_cast<std::size_t>(n * n));
    for (float& value : values) value = static_cast<float>(2 * rng.uniform() - 1);
    check(api_.copy(a.get(), values.data(), bytes, stream_));
    check(api_.copy(b.get(), values.data(), bytes, stream_));
    check(api_.synchronise(stream_));

    const TroupeCudaProductShape shape{.m = n, .n = n, .k = n, .tf32 = tf32};
    TroupeCudaProduct* product = nullptr;
    check(api_.make_product(&shape, &product));
    const TroupeCudaKernel* const kernel = api_.find_kernel("matmul");
    const auto operand = [&](const gpu::GpuMemory& memory) {
      return TroupeCudaOperand{
          .data = memory.get(), .rows = n, .cols = n, .dtype = TROUPE_CUDA_F32, .shape = {.rank = 2, .dims = {n, n}}};
    };
    TroupeCudaCall call{.inputs = 2, .outputs = 1, .valid = {.rows = n, .batch = n}, .product = product};
    call.in[0] = operand(a);
    call.in[1] = operand(b);
    call.out[0] = operand(c);
    const std::size_t extra = api_.workspace(kernel, &call);
    const gpu::GpuMemory workspace = gpu_->allocate(extra + 256, "a product").value();
    call.workspace = workspace.get();
    const double seconds = least_seconds([&] { check(api_.launch(kernel, &call, stream_)); });
    api_.destroy_product(product);
    return 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / seconds;
  }

  std::shared_ptr<const gpu::Gpu> gpu_;
  const TroupeCudaApi& api_;
  TroupeCudaStream* stream_ = nullptr;
};

inline GpuLimits measure_limits(std::shared_ptr<const gpu::Gpu> gpu) {
  return MeasuresLimits(std::move(gpu)).measure();
}

/// One measurement serves all rows of a program.
inline const GpuLimits& limits_of(const std::shared_ptr<const gpu::Gpu>& gpu) {
  static const GpuLimits limits = measure_limits(gpu);
  return limits;
}

}  // namespace troupe::bench
