#include <troupe/run/registry.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <new>

#include <troupe/algorithms/d4pg/algorithm.hpp>
#include <troupe/algorithms/dmpo/algorithm.hpp>
#include <troupe/algorithms/drqv2/algorithm.hpp>
#include <troupe/algorithms/flashsac/algorithm.hpp>
#include <troupe/algorithms/sac/algorithm.hpp>
#include <troupe/algorithms/td3/algorithm.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/models/models.hpp>
#include <troupe/run/shipped_wrappers.hpp>

namespace troupe {
namespace {

/// The user's call, whose exceptions go no further.
template <typename Call>
auto guarded(const std::string& whose, Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    throw;  // nobody's mistake, and the end of the process
  } catch (const std::exception& exception) {
    return Error{Code::kInternal, fmt::format("{}: exception: {}", whose, printable(exception.what()))};
  } catch (...) {
    return Error{Code::kInternal, fmt::format("{}: unknown exception", whose)};
  }
}

}  // namespace

void Registry::environment(std::string name, envs::MakeEnvironment make) {
  EnvironmentKind kind;
  if (make != nullptr) {
    kind.make = [make = std::move(make)](const ConfigSection&) { return Result<envs::MakeEnvironment>(make); };
  }
  environment(std::move(name), std::move(kind));
}

void Registry::environment(std::string name, EnvironmentKind kind) {
  if (environments_.contains(name)) duplicates_.push_back(fmt::format("environment \"{}\"", printable(name)));
  environments_.emplace(std::move(name), std::move(kind));
}

void Registry::wrapper(std::string name, WrapperKind kind) {
  if (wrappers_.contains(name)) duplicates_.push_back(fmt::format("wrapper \"{}\"", printable(name)));
  wrappers_.emplace(std::move(name), std::move(kind));
}

void Registry::algorithm(std::string name, AlgorithmKind kind) {
  if (algorithms_.contains(name)) duplicates_.push_back(fmt::format("algorithm \"{}\"", printable(name)));
  algorithms_.emplace(std::move(name), std::move(kind));
}

void Registry::model(std::string name, ModelKind kind) {
  if (models_.contains(name)) duplicates_.push_back(fmt::format("model \"{}\"", printable(name)));
  models_.emplace(std::move(name), std::move(kind));
}

void Registry::learner(std::string name, LearnerKind kind) {
  if (learners_.contains(name)) duplicates_.push_back(fmt::format("learner \"{}\"", printable(name)));
  learners_.emplace(std::move(name), std::move(kind));
}

void Registry::role(std::string kind, RoleKind about) {
  if (roles_.contains(kind)) duplicates_.push_back(fmt::format("role \"{}\"", printable(kind)));
  roles_.emplace(std::move(kind), std::move(about));
}

void Registry::message(std::string name, messages::MessageType about) {
  if (std::ranges::find(messages_, name, &messages::MessageType::name) != messages_.end()) {
    duplicates_.push_back(fmt::format("message \"{}\"", printable(name)));
    return;
  }
  about.name = std::move(name);
  messages_.push_back(std::move(about));
}

Result<std::vector<std::string>> Registry::command() const {
  if (!command_.empty()) return command_;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Error{Code::kIo, fmt::format("/proc/self/exe: {}", error.message())};
  return std::vector{self.string()};
}

namespace {

/// An algorithm of a folder of algorithms/, which says how a section is read and what becomes of it.
template <auto kRead, auto kAlgorithm>
AlgorithmKind agent(const char* doc, ConfigSchema keys) {
  return {.doc = doc,
          .keys = std::move(keys),
          .make = [](const ConfigSection& section, std::int64_t steps) -> Result<MakeAlgorithm> {
            TROUPE_ASSIGN(auto options, kRead(section, steps));
            return kAlgorithm(std::move(options));
          }};
}

}  // namespace

Registry shipped() {
  Registry registry;
  for (const std::string& name : envs::environment_names()) {
    // Those of one run share their model, and each run loads its own.
    registry.environment(name,
                         {.make = [name](const ConfigSection&) { return Result(envs::shared_environments(name)); }});
  }
  add_shipped_wrappers(registry);
  namespace of = learner;
  registry.algorithm("d4pg", agent<of::d4pg::read, of::d4pg::algorithm>(
                                 "Distributional policy gradients (Barth-Maron et al. 2018)", of::d4pg::keys()));
  registry.algorithm("dmpo", agent<of::dmpo::read, of::dmpo::algorithm>(
                                 "Distributional MPO (Abdolmaleki et al. 2018, as Acme has it)", of::dmpo::keys()));
  registry.algorithm("drqv2",
                     agent<of::drqv2::read, of::drqv2::algorithm>(
                         "Deterministic policy gradients from pixels (Yarats et al. 2021)", of::drqv2::keys()));
  registry.algorithm("flashsac", agent<of::flashsac::read, of::flashsac::algorithm>(
                                     "SAC with normalised residual networks (FlashSAC, 2026)", of::flashsac::keys()));
  registry.algorithm("sac",
                     agent<of::sac::read, of::sac::algorithm>(
                         "Soft actor-critic with a learned temperature (Haarnoja et al. 2018)", of::sac::keys()));
  registry.algorithm("td3",
                     agent<of::td3::read, of::td3::algorithm>(
                         "Twin delayed deep deterministic policy gradients (Fujimoto et al. 2018)", of::td3::keys()));
  registry.model("classifier", actors::classifier_model());
  registry.model("sngan", actors::sngan_model());
  registry.model("resnet", actors::resnet_model());
  return registry;
}

