#pragma once
// Training steps of image models on batches that stay the same, so that nothing but the step is measured: in this
// process, shared by processes that all-reduce through shared memory, and on a GPU. And the rows that are made of them.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <troupe/bench/gpu/device.hpp>
#include <troupe/bench/learner/fed_steps.hpp>
#include <troupe/bench/processes.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/replicate/multi_worker.hpp>
#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::learner {

/// Normal values, labels below 10, and bytes.
class RandomBatch final : public InputPipeline {
 public:
  RandomBatch(const Signature& signature, const InputContext& context)
      : signature_(signature), batch_(signature, context.replica_batch) {
    Rng rng(1);
    for (std::size_t column = 0; column < signature.size(); ++column) {
      if (signature[column].dtype == DType::kI32) {
        std::int32_t next = 0;
        for (std::int32_t& label : batch_.mutable_view().as<std::int32_t>(column)) label = next++ % 10;
      } else if (signature[column].dtype == DType::kU8) {
        for (std::uint8_t& byte : batch_.mutable_view().as<std::uint8_t>(column)) {
          byte = static_cast<std::uint8_t>(rng.below(256));
        }
      } else {
        for (float& x : batch_.mutable_view().as<float>(column)) x = static_cast<float>(rng.normal());
      }
    }
  }
  const Signature& signature() const override { return signature_; }
  Result<BatchView> next() override { return batch_.view(); }

 private:
  Signature signature_;
  BatchBuffer batch_;
};

inline InputFn random_batch(Signature signature) {
  return [signature = std::move(signature)](const InputContext& context) {
    return Result<std::unique_ptr<InputPipeline>>(std::make_unique<RandomBatch>(signature, context));
  };
}

using MakeReplica = std::function<std::unique_ptr<Replica>()>;

/// The median over at least three steps, after one that warms up.
inline double steps_per_second(Replicator& replicator, double seconds) {
  replicator.step().value();
  std::vector<double> times;
  double spent = 0;
  while (spent < seconds || times.size() < 3) {
    const auto begin = std::chrono::steady_clock::now();
    replicator.step().value();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    spent += times.back();
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return 1 / times[times.size() / 2];
}

inline double on_threads(const MakeReplica& make, std::int64_t batch, int threads, DType compute, double seconds) {
  const std::unique_ptr<Replica> replica = make();
  const auto one = OneDevice::make(
      *replica, {.batch = batch, .compile = {.stripes = threads, .compute = compute, .plans = PlanChoice::kMeasured}});
  return steps_per_second(*one.value(), seconds);
}

/// `processes` members of a group, a thread each, that share the batch. Called before this process has threads.
inline double on_processes(const MakeReplica& make, std::int64_t batch, int processes, DType compute, int steps) {
  struct Measured {
    double result;
  };
  const InAllProcesses<Measured> measured;
  in_group_of_processes(processes, [&](int rank, collectives::Communicator& communicator) {
    const std::unique_ptr<Replica> replica = make();
    const auto worker = MultiWorker::make(*replica, {.global_batch = batch,
                                                     .compile = {.compute = compute, .plans = PlanChoice::kMeasured},
                                                     .communicator = &communicator});
    (*worker)->reform({.epoch = 1, .rank = rank, .size = processes}, std::chrono::seconds(60)).value();
    std::vector<double> times;
    for (int i = 0; i < steps + 1; ++i) {  // as many on all members
      const auto begin = std::chrono::steady_clock::now();
      (*worker)->step().value();
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    std::ranges::sort(times.begin() + 1, times.end());
    if (rank == 0) measured->result = 1 / times[1 + static_cast<std::size_t>(steps) / 2];
  });
  return measured->result;
}

struct StepRows {
  std::string model;
  MakeReplica make;
  std::int64_t batch;
  int process_steps;                      ///< that are measured where processes share the batch
  bool in_images;                         ///< the value is images per second, else steps
  std::vector<std::int64_t> gpu_batches;  ///< of the rows on a GPU
  bool gpu_bf16_alone = false;            ///< on a GPU no rows in float32
  std::string unit() const { return in_images ? "images/s" : "steps/s"; }
  double units(std::int64_t rows) const { return in_images ? static_cast<double>(rows) : 1; }
};

inline double on_gpu(const MakeReplica& make, std::int64_t batch, const CompileOptions& compile) {
  const std::unique_ptr<Replica> replica = make();
  const auto one = OneDevice::make(*replica, {.batch = batch, .compile = compile}).value();
  std::vector<std::string> inputs;
  for (const TensorSpec& column : one->input().signature()) inputs.push_back(column.name);
  attach_fixed_batch(one->program(), inputs);
  return fed_steps_per_second(one->program());
}

/// main() of a bench with --device: MODEL_BATCH, with TF32 products _tf32, and in bfloat16 _bf16.
inline int run_gpu_rows(int argc, char** argv, const StepRows& rows) {
  bench::open_gpu();
  struct Row {
    const char* suffix;
    bool tf32;
    DType compute;
  };
  for (const std::int64_t batch : rows.gpu_batches) {
    for (const Row& row :
         {Row{"", false, DType::kF32}, Row{"_tf32", true, DType::kF32}, Row{"_bf16", true, DType::kBF16}}) {
      if (rows.gpu_bf16_alone && row.compute != DType::kBF16) continue;
      const CompileOptions compile{.device = gpu_device(bench::device_index()),
                                   .tf32 = row.tf32,
                                   .compute = row.compute,
                                   .plans = PlanChoice::kMeasured};
      bench::add_row(rows.model + "_" + std::to_string(batch) + row.suffix, rows.unit(), [=, &rows](auto& counters) {
        counters["value"] = rows.units(batch) * on_gpu(rows.make, batch, compile);
      });
    }
  }
  return bench::run_rows(argc, argv);
}

/// main() of a bench: MODEL_2_processes, with one process of two threads as vs_threads, MODEL_1_thread and
/// MODEL_2_threads, in float32 and as MODEL_bf16.
inline int run_step_rows(int argc, char** argv, const StepRows& rows) {
  if (bench::device_index() >= 0) return run_gpu_rows(argc, argv, rows);
  constexpr double kSeconds = 10;
  const auto threads = [&](int count, DType compute) {
    return rows.units(rows.batch) * on_threads(rows.make, rows.batch, count, compute, kSeconds);
  };
  const auto add = [&](DType compute, const std::string& name, auto measure) {
    const std::string row = rows.model + (compute == DType::kBF16 ? "_bf16" : "") + name;
    benchmark::RegisterBenchmark(row.c_str(),
                                 [measure, compute, &rows](benchmark::State& state) {
                                   for ([[maybe_unused]] auto _ : state) measure(state.counters, compute);
                                   state.SetLabel(rows.unit());
                                 })
        ->Iterations(1)
        ->UseRealTime();
  };
  // First: a process that has had threads cannot fork.
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    add(compute, "_2_processes", [&](benchmark::UserCounters& counters, DType type) {
      counters["value"] = rows.units(rows.batch) * on_processes(rows.make, rows.batch, 2, type, rows.process_steps);
      counters["vs_threads"] = threads(2, type);
    });
  }
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    add(compute, "_1_thread", [&](auto& counters, DType type) { counters["value"] = threads(1, type); });
    add(compute, "_2_threads", [&](auto& counters, DType type) { counters["value"] = threads(2, type); });
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace troupe::learner
