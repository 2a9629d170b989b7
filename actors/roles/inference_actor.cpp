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
  // Whole requests, as many as it takes to have batch_size rows.
  const std::int64_t requests = (options.batch_size + options.rows - 1) / options.rows;
  TROUPE_ASSIGN(auto policy,
                options.make_policy(requests * options.rows, learner::device_of(options.devices, identity.index)));
  return std::unique_ptr<Role>(new InferenceActor(options, identity, std::move(policy)));
}

InferenceActor::InferenceActor(const InferenceActorOptions& options, const RoleIdentity& identity,
                               std::unique_ptr<learner::Policy> policy)
    : options_(options),
      identity_(identity),
      policy_(std::move(policy), options.staleness),
      given_(std::make_shared<const Signature>(policy_.policy().columns().outputs)),
      inputs_(policy_.policy().columns().inputs, policy_.policy().rows()),
      outputs_(*given_, policy_.policy().rows()) {}

Result<Progress> InferenceActor::step(RoleContext& context) {
  take_requests(context);
  TROUPE_ASSIGN(const bool ready, policy_.refresh(context));
  if (!ready || waiting_.empty()) return Progress::kIdle;
  if (waiting_rows() < options_.batch_size) {
    const Duration left = waiting_.front().since + options_.max_wait - context.clock().now();
    if (left > Duration::zero()) {
      context.wake_after(left);
      return Progress::kIdle;
    }
  }
  TROUPE_TRY(run_batch(context));
  return waiting_.empty() ? Progress::kIdle : Progress::kMore;
}

std::int64_t InferenceActor::waiting_rows() const {
  std::int64_t rows = 0;
  for (const Waiting& waiting : waiting_) rows += waiting.request.inputs.rows;
  return rows;
}

Status InferenceActor::check(const messages::InferenceRequest& request) {
  if (request.producer >= options_.producers) {
    return Error{Code::kInvalidArgument,
                 fmt::format("got producer {}, expected one of {}", request.producer, options_.producers)};
  }
  if (request.inputs.rows > options_.rows) {
    return Error{Code::kShapeMismatch, fmt::format("got {} rows from producer {}, expected at most {}",
                                                   request.inputs.rows, request.producer, options_.rows)};
  }
  return check_same(*request.signature, policy_.policy().columns().inputs, "inference request");
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

Status InferenceActor::run_batch(RoleContext& context) {
  const MutableBatchView& inputs = inputs_.mutable_view();
  std::int64_t rows = 0;
  auto behind = waiting_.begin();
  for (; behind != waiting_.end() && rows + behind->request.inputs.rows <= inputs.rows; ++behind) {
    const BatchView& asked = behind->request.inputs;
    const MutableBatchView to = inputs.slice(rows, asked.rows);
    for (std::size_t c = 0; c < to.columns.size(); ++c) std::ranges::copy(asked.columns[c], to.columns[c].begin());
    rows += asked.rows;
  }
  const MutableBatchView outputs = outputs_.mutable_view().slice(0, rows);
  TROUPE_TRY(policy_.policy().act(inputs.slice(0, rows).view(), outputs));
  std::int64_t row = 0;
  for (auto waiting = waiting_.begin(); waiting != behind; ++waiting) {
    const std::int64_t count = waiting->request.inputs.rows;
    TROUPE_ASSIGN(Frame answer, messages::make_inference_answer(
                                    context.pool(), {policy_.version(), given_, outputs.view().slice(row, count)}));
    waiting->answer(std::move(answer));
    row += count;
  }
  requests_ += behind - waiting_.begin();
  waiting_.erase(waiting_.begin(), behind);
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
