#pragma once
// The parameter store: keeps the newest version of the parameters for everyone who acts, and knows how stale the
// parameters were that data was made with. Last station of the flow learner -> parameter store -> actor.
#include <array>
#include <memory>

#include <troupe/actors/topology.hpp>

namespace troupe::actors {

/// Counts of environment steps by staleness = newest version now - version that acted: bucket 0 holds staleness 0,
/// bucket i staleness 2^(i-1) .. 2^i - 1, the last one everything above.
class StalenessHistogram {
 public:
  static constexpr std::size_t kBuckets = 16;

  void add(std::int64_t staleness, std::int64_t env_steps);
  const std::array<std::int64_t, kBuckets>& buckets() const { return buckets_; }
  double mean() const { return steps_ == 0 ? 0 : sum_ / static_cast<double>(steps_); }
  std::int64_t max() const { return max_; }

 private:
  std::array<std::int64_t, kBuckets> buckets_{};
  std::int64_t steps_ = 0;
  double sum_ = 0;
  std::int64_t max_ = 0;
};

/// Ports: in updates (latest, Parameters), use (stream, ParametersUse; always drained); out parameters (latest,
/// Parameters). Fails when a version is older than one it has passed on: versions only grow.
class ParameterStore final : public Role {
 public:
  static RoleSpec spec(std::string name);

  Result<Progress> step(RoleContext& context) override;
  void report(Report& report) const override;

 private:
  std::int64_t version_ = -1;
  StalenessHistogram staleness_;
};

}  // namespace troupe::actors
