#pragma once
// The evaluator of a replica group: runs the newest published parameters over the data of the evaluation, a batch a
// step, and keeps what the model's judge says about them. It never holds anyone up.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/roles/replica_evaluation.hpp>
#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/actors/roles/replica_parameters.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/picture.hpp>

namespace troupe::actors {

struct ReplicaEvaluatorOptions {
  std::string name;  ///< of the role
  ReplicaModel model;
  std::int64_t last_step = 0;       ///< done when parameters of this step, or later ones, are evaluated
  std::string group;                ///< whose parameters they are: the source of pictures
  PictureSink* pictures = nullptr;  ///< outlives the role; null: nobody wants them
  bool has_listener = true;         ///< a metrics role hears of its evaluations; else only its state has the last one
};

/// Ports: in parameters (latest, Parameters); out evaluations (stream, Evaluation) if it has a listener. Each version
/// is evaluated on the whole data, in the same order. It is done when the last evaluation is recorded.
class ReplicaEvaluator final : public Role {
 public:
  static RoleSpec spec(const ReplicaEvaluatorOptions& options);
  static Result<std::unique_ptr<Role>> make(const ReplicaEvaluatorOptions& options);

  Result<Progress> step(RoleContext& context) override;
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;

 private:
  explicit ReplicaEvaluator(ReplicaEvaluatorOptions options) : options_(std::move(options)) {}
  /// Judges what has been evaluated and says so.
  Status conclude();
  /// Whether there were parameters to begin with.
  Result<bool> begin(RoleContext& context);

  ReplicaEvaluatorOptions options_;
  std::unique_ptr<ReplicaEvaluation> evaluation_;
  std::unique_ptr<ReplicaParameters> parameters_;
  std::int64_t evaluating_ = -1;  ///< step whose parameters are loaded
  std::int64_t evaluated_ = -1;
  std::vector<Scalar> results_;  ///< of `evaluated_`
  bool unsent_ = false;          ///< they wait for room
};

}  // namespace troupe::actors
