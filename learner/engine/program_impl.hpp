#pragma once
// The inside of Program: the host's half, and the executable that an engine has made; what program.cpp and launch.cpp
// know of runs and launches between the two.
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <troupe/learner/engine/device_feed.hpp>
#include <troupe/learner/engine/engine.hpp>
#include <troupe/learner/engine/host.hpp>
#include <troupe/learner/engine/program.hpp>

namespace troupe::learner {

struct Program::Impl {
  Impl(const GraphData& data, std::int64_t batch, const CompileOptions& options) : host(data, batch, options) {}

  Host host;
  std::unique_ptr<Executable> executable;
  Status lost;  ///< of the device, whose parameters are gone
  std::int64_t skipped = 0;
  std::int64_t skipped_in_a_row = 0;
  std::int64_t skipped_in_a_row_max = 0;  ///< in the last launch
  bool gradients_ready = false;

  std::shared_ptr<DeviceFeed> feed;  ///< of the inputs; null: they are bound or staged
  std::int64_t kept_rows = 0;        ///< of which launches are made; 0: none
  int staged = 0;                    ///< batches for the next launch
  std::int64_t staged_rows = 0;      ///< of each
  struct {
    bool begun = false;   ///< and not yet given
    bool awaits = false;  ///< the launch that is under way, to know its step
    std::vector<std::size_t> groups;
    std::int64_t step = 0;
  } snapshot;
  /// What is published with some groups; learned at their first snapshot.
  struct Published {
    std::uint64_t fingerprint = 0;
    std::vector<std::span<const float>> state;  ///< stretches of the state's values
  };
  std::map<std::vector<std::size_t>, Published> published;
  const Published& published_with(const std::vector<std::size_t>& of);

  /// Errors: kInvalidArgument while a launch is under way, naming the call.
  Status check_idle(std::string_view call) const;
  /// Errors: kInvalidArgument when a float64 program would update.
  Status check_phase(std::string_view call, Phase phase) const;
  /// Whether a batch may be staged now; see Program::stage.
  Status check_staging(std::string_view call, const BatchView& batch) const;
  /// Whether the device's parameters may be read or written now.
  bool reachable() const { return lost.ok() && host.under_way == 0; }
  Status begin(Inputs inputs, int steps);
  /// After the work of a run or launch, of those in Host::skips: counts the steps. Returns how many were updates.
  int count_steps();
  /// Brings the host's copy of a group, or of the state after the last one, up to date; a failure stays in `lost`.
  void fetch(std::size_t group);
};

}  // namespace troupe::learner
