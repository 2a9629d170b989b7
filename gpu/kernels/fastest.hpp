#pragma once
// Which of a library's ways to compute the same is the fastest on the device in use, measured where a program is
// compiled.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace troupe_cuda {

/// Device memory for operands of a measurement; null where there is none, which is no error.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) {
    // Small numbers in float32 and in bfloat16: zeros take less power, and so less time.
    if (cudaMalloc(&data_, std::max<std::size_t>(bytes, 1)) == cudaSuccess && cudaMemset(data_, 0x3c, bytes) == 0)
      return;
    (void)cudaGetLastError();
    if (data_ != nullptr) (void)cudaFree(data_);
    data_ = nullptr;
  }
  ~Scratch() {
    if (data_ != nullptr) (void)cudaFree(data_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// Times ways of work on a stream of its own, each as a recorded graph as programs have it.
class Race {
 public:
  Race() {
    good_ = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess &&
            cudaEventCreate(&begin_) == cudaSuccess && cudaEventCreate(&end_) == cudaSuccess;
  }
  ~Race() {
    for (const Runner& runner : runners_) (void)cudaGraphExecDestroy(runner.graph);
    if (begin_ != nullptr) (void)cudaEventDestroy(begin_);
    if (end_ != nullptr) (void)cudaEventDestroy(end_);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
    (void)cudaGetLastError();
  }
  Race(const Race&) = delete;
  Race& operator=(const Race&) = delete;

  /// run(stream): puts the work on the stream; 0, or any error, after which that way does not take part.
  template <typename F>
  void add(int way, F run) {
    Runner made{.way = way};
    if (!good_ || run(stream_) != 0 || cudaStreamSynchronize(stream_) != cudaSuccess) return;  // loads its kernels
    const double once = milliseconds([&] { return run(stream_); });
    if (once > kMilliseconds * kHopeless) return;
    made.times = std::clamp(static_cast<int>(kMilliseconds / once), 1, kMostTimes);
    cudaGraph_t graph = nullptr;
    if (cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed) != cudaSuccess) return;
    bool recorded = true;
    for (int i = 0; i < made.times; ++i) recorded = recorded && run(stream_) == 0;
    if (cudaStreamEndCapture(stream_, &graph) != cudaSuccess) return;
    if (recorded && cudaGraphInstantiate(&made.graph, graph, 0) == cudaSuccess) runners_.push_back(made);
    (void)cudaGraphDestroy(graph);
  }

  /// The fastest way; `rule`, one of them, stays where none is at least 3 % faster or it could not be measured.
  int winner(int rule) {
    for (int round = 0; round < kRounds; ++round) {
      for (Runner& runner : runners_) {
        const double took = milliseconds([&] { return cudaGraphLaunch(runner.graph, stream_); }) / runner.times;
        runner.best = std::min(runner.best, took);
      }
    }
    const auto of_rule = std::find_if(runners_.begin(), runners_.end(), [&](const Runner& r) { return r.way == rule; });
    if (of_rule == runners_.end()) return rule;
    const auto best = std::min_element(runners_.begin(), runners_.end(),
                                       [](const Runner& a, const Runner& b) { return a.best < b.best; });
    return best->best * kAdvantage < of_rule->best ? best->way : rule;
  }

 private:
  static constexpr double kMilliseconds = 0.2, kHopeless = 1000, kAdvantage = 1.03;
  static constexpr int kMostTimes = 20, kRounds = 4;
  struct Runner {
    int way = 0, times = 1;
    cudaGraphExec_t graph = nullptr;
    double best = std::numeric_limits<double>::infinity();
  };

  template <typename F>
  double milliseconds(F work) {
    float took = 0;
    const bool done = cudaEventRecord(begin_, stream_) == cudaSuccess && work() == 0 &&
                      cudaEventRecord(end_, stream_) == cudaSuccess && cudaEventSynchronize(end_) == cudaSuccess &&
                      cudaEventElapsedTime(&took, begin_, end_) == cudaSuccess;
    return done ? took : std::numeric_limits<double>::infinity();
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  bool good_ = false;
  std::vector<Runner> runners_;
};

}  // namespace troupe_cuda
