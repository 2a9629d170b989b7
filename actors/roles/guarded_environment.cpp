#include <troupe/actors/roles/guarded_environment.hpp>

#include <fmt/format.h>

#include <cmath>
#include <exception>

#include <troupe/core/log.hpp>
#include <troupe/core/tensor.hpp>

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

Result<envs::TimeStep> GuardedEnvironment::reset(std::uint64_t seed, std::span<std::byte> observation) {
  return checked(caught([&] { return inside().reset(seed, observation); }), true, observation);
}

Result<envs::TimeStep> GuardedEnvironment::reset(std::span<std::byte> observation) {
  return checked(caught([&] { return inside().reset(observation); }), true, observation);
}

Result<envs::TimeStep> GuardedEnvironment::step(std::span<const std::byte> action, std::span<std::byte> observation) {
  return checked(caught([&] { return inside().step(action, observation); }), false, observation);
}

Result<envs::TimeStep> GuardedEnvironment::checked(const Result<envs::TimeStep>& result, bool first,
                                                   std::span<const std::byte> observation) const {
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
  for (const TensorSpec& column : spec().observation) {
    const auto values = observation.first(column.bytes());
    observation = observation.subspan(column.bytes());
    if (const auto bad = first_not_finite(column.dtype, values)) {
      return refuse(fmt::format("got {}[{}] = {}, expected finite values", column.name, bad->index, bad->value));
    }
  }
  return *result;
}

Status EnvironmentFailures::survive(const std::string& who, const std::string& environment, const Error& cause,
                                    std::int64_t dropped_steps, Duration now) {
  ++count_;
  while (!recent_.empty() && now - recent_.front() >= kWindow) recent_.pop_front();
  recent_.push_back(now);
  const std::string what =
      fmt::format("environment {}: {}; {} unfinished steps dropped", environment, cause.message, dropped_steps);
  const double window_s = seconds(kWindow);
  if (recent_.size() >= kMost) {
    return Error{cause.code, fmt::format("TRP-E150 {} (failure {} in {:.0f} s)", what, recent_.size(), window_s)};
  }
  log::warn("TRP-E150 {}: {}; reset ({} of {} in {:.0f} s)", who, what, recent_.size(), kMost, window_s);
  return {};
}

}  // namespace troupe::actors
