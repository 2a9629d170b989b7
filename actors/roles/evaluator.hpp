#pragma once
// The evaluator of an agent or of a replica group: judges versions of the parameters as they are published
// (actors/roles/examination.hpp) and reports what each is worth. It never holds anyone up.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/roles/examination.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/core/picture.hpp>

namespace troupe::actors {

struct EvaluatorActorOptions {
  MakeExamination examine;
  std::int64_t every = 1;           ///< versions between two that are judged
  std::int64_t last = 0;            ///< done when this version, or a later one, is judged; 0: never
  std::string trainer;              ///< the role whose parameters they are, which names the source of pictures
  PictureSink* pictures = nullptr;  ///< outlives the role; null: nobody wants them
  bool has_listener = true;         ///< a metrics role hears its evaluations; else its state has the last one alone
};

/// Ports: in parameters (latest, Parameters); out evaluations (stream, Evaluation) if it has a listener. Judges the
/// first version that is at least `every` newer than the one before; the untrained version 0 too. An evaluation that a
/// checkpoint finds under way is begun anew after a resume; one that waits for room is kept. It is done when the last
/// one is recorded.
class Evaluator final : public Role {
 public:
  static RoleSpec spec(std::string name, const EvaluatorActorOptions& options);
  static Result<std::unique_ptr<Role>> make(const EvaluatorActorOptions& options, const RoleIdentity& identity);

  Result<Progress> step(RoleContext& context) override;
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;

 private:
  Evaluator(EvaluatorActorOptions options, std::string name, std::unique_ptr<Examination> examination)
      : options_(std::move(options)), name_(std::move(name)), examination_(std::move(examination)) {}
  /// Begins with a new version; false when there is none.
  bool begin(RoleContext& context);
  /// Keeps the verdict on the version that is judged now, and shows it.
  Status conclude();

  const EvaluatorActorOptions options_;
  const std::string name_;
  std::unique_ptr<Examination> examination_;
  bool under_way_ = false;
  std::int64_t judging_ = -1;    ///< version that is under way, or was last
  std::int64_t evaluated_ = -1;  ///< version; -1: none
  std::vector<Scalar> results_;  ///< of `evaluated_`
  bool unsent_ = false;          ///< they wait for room
};

}  // namespace troupe::actors
