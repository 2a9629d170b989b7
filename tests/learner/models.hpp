#pragma once
// Runs a replica step by step on given rows, alone or as several that train together, and compares what comes out.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <troupe/collectives/in_process.hpp>
#include <troupe/learner/engine/program_state.hpp>
#include <troupe/learner/replicate/replicator.hpp>
#include <troupe/tests/learner/golden.hpp>

namespace troupe::learner {

using MakeReplica = std::function<std::unique_ptr<Replica>(InputFn)>;
using State = std::map<std::string, std::vector<float>>;

inline State state_of(Program& program) {
  State state;
  for (const messages::TensorBytes& tensor : save_state(program)) {
    std::vector<float>& values = state[tensor.name];
    values.resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return state;
}

/// Copies PREFIX/NAME into every parameter and state; a follower starts as its online group.
inline void load_initial(Program& program, const Golden& golden, const std::string& prefix) {
  const auto load = [&](ParamBuffer& buffer, const std::string& follower) {
    for (const ParamEntry& entry : buffer.layout().entries) {
      std::string name = entry.name;
      if (const auto at = name.find(follower); !follower.empty() && at != std::string::npos)
        name.erase(at, follower.size());
      const std::vector<double> values = golden.values<double>(prefix + "/" + name);
      std::copy(values.begin(), values.end(), buffer.tensor(entry).begin());
    }
  };
  for (std::size_t i = 0; i < program.group_count(); ++i) load(program.group(i), ".average");
  load(program.state(), "");
  program.parameters_changed();
}

/// Rows [begin, begin + rows) of a batch, without a copy.
inline BatchView rows_of(const BatchView& batch, std::int64_t begin, std::int64_t rows) {
  BatchView part{batch.signature, rows, {}};
  for (std::size_t c = 0; c < batch.columns.size(); ++c) {
    const std::size_t bytes = (*batch.signature)[c].bytes();
    part.columns.push_back(
        batch.columns[c].subspan(static_cast<std::size_t>(begin) * bytes, static_cast<std::size_t>(rows) * bytes));
  }
  return part;
}

using BeforeSteps = std::function<void(Program&)>;
using AfterStep = std::function<void(std::size_t step, Program&)>;

/// Steps over `batches`, whose rows are shared among replicas as `shares` says. Returns the first replica's state.
inline State train(const MakeReplica& make, const std::vector<BatchView>& batches,
                   const std::vector<std::int64_t>& shares, int stripes, const BeforeSteps& before = {},
                   const AfterStep& after = {}, int devices = 1, Device device = {}) {
  State result;
  const std::int64_t global_batch = batches[0].rows;
  const auto body = [&](std::size_t rank, std::int64_t begin, collectives::Communicator* communicator) {
    BatchSlot slot(*batches[0].signature);
    const auto replica = make([&](const InputContext&) { return slot.pipeline(); });
    const OneDeviceOptions options{.batch = shares[rank],
                                   .compile = {.stripes = stripes, .devices = devices, .device = device, .seed = 11},
                                   .communicator = communicator,
                                   .global_batch = communicator == nullptr ? 0 : global_batch};
    const auto device = OneDevice::make(*replica, options).value();
    if (before) before(device->program());
    for (std::size_t step = 0; step < batches.size(); ++step) {
      slot.offer(rows_of(batches[step], begin, shares[rank])).value();
      device->step().value();
      if (after && rank == 0) after(step, device->program());
    }
    if (rank == 0) result = state_of(device->program());
  };
  if (shares.size() == 1) {
    body(0, 0, nullptr);
    return result;
  }
  collectives::InProcessHub hub;
  std::vector<std::jthread> threads;
  std::int64_t begin = 0;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    threads.emplace_back([&, rank, begin] {
      const collectives::GroupView view{1, static_cast<int>(rank), static_cast<int>(shares.size())};
      const auto communicator = hub.join(view, std::chrono::seconds(20)).value();
      body(rank, begin, communicator.get());
    });
    begin += shares[rank];
  }
  threads.clear();  // joins
  return result;
}

/// The largest difference over all tensors, relative to a tensor's largest element where that is above 1.
inline double largest_difference(const State& a, const State& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (const auto& [name, values] : a) {
    const std::vector<float>& others = b.at(name);
    double scale = 1;
    for (const float x : values) scale = std::max<double>(scale, std::abs(x));
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(values[i]) - others[i]) / scale);
    }
  }
  return largest;
}

}  // namespace troupe::learner
