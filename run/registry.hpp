#pragma once
// What a program knows by name: environments, their wrappers, algorithms, models, kinds of roles and types of messages.
// A value that is filled before anything starts and then handed to troupe::main() (apps/main.hpp); what ships is put in
// by the same calls as what a user adds, so both are worth the same in configurations, on nodes, in checkpoints and in
// every command.
//
//   int main(int argc, char** argv) {
//     troupe::Registry mine = troupe::shipped();
//     mine.environment("maze", troupe::environment_of<Maze>({{.path = "size", ...}}));
//     mine.message("Celsius", {.max_bytes = 8});
//     mine.role("thermometer", {.outlets = {{"celsius", "Celsius"}}, .make = troupe::role_of<Thermometer>});
//     return troupe::main(argc, argv, mine);
//   }
//
// docs/adding_an_environment.md, adding_an_algorithm.md and adding_a_role.md are the worked examples.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <troupe/actors/roles/own_learner.hpp>
#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/actors/runtime/role.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/algorithms/agent/algorithm.hpp>
#include <troupe/core/config.hpp>
#include <troupe/core/error.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/envs/wrapper.hpp>
#include <troupe/messages/message_type.hpp>

namespace troupe {

/// An environment that a configuration can name: env = "NAME".
struct EnvironmentKind {
  /// The keys of its section [NAME]. Paths are the keys alone: "size". Their values stay the same for all of a run.
  ConfigSchema keys = {};
  /// Called once when a configuration that names it is read, with checked values. What it returns makes the instances.
  std::function<Result<envs::MakeEnvironment>(const ConfigSection& keys)> make;
};

/// What a configuration can put around an environment: wrappers = ["NAME", ...].
struct WrapperKind {
  std::string doc = {};  ///< one line
  /// The keys of its section [NAME]. Paths are the keys alone: "steps". Their values stay the same for all of a run.
  ConfigSchema keys = {};
  /// Called once when a configuration that names it is read, with checked values. What it returns is put around each
  /// instance of the environment.
  std::function<Result<envs::Wrap>(const ConfigSection& keys)> make;
  /// It is for what is learnt from alone, as rewards of another size are: evaluations, `eval` and `render` leave it
  /// out.
  bool training_only = false;
};

/// An algorithm that an agent of a configuration can name: algorithm = "NAME".
struct AlgorithmKind {
  std::string doc = {};  ///< one line
  /// The keys of its section [NAME]. Paths are the keys alone: "n_step".
  ConfigSchema keys = {};
  /// Called once for each agent when a configuration that names it is read, with checked values. What it returns makes
  /// the algorithm, wherever one of its roles is. Errors: kInvalidArgument, a line a mistake, each beginning with the
  /// key that it is about.
  /// steps: how many a learner takes, for schedules; 0: nobody knows.
  std::function<Result<MakeAlgorithm>(const ConfigSection& keys, std::int64_t steps)> make;
};

/// A model on data of its own that a replica group of a configuration can name: [replicas.NAME] model = "KIND".
struct ModelKind {
  std::string doc = {};  ///< one line
  /// Its keys in [replicas.NAME], beside those of how replicas run. Paths are the keys alone: "layers".
  ConfigSchema keys = {};
  /// Called as AlgorithmKind::make is, for each group.
  std::function<Result<actors::MakeModel>(const ConfigSection& keys)> make;
};

/// What learns instead of Troupe's programs, in a library of the user's choice: learner.kind = "NAME".
struct LearnerKind {
  std::string doc = {};  ///< one line
  /// The keys of its section [NAME]. Paths are the keys alone: "tau".
  ConfigSchema keys = {};
  /// Called as AlgorithmKind::make is, for each agent. What it returns makes the learner, on the node where it is
  /// placed, and again when it is restarted.
  std::function<Result<actors::MakeLearner>(const ConfigSection& keys)> make;
};

/// A kind of role that a configuration can have any number of: [roles.NAME] kind = "KIND".
struct RoleKind {
  std::string doc = {};  ///< one line
  /// Their types ship or are registered.
  std::vector<actors::Port> inlets = {}, outlets = {};
  /// Its keys in [roles.NAME], beside kind and count. Paths are the keys alone: "period_s".
  ConfigSchema keys = {};
  /// Called once when a configuration is read, with checked values. What it returns makes the instances, on whatever
  /// node they are placed, and again when one is restarted.
  std::function<Result<actors::RoleFactory>(const ConfigSection& keys)> make;
  actors::Execution execution = actors::Execution::kShared;
  /// An instance that fails is restarted as often as [supervisor] says. With kLastCut it is restored with what it saved
  /// in the last checkpoint.
  actors::RestartFrom restart_from = actors::RestartFrom::kNothing;
  bool quarantine = false;     ///< RestartPolicy::quarantine
  bool completes_run = false;  ///< RoleSpec::completes_run
  bool elastic = false;        ///< RoleSpec::elastic: nodes that join may host further instances
};

class Registry {
 public:
  // check_registry() says, before anything is started, what is wrong with a name or with what stands behind it.

