#include <troupe/run/registry.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>

#include <troupe/core/text.hpp>

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

template <typename T>
std::vector<std::string> names_of(const Registry::ByName<T>& all) {
  std::vector<std::string> names;
  for (const auto& [name, about] : all) names.push_back(name);
  return names;
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

std::vector<std::string> Registry::environment_names() const { return names_of(environments_); }
std::vector<std::string> Registry::role_kinds() const { return names_of(roles_); }

Registry shipped() {
  Registry registry;
  for (const std::string& name : envs::environment_names()) {
    // Those of one run share their model, and each run loads its own.
    registry.environment(name,
                         {.make = [name](const ConfigSection&) { return Result(envs::shared_environments(name)); }});
  }
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
