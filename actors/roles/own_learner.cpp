#include <troupe/actors/roles/own_learner.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <troupe/actors/roles/policy_publication.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::actors {
namespace {

class OwnLearner final : public Role {
 public:
  OwnLearner(const OwnLearnerOptions& options, std::unique_ptr<Learner> learner)
      : options_(options),
        learner_(std::move(learner)),
        batches_(options.batches),
        layout_hash_(options.context.policy.fingerprint()) {}

  Result<Progress> step(RoleContext& context) override {
    TROUPE_TRY(batches_.send_priorities(context));
    TROUPE_TRY(go_behind_others(context));
    const std::int64_t most = options_.context.max_steps;
    const bool finished = most > 0 && steps_ >= most;
    TROUPE_ASSIGN(const bool published, publish(context, finished));
    if (finished) return published ? Progress::kDone : Progress::kIdle;
    TROUPE_ASSIGN(const auto batch, batches_.next(context));
    if (!batch) return Progress::kIdle;
    TROUPE_TRY(learn(context, *batch));
    return Progress::kMore;
  }

  void report(Report& report) const override {
    report.counters.push_back({"steps", static_cast<double>(steps_)});
    report.gauges.push_back({"version", static_cast<double>(version())});
    report.gauges.insert(report.gauges.end(), metrics_.begin(), metrics_.end());
  }

  Result<RoleState> save() const override {
    TROUPE_ASSIGN(RoleState state, learner_->save());
    for (StateTensor& tensor : state.tensors) tensor.name.insert(0, kOwnLearnerState);
    for (messages::Counter& counter : state.counters) counter.name.insert(0, kOwnLearnerState);
    // As a trainer's checkpoint has it: for `eval`, `export` and whoever else looks for what was learnt.
    std::vector<float> policy(static_cast<std::size_t>(options_.context.policy.elements), 0.0F);
    TROUPE_TRY(learner_->write_policy(policy));
    for (const learner::ParamEntry& entry : options_.context.policy.entries) {
      const auto values = std::as_bytes(std::span(policy).subspan(static_cast<std::size_t>(entry.offset),
                                                                  static_cast<std::size_t>(entry.shape.elements())));
      state.tensors.push_back({entry.name, DType::kF32, entry.shape, {values.begin(), values.end()}});
    }
    state.counters.push_back({"steps", steps_});
    state.counters.push_back({"ahead", ahead_});
    batches_.save(state);
    return state;
  }

  Status restore(const RoleState& state) override {
    TROUPE_ASSIGN(steps_, state.counter("steps"));
    TROUPE_ASSIGN(ahead_, state.counter("ahead"));
    TROUPE_TRY(batches_.restore(state));
    RoleState own{.chunks = state.chunks};
    for (StateTensor tensor : state.tensors) {
      if (!tensor.name.starts_with(kOwnLearnerState)) continue;
      tensor.name.erase(0, kOwnLearnerState.size());
      own.tensors.push_back(std::move(tensor));
    }
    for (messages::Counter counter : state.counters) {
      if (!counter.name.starts_with(kOwnLearnerState)) continue;
      counter.name.erase(0, kOwnLearnerState.size());
      own.counters.push_back(std::move(counter));
    }
    return learner_->restore(own);
  }

 private:
  std::int64_t version() const { return steps_ + ahead_; }

  Status learn(RoleContext& context, const ReplayBatch& batch) {
    const BatchView columns = batches_.columns(batch, weights_);
    const Status fits = check_same(*columns.signature, options_.context.batch, "batch");
    if (!fits.ok()) {
      context.refuse("batches", fits.error());
      return {};
    }
    TROUPE_ASSIGN(LearnerStep made, learner_->learn(columns));
    if (options_.context.prioritised) {
      TROUPE_TRY(check_priorities(made.priorities, columns.rows));
      batches_.answer(batch, made.priorities);
    }
    metrics_ = std::move(made.metrics);
    ++steps_;
    return {};
  }

  Status check_priorities(const std::vector<double>& priorities, std::int64_t rows) const {
    if (static_cast<std::int64_t>(priorities.size()) != rows) {
      return Error{Code::kShapeMismatch,
                   fmt::format("learn: {} priorities, expected {}, as replay is prioritised", priorities.size(), rows)};
    }
    const auto wrong = std::ranges::find_if(priorities, [](double p) { return !std::isfinite(p) || p < 0; });
    if (wrong == priorities.end()) return {};
    return Error{Code::kInvalidArgument, fmt::format("learn: priority {}, expected a finite one >= 0", *wrong)};
  }

  /// The parameter store knows newer versions: those that this learner had given out before it was restarted.
  Status go_behind_others(RoleContext& context) {
    Inlet& refused = context.in("refused");
    if (refused.empty()) return {};
    const auto reached = read_reached(refused.take());
    if (!reached.ok()) {
      context.refuse("refused", reached.error());
    } else if (*reached >= version()) {
      ahead_ = *reached + 1 - steps_;
    }
    return {};
  }

  /// Whether nothing is due any more. Who is late publishes a later version instead.
  Result<bool> publish(RoleContext& context, bool last) {
    if (published_ >= 0 && version() - published_ < (last ? 1 : options_.publish_period)) return true;
    if (!context.out("updates").ready(0)) return false;
    const std::int64_t elements = options_.context.policy.elements;
    TROUPE_ASSIGN(auto builder, messages::ParametersBuilder::make(context.pool(), DType::kF32, elements));
    const std::span values(reinterpret_cast<float*>(builder.data().data()), static_cast<std::size_t>(elements));
    std::ranges::fill(values, 0.0F);
    TROUPE_TRY(learner_->write_policy(values));
    // Counts, since a search that ends early takes a number at a time.
    if (std::ranges::count_if(values, [](float value) { return !std::isfinite(value); }) > 0) {
      const auto wrong = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
      return Error{Code::kInvalidArgument,
                   fmt::format("write_policy: element {} is {} after step {}", wrong - values.begin(), *wrong, steps_)};
    }
    context.out("updates").send(std::move(builder).finish({.version = version(), .layout_hash = layout_hash_}));
    published_ = version();
    return true;
  }

  const OwnLearnerOptions options_;
  const std::unique_ptr<Learner> learner_;
  ReplayBatches batches_;
  const std::uint64_t layout_hash_;
  std::vector<float> weights_;
  std::vector<Scalar> metrics_;  ///< of the newest step
  std::int64_t steps_ = 0;
  std::int64_t ahead_ = 0;  ///< version - steps
  std::int64_t published_ = -1;
};

}  // namespace

RoleSpec own_learner(std::string name, const OwnLearnerOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.inlets = ReplayBatches::inlets();
  spec.inlets.push_back({"refused", "ParametersVersion", ChannelKind::kLatest});
  spec.outlets = ReplayBatches::outlets();
  spec.outlets.push_back({"updates", "Parameters", ChannelKind::kLatest});
  spec.execution = Execution::kThread;
  spec.make = [options](const RoleIdentity& identity) -> Result<std::unique_ptr<Role>> {
    LearnerContext context = options.context;
    context.seed = identity.seed;
    TROUPE_ASSIGN(auto learner, options.make(context));
    return {std::make_unique<OwnLearner>(options, std::move(learner))};
  };
  return spec;
}

}  // namespace troupe::actors
