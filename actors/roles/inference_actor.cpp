#include <troupe/actors/roles/inference_actor.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/log.hpp>

namespace troupe::actors {

RoleSpec InferenceActor::spec(std::string name, std::int64_t count, const InferenceActorOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.count = count;
  spec.inlets = VersionedPolicy::inlets();
  spec.inlets.push_back({"requests", "InferenceRequest", ChannelKind::kRequest});
  spec.execution = Execution::kThread;
  spec.make = [options](const RoleIdentity& identity) { return make(options, identity); };
  return spec;
}

Result<std::unique_ptr<Role>> InferenceActor::make(const InferenceActorOptions& options, const RoleIdentity& identity) {
  TROUPE_ASSIGN(auto policy,
                options.make_policy(options.batch_size, learner::device_of(options.devices, identity.index)));
  return std::unique_ptr<Role>(new InferenceActor(options, identity, std::move(policy)));
}

InferenceActor::InferenceActor(const InferenceActorOptions& options, const RoleIdentity& identity,
                               std::unique_ptr<learner::Policy> policy)
    : options_(options), identity_(identity), policy_(std::move(policy), options.staleness) {
  observations_.resize(static_cast<std::size_t>(options.batch_size * policy_.policy().observation_size()));
  actions_.resize(static_cast<std::size_t>(options.batch_size * policy_.policy().action_size()));
}

Result<Progress> InferenceActor::step(RoleContext& context) {
  take_requests(context);
  TROUPE_ASSIGN(const bool ready, policy_.refresh(context));
  if (!ready || waiting_.empty()) return Progress::kIdle;
  const auto full = static_cast<std::size_t>(options_.batch_size);
  if (waiting_.size() < full) {
    const Duration left = waiting_.front().since + options_.max_wait - context.clock().now();
    if (left > Duration::zero()) {
      context.wake_after(left);
      return Progress::kIdle;
    }
  }
  TROUPE_TRY(run_batch(context, std::min(waiting_.size(), full)));
  return waiting_.empty() ? Progress::kIdle : Progress::kMore;
}

Status InferenceActor::check(const messages::InferenceRequest& request) {
  if (request.producer >= options_.producers) {
    return Error{Code::kInvalidArgument,
                 fmt::format("got producer {}, expected one of {}", request.producer, options_.producers)};
  }
  const auto expected = static_cast<std::size_t>(policy_.policy().observation_size());
  if (request.observation.size() != expected) {
    return Error{Code::kShapeMismatch, fmt::format("got an observation of {} elements from producer {}, expected {}",
                                                   request.observation.size(), request.producer, expected)};
  }
  return {};
}

void InferenceActor::take_requests(RoleContext& context) {
  Server& server = context.server("requests");
  while (!server.empty()) {
    auto [frame, answer] = server.take();
    const auto request = messages::read_inference_request(frame);
    const Status good = request.ok() ? check(*request) : request.error();
    if (!good.ok()) {
      if (refused_++ == 0) {
        log::warn("{}: request refused (further ones are only counted): {}", identity_.name(), good.error().message);
      }
      continue;
    }
    std::erase_if(waiting_, [&](const Waiting& older) { return older.request.producer == request->producer; });
    waiting_.push_back({std::move(frame), *request, std::move(answer), context.clock().now()});
  }
}

Status InferenceActor::run_batch(RoleContext& context, std::size_t count) {
  learner::Policy& policy = policy_.policy();
  const auto observation = static_cast<std::size_t>(policy.observation_size());
  const auto action = static_cast<std::size_t>(policy.action_size());
  for (std::size_t i = 0; i < count; ++i) {
    std::ranges::copy(waiting_[i].request.observation,
                      observations_.begin() + static_cast<std::ptrdiff_t>(i * observation));
  }
  const auto actions = std::span(actions_).first(count * action);
  TROUPE_TRY(policy.act(std::span(observations_).first(count * observation), actions));
  for (std::size_t i = 0; i < count; ++i) {
    TROUPE_ASSIGN(Frame answer, messages::make_inference_answer(
                                    context.pool(), {policy_.version(), actions.subspan(i * action, action)}));
    waiting_[i].answer(std::move(answer));
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
  requests_ += static_cast<std::int64_t>(count);
  ++batches_;
  return {};
}

void InferenceActor::report(Report& report) const {
  report.counters.push_back({"requests", static_cast<double>(requests_)});
  report.counters.push_back({"batches", static_cast<double>(batches_)});
  report.counters.push_back({"requests_refused", static_cast<double>(refused_)});
  if (policy_.version() >= 0) report.gauges.push_back({"version", static_cast<double>(policy_.version())});
  policy_.report(report);
}

}  // namespace troupe::actors