  /// An environment without keys of its own.
  void environment(std::string name, envs::MakeEnvironment make);
  void environment(std::string name, EnvironmentKind kind);
  void wrapper(std::string name, WrapperKind kind);
  void algorithm(std::string name, AlgorithmKind kind);
  void model(std::string name, ModelKind kind);
  void learner(std::string name, LearnerKind kind);
  void role(std::string kind, RoleKind about);
  /// A type that ports may name. Without `about.check` it is opaque.
  void message(std::string name, messages::MessageType about = {});
  /// The words that start a further process of this program, before its arguments. Needed only by what is no executable
  /// by itself, as a script: {"/usr/bin/python3", "/home/me/my_run.py"}.
  void command(std::vector<std::string> words) { command_ = std::move(words); }

  template <typename T>
  using ByName = std::map<std::string, T, std::less<>>;
  const ByName<EnvironmentKind>& environments() const { return environments_; }
  const ByName<WrapperKind>& wrappers() const { return wrappers_; }
  const ByName<AlgorithmKind>& algorithms() const { return algorithms_; }
  const ByName<ModelKind>& models() const { return models_; }
  const ByName<LearnerKind>& learners() const { return learners_; }
  const ByName<RoleKind>& roles() const { return roles_; }
  const std::vector<messages::MessageType>& messages() const { return messages_; }
  /// Those words, or the executable of this process. Errors: kIo.
  Result<std::vector<std::string>> command() const;
  /// Names that were registered twice, in words.
  const std::vector<std::string>& duplicates() const { return duplicates_; }

 private:
  ByName<EnvironmentKind> environments_;
  ByName<WrapperKind> wrappers_;
  ByName<AlgorithmKind> algorithms_;
  ByName<ModelKind> models_;
  ByName<LearnerKind> learners_;
  ByName<RoleKind> roles_;
  std::vector<messages::MessageType> messages_;
  std::vector<std::string> command_;
  std::vector<std::string> duplicates_;
};

/// The names of one kind of thing, in their order.
template <typename T>
std::vector<std::string> names_of(const Registry::ByName<T>& all) {
  std::vector<std::string> names;
  for (const auto& [name, about] : all) names.push_back(name);
  return names;
}

/// What Troupe ships.
Registry shipped();

/// What makes instances of a registered environment. Whatever the user's code throws, returns or forgets becomes one
/// error that names the environment; each instance has passed check_spec(). Errors: those of the kind's make().
Result<envs::MakeEnvironment> make_environment(const Registry& registry, const std::string& name,
                                               const ConfigSection& keys);
/// The same of a registered wrapper: what it puts around an environment has passed check_spec() again.
Result<envs::Wrap> make_wrap(const Registry& registry, const std::string& name, const ConfigSection& keys);
/// The same of a registered algorithm and model, for the agent or the group whose section `keys` is.
Result<MakeAlgorithm> make_algorithm(const Registry& registry, const std::string& name, const ConfigSection& keys,
                                     std::int64_t steps);
Result<actors::MakeModel> make_model(const Registry& registry, const std::string& name, const ConfigSection& keys);
Result<actors::MakeLearner> make_learner(const Registry& registry, const std::string& name, const ConfigSection& keys);
/// The same of a registered kind of role. Errors: those of the kind's make().
Result<actors::RoleFactory> make_role_factory(const Registry& registry, const std::string& kind,
                                              const ConfigSection& keys);

/// RoleKind::make of a class that is made of its section and who it is, of its section alone, or of nothing.
template <typename T>
Result<actors::RoleFactory> role_of(const ConfigSection& keys) {
  return actors::RoleFactory([keys](const actors::RoleIdentity& identity) -> Result<std::unique_ptr<actors::Role>> {
    if constexpr (std::is_constructible_v<T, const ConfigSection&, const actors::RoleIdentity&>) {
      return {std::make_unique<T>(keys, identity)};
    } else if constexpr (std::is_constructible_v<T, const ConfigSection&>) {
      return {std::make_unique<T>(keys)};
    } else {
      static_assert(std::is_default_constructible_v<T>, "T(section, identity), T(section) or T()");
      return {std::make_unique<T>()};
    }
  });
}

/// The kind of a class that is made of its section and a seed.
template <typename T>
EnvironmentKind environment_of(ConfigSchema keys = {}) {
  return {.keys = std::move(keys), .make = [](const ConfigSection& section) -> Result<envs::MakeEnvironment> {
            return envs::MakeEnvironment([section](std::uint64_t seed) -> Result<std::unique_ptr<envs::Environment>> {
              return {std::make_unique<T>(section, seed)};
            });
          }};
}

/// The kind of a class that is made of its section and the environment that it is put around.
template <typename T>
WrapperKind wrapper_of(std::string doc, ConfigSchema keys = {}) {
  return {
      .doc = std::move(doc), .keys = std::move(keys), .make = [](const ConfigSection& section) -> Result<envs::Wrap> {
        return envs::Wrap([section](std::unique_ptr<envs::Environment> inside,
                                    std::uint64_t) -> Result<std::unique_ptr<envs::Environment>> {
          return {std::make_unique<T>(section, std::move(inside))};
        });
      }};
}

}  // namespace troupe
