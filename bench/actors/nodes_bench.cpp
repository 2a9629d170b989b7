// What many nodes cost: real ones on this host, each a process with a role that does next to nothing, and simulated
// ones. Rows, for N nodes beside the chief and a hub:
//   real_N_all_in      from the first process to the first word of the last one, at the hub
//   real_N_chief       processors that the chief's process uses while nothing happens
//   real_N_cut         a checkpoint
//   real_N_gap         longest time between two words of a node, which says one a second, while others are killed: one
//                      every two seconds, ten in all
//   simulated_N_all_in, simulated_N_ten_s, simulated_N_cut
//                      messages between the chief and a node until all are in, in ten seconds in which nothing happens,
//                      and for a checkpoint
// Limits are those of docs/faults.md.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include <troupe/tests/actors/many_nodes.hpp>
#include <troupe/tests/actors/real_nodes.hpp>

namespace troupe::actors {
namespace {

using std::chrono::seconds;

struct Measured {
  double all_in = 0, chief = 0, cut = 0, gap = 0;
};

Measured measure(int nodes) {
  testing::RealNodes run(nodes, std::filesystem::temp_directory_path() / ("nodes_bench_" + std::to_string(getpid())));
  Measured measured;
  const Duration in = run.until_all_are_in(std::chrono::minutes(2));
  TROUPE_CHECK(in >= Duration::zero(), "{} of {} nodes are in", run.board().heard_of.load(), nodes);
  measured.all_in = troupe::seconds(in);
  run.wait(seconds(3));
  measured.chief = run.chief_cpu(seconds(10));
  const Duration cut = run.cut();
  TROUPE_CHECK(cut >= Duration::zero(), "no checkpoint of {} nodes", nodes);
  measured.cut = troupe::seconds(cut);
  run.forget_gaps();
  for (int i = 0; i < 10; ++i) {
    run.kill(i);
    run.wait(seconds(2));
  }
  run.wait(seconds(2));
  measured.gap = troupe::seconds(run.longest_gap());
  TROUPE_CHECK(run.finish(seconds(30)), "{} nodes have not ended", nodes);
  return measured;
}

/// One run gives all rows of its number of nodes.
const Measured& measured(int nodes) {
  static std::map<int, Measured> all;
  const auto found = all.find(nodes);
  return found != all.end() ? found->second : all.emplace(nodes, measure(nodes)).first->second;
}

void real(benchmark::State& state, int nodes, double Measured::*what, const char* unit, double limit) {
  for (auto _ : state) state.counters["value"] = measured(nodes).*what;
  if (limit > 0) state.counters["vs_limit"] = limit;
  state.SetLabel(unit);
}

const testing::Costs& costs(std::int64_t nodes) {
  static std::map<std::int64_t, testing::Costs> all;
  const auto found = all.find(nodes);
  if (found != all.end()) return found->second;
  const testing::Costs& costs = all.emplace(nodes, testing::costs_of(nodes)).first->second;
  TROUPE_CHECK(costs.all_in >= Duration::zero() && costs.cut_took >= Duration::zero(), "a run of {} failed", nodes);
  return costs;
}

void simulated(benchmark::State& state, std::int64_t nodes, testing::ManyNodes::Share testing::Costs::*what) {
  for (auto _ : state) state.counters["value"] = (costs(nodes).*what).control;
  state.SetLabel("messages/node");
}

void add(const std::string& name, std::function<void(benchmark::State&)> run) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(run))->Iterations(1);
}

}  // namespace
}  // namespace troupe::actors

int main(int argc, char** argv) {
  using namespace troupe::actors;
  benchmark::Initialize(&argc, argv);
  for (const int nodes : {16, 64, 256}) {
    const std::string name = "real_" + std::to_string(nodes);
    add(name + "_all_in", [=](auto& state) { real(state, nodes, &Measured::all_in, "s", 15); });
    add(name + "_chief", [=](auto& state) { real(state, nodes, &Measured::chief, "cores", 0.1); });
    add(name + "_cut", [=](auto& state) { real(state, nodes, &Measured::cut, "s", 5); });
    add(name + "_gap", [=](auto& state) { real(state, nodes, &Measured::gap, "s", 0); });
  }
  for (const int nodes : {64, 4096}) {
    const std::string name = "simulated_" + std::to_string(nodes);
    add(name + "_all_in", [=](auto& state) { simulated(state, nodes, &testing::Costs::start); });
    add(name + "_ten_s", [=](auto& state) { simulated(state, nodes, &testing::Costs::ten_seconds); });
    add(name + "_cut", [=](auto& state) { simulated(state, nodes, &testing::Costs::cut); });
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
