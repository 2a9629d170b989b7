#pragma once
// What a replica group trains and how its result is judged: a value that the registry has by name (run/registry.hpp).
// Those that ship (run/models) are registered like a user's own. Role factories call these functions on their own
// threads.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/judging/judge.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::actors {

/// How long until an input pipeline that had nothing is asked again. Its threads make batches ahead, so it has nothing
/// only where they cannot keep up, and so short a wait is not noticed then.
inline constexpr Duration kInputPatience = std::chrono::milliseconds(1);

using MakeReplica = std::function<Result<std::unique_ptr<learner::Replica>>()>;
using MakeJudge = std::function<Result<std::unique_ptr<learner::Judge>>()>;

/// Puts fakes beside the real images of a pipeline (algorithms/sngan/fakes.hpp).
using AddFakes = std::function<std::unique_ptr<learner::InputPipeline>(std::unique_ptr<learner::InputPipeline> real)>;

/// A GAN as two replicas, for roles of their own (actors/roles/split_gan.hpp). See algorithms/sngan/adversaries.hpp.
struct SplitModel {
  MakeReplica make_generator;
  std::function<Result<std::unique_ptr<learner::Replica>>(AddFakes)> make_discriminator;
  std::function<Result<Signature>()> fakes;  ///< what travels from the one to the other
  std::int64_t n_dis = 1;                    ///< steps of the generator's replica for one update of it
};

struct ReplicaModel {
  MakeReplica make;
  /// The same networks in a step that updates nothing and whose metrics or outputs can be judged, on data of its own,
  /// from InputContext::first_step 0 on. Its parameter groups and states are looked up by name in the trained program.
  /// Null: there is no evaluator.
  MakeReplica make_evaluation = nullptr;
  MakeJudge make_judge = nullptr;  ///< of what make_evaluation's program says; null: a learner::MeanJudge
  /// How many rows that data has; called once it is there.
  std::function<Result<std::int64_t>()> evaluation_rows = nullptr;
  std::int64_t evaluation_batch = 500;
  /// The network that users of the trained model run: inputs and outputs by name, the groups and states of the
  /// evaluation, nothing of its data. Null: there is none to export.
  std::function<void(learner::Graph&)> inference = nullptr;
  std::optional<SplitModel> split = std::nullopt;  ///< empty: the model has no two sides
  std::string data_key = "model";                  ///< the key of its section that errors of making a replica are about
};

/// Writes saved values into the program of a part of the run that is to begin with them, before its first step.
using BeginWith = std::function<Status(const std::string& part, learner::Program& program)>;

/// What a model is told of the run that it is made for.
struct ModelContext {
  std::uint64_t seed = 1;  ///< of parameters and data
  std::int64_t steps = 1;  ///< that the group takes, for schedules
  bool threads = true;     ///< false: its data makes none, so that runs repeat bit for bit
  /// Whether its data is to be read, or only the step's graph is wanted: on a machine that has the data, where opening
  /// it may take long, or on one that may not have it. `make` is null then where nobody knows the shapes yet.
  enum class Data : std::uint8_t { kRead, kLookedAt, kElsewhere } data = Data::kRead;
};

/// Errors: kInvalidArgument, a line a mistake, each beginning with the key that it is about.
using MakeModel = std::function<Result<ReplicaModel>(const ModelContext&)>;

}  // namespace troupe::actors
