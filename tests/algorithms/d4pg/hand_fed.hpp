#pragma once
// D4PG as a trainer runs it (actors/roles/trainer.hpp), fed by hand: for tests and benches of steps by themselves.
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <troupe/algorithms/d4pg/networks.hpp>
#include <troupe/algorithms/d4pg/options.hpp>
#include <troupe/algorithms/d4pg/replica.hpp>
#include <troupe/learner/replicate/multi_worker.hpp>

namespace troupe::learner::d4pg {

struct HandFedOptions {
  Options d4pg;
  CompileOptions compile;
  collectives::Communicator* communicator = nullptr;  ///< of a group, whose member this is; reform() first
};

struct StepMetrics {
  double critic_loss = 0;
  double policy_loss = 0;
  double q_mean = 0;
  bool skipped = false;  ///< then the numbers are of the step before
};

class HandFed {
 public:
  static Result<std::unique_ptr<HandFed>> make(const HandFedOptions& options) {
    TROUPE_TRY(validate(options.d4pg));
    std::unique_ptr<HandFed> made(new HandFed(batch_signature(options.d4pg)));
    made->replica_ = training(options.d4pg, [&slot = made->slot_](const InputContext&) { return slot.pipeline(); });
    if (options.communicator == nullptr) {
      TROUPE_ASSIGN(made->replicator_,
                    OneDevice::make(*made->replica_, {.batch = options.d4pg.batch, .compile = options.compile}));
    } else {
      TROUPE_ASSIGN(auto group, MultiWorker::make(*made->replica_, {.batch = options.d4pg.batch,
                                                                    .compile = options.compile,
                                                                    .communicator = options.communicator}));
      made->group_ = group.get();
      made->replicator_ = std::move(group);
    }
    return made;
  }

  const Signature& signature() const { return signature_; }
  Program& program() { return replicator_->program(); }
  const ParamBuffer& policy() const { return *replicator_->program().params(kPolicyGroup); }
  Status reform(const collectives::GroupView& view, Duration timeout) { return group_->reform(view, timeout); }

  int steps_per_launch() const { return replicator_->steps_per_launch(); }
  Status stage(const BatchView& batch) {
    TROUPE_TRY(slot_.offer(batch));
    return replicator_->stage();
  }
  Status begin() { return replicator_->begin(); }
  Status begin(int steps) { return replicator_->begin(steps); }
  bool finished() { return replicator_->finished(); }
  /// What each step of the launch gave; valid until the next finish().
  Result<std::span<const StepMetrics>> finish() {
    TROUPE_TRY(replicator_->finish());
    metrics_.clear();
    td_error_.clear();
    for (int step = 0; !program().metrics(step).empty(); ++step) {
      const auto values = program().metrics(step);
      const auto errors = program().output("td_error", step);
      if (!program().skipped(step)) last_ = {values[0], values[1], values[2]};
      metrics_.push_back(last_);
      metrics_.back().skipped = program().skipped(step);
      td_error_.emplace_back(errors.begin(), errors.end());
    }
    return std::span<const StepMetrics>(metrics_);
  }
  Result<StepMetrics> step(const BatchView& batch) {
    TROUPE_TRY(stage(batch));
    TROUPE_TRY(begin());
    TROUPE_ASSIGN(const std::span<const StepMetrics> metrics, finish());
    return metrics.back();
  }
  std::span<const float> td_error(int step = 0) const {
    const auto index = static_cast<std::size_t>(step);
    return index < td_error_.size() ? std::span<const float>(td_error_[index]) : std::span<const float>();
  }

 private:
  explicit HandFed(const Signature& signature) : signature_(signature), slot_(signature) {}

  Signature signature_;
  std::vector<StepMetrics> metrics_;
  StepMetrics last_;
  std::vector<std::vector<float>> td_error_;
  BatchSlot slot_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Replicator> replicator_;
  MultiWorker* group_ = nullptr;
};

}  // namespace troupe::learner::d4pg