Result<envs::MakeEnvironment> make_environment(const Registry& registry, const std::string& name,
                                               const ConfigSection& keys) {
  const auto found = registry.environments().find(name);
  if (found == registry.environments().end()) {
    return Error{Code::kNotFound, fmt::format("no environment \"{}\"", printable(name))};
  }
  const std::string whose = "environment " + name;
  TROUPE_ASSIGN(auto make, guarded(whose, [&] { return found->second.make(keys); }));
  if (make == nullptr) return Error{Code::kInternal, whose + ": it gave nothing that makes instances"};
  return envs::MakeEnvironment(
      [whose, make = std::move(make)](std::uint64_t seed) -> Result<std::unique_ptr<envs::Environment>> {
        TROUPE_ASSIGN(auto made, guarded(whose, [&] { return make(seed); }));
        if (made == nullptr) return Error{Code::kInternal, whose + ": an instance is null"};
        TROUPE_TRY(envs::check_spec(made->spec()));
        return made;
      });
}

Result<envs::Wrap> make_wrap(const Registry& registry, const std::string& name, const ConfigSection& keys) {
  const auto found = registry.wrappers().find(name);
  if (found == registry.wrappers().end()) {
    return Error{Code::kNotFound, fmt::format("no wrapper \"{}\"", printable(name))};
  }
  const std::string whose = "wrapper " + name;
  TROUPE_ASSIGN(auto wrap, guarded(whose, [&] { return found->second.make(keys); }));
  if (wrap == nullptr) return Error{Code::kInternal, whose + ": it gave nothing that wraps"};
  return envs::Wrap([whose, wrap = std::move(wrap)](std::unique_ptr<envs::Environment> inside,
                                                    std::uint64_t seed) -> Result<std::unique_ptr<envs::Environment>> {
    TROUPE_ASSIGN(auto around, guarded(whose, [&] { return wrap(std::move(inside), seed); }));
    if (around == nullptr) return Error{Code::kInternal, whose + ": what it made is null"};
    TROUPE_TRY(envs::check_spec(around->spec()));
    return around;
  });
}

Result<MakeAlgorithm> make_algorithm(const Registry& registry, const std::string& name, const ConfigSection& keys,
                                     std::int64_t steps) {
  const auto found = registry.algorithms().find(name);
  if (found == registry.algorithms().end()) {
    return Error{Code::kNotFound, fmt::format("no algorithm \"{}\"", printable(name))};
  }
  const std::string whose = "algorithm " + name;
  TROUPE_ASSIGN(auto make, guarded(whose, [&] { return found->second.make(keys, steps); }));
  if (make == nullptr) return Error{Code::kInternal, whose + ": it gave nothing that makes an algorithm"};
  return MakeAlgorithm([whose, make = std::move(make)](const AlgorithmContext& context) -> Result<Algorithm> {
    TROUPE_ASSIGN(Algorithm made, guarded(whose, [&] { return make(context); }));
    if (made.policy && made.explores && made.greedy && made.adder && made.make_replica) return made;
    return Error{Code::kInternal, whose + ": policy, explores, greedy, adder or make_replica is null"};
  });
}

Result<actors::MakeModel> make_model(const Registry& registry, const std::string& name, const ConfigSection& keys) {
  const auto found = registry.models().find(name);
  if (found == registry.models().end()) {
    return Error{Code::kNotFound, fmt::format("no model \"{}\"", printable(name))};
  }
  const std::string whose = "model " + name;
  TROUPE_ASSIGN(auto make, guarded(whose, [&] { return found->second.make(keys); }));
  if (make == nullptr) return Error{Code::kInternal, whose + ": it gave nothing that makes a model"};
  return actors::MakeModel(
      [whose, make = std::move(make)](const actors::ModelContext& context) -> Result<actors::ReplicaModel> {
        return guarded(whose, [&] { return make(context); });
      });
}

Result<actors::MakeLearner> make_learner(const Registry& registry, const std::string& name, const ConfigSection& keys) {
  const auto found = registry.learners().find(name);
  if (found == registry.learners().end()) {
    return Error{Code::kNotFound, fmt::format("no learner \"{}\"", printable(name))};
  }
  const std::string whose = "learner " + name;
  TROUPE_ASSIGN(auto make, guarded(whose, [&] { return found->second.make(keys); }));
  if (make == nullptr) return Error{Code::kInternal, whose + ": it gave nothing that makes a learner"};
  return actors::MakeLearner([whose, make = std::move(make)](
                                 const actors::LearnerContext& context) -> Result<std::unique_ptr<actors::Learner>> {
    TROUPE_ASSIGN(auto made, guarded(whose, [&] { return make(context); }));
    if (made == nullptr) return Error{Code::kInternal, whose + ": what it made is null"};
    return made;
  });
}

Result<actors::RoleFactory> make_role_factory(const Registry& registry, const std::string& kind,
                                              const ConfigSection& keys) {
  const auto found = registry.roles().find(kind);
  if (found == registry.roles().end()) {
    return Error{Code::kNotFound, fmt::format("no kind of role \"{}\"", printable(kind))};
  }
  TROUPE_ASSIGN(auto factory, guarded("kind " + kind, [&] { return found->second.make(keys); }));
  if (factory == nullptr) return Error{Code::kInternal, fmt::format("kind {}: it gave nothing that makes roles", kind)};
  return factory;
}

}  // namespace troupe
