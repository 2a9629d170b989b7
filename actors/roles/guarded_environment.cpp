#include <troupe/actors/roles/guarded_environment.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include <troupe/core/log.hpp>

namespace troupe::actors {
namespace {

/// Calls third-party code: what it throws becomes an error.
template <typename Call>
Result<envs::TimeStep> caught(Call call) {
  try {
    return call();
  } catch (const std::exception& exception) {
    return Error{Code::kInternal, std::string("exception: ") + exception.what()};
  } catch (...) {
    return Error{Code::kInternal, "unknown exception"};
  }
}

}  // namespace

GuardedEnvironment::GuardedEnvironment(std::unique_ptr<envs::Environment> environment)
    : environment_(std::move(environment)),
      raw_observation_(row_bytes(spec().observation)),
      action_(static_cast<std::size_t>(spec().action_size())) {}

Result<envs::TimeStep> GuardedEnvironment::reset(std::span<float> observation) {
  return checked(caught([&] { return environment_->reset(raw_observation_); }), true, observation);
}

Result<envs::TimeStep> GuardedEnvironment::step(std::span<const float> action, std::span<float> observation) {
  std::ranges::copy(action, action_.begin());
  return checked(caught([&] { return environment_->step(action_, raw_observation_); }), false, observation);
}

Result<envs::TimeStep> GuardedEnvironment::checked(const Result<envs::TimeStep>& result, bool first,
                                                   std::span<float> observation) const {
  const char* const call = first ? "reset" : "step";
  if (!result.ok()) return Error{result.error().code, fmt::format("{}: {}", call, result.error().message)};
  auto refuse = [&](const std::string& what) { return Error{Code::kInternal, fmt::format("{}: {}", call, what)}; };
  if (result->first() != first) return refuse(first ? "got a later step, expected the first" : "got a first step");
  if (!std::isfinite(static_cast<float>(result->reward))) {  // replay stores floats
    return refuse(fmt::format("got reward {}, expected a finite float", result->reward));
  }
  if (!(result->discount >= 0 && result->discount <= 1)) {
    return refuse(fmt::format("got discount {}, expected 0..1", result->discount));
  }
  envs::flatten_observation(spec(), raw_observation_, observation);
  const auto bad = std::ranges::find_if(observation, [](float value) { return !std::isfinite(value); });
  if (bad != observation.end()) {
    return refuse(fmt::format("got observation[{}] = {}, expected finite values", bad - observation.begin(), *bad));
  }
  return *result;
}

Status GuardedEnvironment::survive(const std::string& who, const Error& cause, std::int64_t dropped_steps,
                                   Duration now) {
  ++failures_;
  while (!recent_.empty() && now - recent_.front() >= kWindow) recent_.pop_front();
  recent_.push_back(now);
  const std::string what =
      fmt::format("environment {}: {}; {} unfinished steps dropped", spec().name, cause.message, dropped_steps);
  const double window_s = seconds(kWindow);
  if (recent_.size() >= kMostFailures) {
    return Error{cause.code, fmt::format("TRP-E150 {} (failure {} in {:.0f} s)", what, recent_.size(), window_s)};
  }
  log::warn("TRP-E150 {}: {}; reset ({} of {} in {:.0f} s)", who, what, recent_.size(), kMostFailures, window_s);
  return {};
}

}  // namespace troupe::actors
