#include <troupe/actors/roles/versioned_policy.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {

std::vector<Port> VersionedPolicy::inlets() {
  return {{"parameters", "Parameters", ChannelKind::kLatest}, {"versions", "ParametersVersion", ChannelKind::kLatest}};
}

VersionedPolicy::VersionedPolicy(std::unique_ptr<learner::Policy> policy, StalenessContract staleness)
    : policy_(std::move(policy)), staleness_(std::move(staleness)) {}

Result<bool> VersionedPolicy::refresh(RoleContext& context) {
  for (Inlet& versions = context.in("versions"); !versions.empty();) {
    const auto newest = messages::read_parameters_version(versions.take());
    newest.ok() ? void(newest_ = newest->version) : context.refuse("versions", newest.error());
  }
  for (Inlet& parameters = context.in("parameters"); !parameters.empty();) {
    const Status loaded = load(parameters.take());
    if (loaded.ok()) continue;
    if (loaded.error().code == Code::kLost) return loaded.error();
    context.refuse("parameters", loaded.error());
  }
  if (version_ < 0) return false;
  const bool stale = past_bound(context);
  if (stale || stale_since_ >= Duration::zero()) {
    const Duration now = context.clock().now();
    if (stale_since_ >= Duration::zero()) stale_wait_ += now - stale_since_;
    stale_since_ = stale ? now : Duration{-1};
  }
  return !stale;
}

Status VersionedPolicy::load(const Frame& frame) {
  TROUPE_ASSIGN(const auto parameters, messages::read_parameters(frame));
  if (parameters.info().version <= version_) return {};
  TROUPE_ASSIGN(const auto values, parameters.floats());
  TROUPE_TRY(policy_->load(values, parameters.info().layout_hash));
  version_ = parameters.info().version;
  return {};
}

bool VersionedPolicy::past_bound(const RoleContext& context) const {
  return staleness_.max_versions >= 0 && newest_ - version_ > staleness_.max_versions &&
         std::ranges::all_of(staleness_.sources, [&](const std::string& role) { return context.alive(role); });
}

std::string VersionedPolicy::waiting_for() const {
  if (version_ < 0) return "no parameters have come yet;";
  if (stale_since_ < Duration::zero()) return {};
  return fmt::format("parameters newer than version {}: the newest is {}, staleness.max_versions is {};", version_,
                     newest_, staleness_.max_versions);
}

void VersionedPolicy::report(Report& report) const {
  report.counters.push_back({"stale_wait_s", seconds(stale_wait_)});
}

}  // namespace troupe::actors
