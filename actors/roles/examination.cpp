#include <troupe/actors/roles/examination.hpp>

#include <cstdint>
#include <string>
#include <utility>

#include <troupe/actors/roles/evaluation.hpp>
#include <troupe/actors/roles/replica_evaluation.hpp>
#include <troupe/actors/roles/replica_parameters.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::actors {
namespace {

/// Control steps of one slice: with ten episodes of a heavy environment some milliseconds.
constexpr std::int64_t kStepsPerSlice = 10;

class ByEpisodes final : public Examination {
 public:
  ByEpisodes(std::unique_ptr<EpisodeRunner> runner, std::uint64_t seed) : runner_(std::move(runner)), seed_(seed) {}

  Status begin(const messages::ParametersView& parameters) override {
    TROUPE_ASSIGN(const auto values, parameters.floats());
    return runner_->begin(values, parameters.info().layout_hash, derive_seed(seed_, "evaluation", judged_));
  }
  Result<Progress> advance() override {
    TROUPE_ASSIGN(const bool finished, runner_->advance(kStepsPerSlice));
    return finished ? Progress::kDone : Progress::kMore;
  }
  Result<learner::Verdict> verdict() override {
    ++judged_;
    return learner::Verdict{.scalars = values_of_returns(runner_->returns()), .pictures = {}};
  }

 private:
  std::unique_ptr<EpisodeRunner> runner_;
  const std::uint64_t seed_;
  std::uint64_t judged_ = 0;  ///< versions
};

class ByData final : public Examination {
 public:
  ByData(std::unique_ptr<ReplicaEvaluation> evaluation, std::string name)
      : evaluation_(std::move(evaluation)), parameters_(evaluation_->program()), name_(std::move(name)) {}

  Result<bool> prepare() override { return evaluation_->prepare(); }
  Status begin(const messages::ParametersView& parameters) override {
    TROUPE_TRY(parameters_.scatter(parameters, evaluation_->program(), name_));
    evaluation_->begin();
    return {};
  }
  Result<Progress> advance() override { return evaluation_->advance(); }
  Result<learner::Verdict> verdict() override { return evaluation_->verdict(); }

 private:
  std::unique_ptr<ReplicaEvaluation> evaluation_;
  ReplicaParameters parameters_;
  const std::string name_;
};

}  // namespace

MakeExamination examine_by_episodes(EpisodeRunnerOptions options) {
  return [options = std::move(options)](const RoleIdentity& identity) -> Result<std::unique_ptr<Examination>> {
    TROUPE_ASSIGN(auto runner, EpisodeRunner::make(options));
    return {std::make_unique<ByEpisodes>(std::move(runner), identity.seed)};
  };
}

MakeExamination examine_by_data(ReplicaModel model) {
  return [model = std::move(model)](const RoleIdentity& identity) -> Result<std::unique_ptr<Examination>> {
    TROUPE_ASSIGN(auto evaluation, ReplicaEvaluation::make(model, identity.name()));
    return {std::make_unique<ByData>(std::move(evaluation), identity.name())};
  };
}

}  // namespace troupe::actors
