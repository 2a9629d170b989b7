// What a program registers, and what is wrong with it, before anything is started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <troupe/run/registry.hpp>
#include <troupe/run/registry_check.hpp>
#include <troupe/tests/run/own_registry.hpp>

namespace troupe {
namespace {

using own::Corridor;
using own::own_registry;
using ::testing::Contains;
using ::testing::HasSubstr;

std::string mistakes_of(const Registry& registry) {
  const Status good = check_registry(registry);
  return good.ok() ? "ok" : good.error().message;
}

TEST(Registry, WhatShipsAndWhatIsAddedStandSideBySide) {
  const Registry registry = own_registry();
  EXPECT_EQ(mistakes_of(registry), "ok");
  EXPECT_THAT(names_of(registry.environments()), Contains("corridor"));
  EXPECT_THAT(names_of(registry.environments()), Contains("cartpole-swingup"));
  EXPECT_THAT(names_of(registry.roles()), ::testing::ElementsAre("display", "thermometer"));
  EXPECT_EQ(mistakes_of(shipped()), "ok");
}

TEST(Registry, NamesThatCannotBeAreOneErrorEach) {
  const auto env = [](const std::string& name) {
    Registry registry;
    registry.environment(name, [](std::uint64_t) -> Result<std::unique_ptr<envs::Environment>> { return {nullptr}; });
    return mistakes_of(registry);
  };
  const std::string expected = "expected a name of 1 .. 32 letters, digits, '-' and '_', a letter first";
  EXPECT_EQ(env("a-b_c3"), "ok");
  EXPECT_EQ(env("Maze-v0"), "ok");
  for (const std::string name : {"", "3d", "a.b", "a b", "a23456789012345678901234567890123"}) {
    EXPECT_EQ(env(name), "registry: environment \"" + name + "\": " + expected);
  }
  EXPECT_EQ(env("a\x1b[31m\n"), "registry: environment \"a\\x1b[31m\\n\": " + expected);
  for (const std::string name : {"actors", "env", "replicas", "roles", "channels", "placement", "learner"}) {
    EXPECT_EQ(env(name),
              "registry: environment \"" + name + "\": a configuration has [" + name + "] for something else");
  }
}

TEST(Registry, EverythingThatIsWrongIsSaidAtOnce) {
  Registry registry = own_registry();
  registry.environment("corridor", own::make_corridor);
  registry.environment("cartpole-swingup", own::make_corridor);
  registry.environment("nothing", envs::MakeEnvironment());
  registry.message("Celsius", {.max_bytes = 3});
  registry.message("celsius");
  registry.message("Trajectory");
  registry.message("Huge", {.max_bytes = messages::kMaxOwnMessageBytes + 1});
  registry.message("Empty", {.max_bytes = 0});
  registry.algorithm("SAC", {});
  registry.role("thermometer", {});
  registry.role("idle", {});
  registry.role("odd", {.inlets = {{"in", "Celcius"}, {"in", "Control"}, {"a.b", "Celsius"}},
                        .outlets = {{.name = "out", .type = "Celsius", .answer = "Celsius"}},
                        .keys = {{.path = "kind", .default_value = std::int64_t{1}, .doc = "d"},
                                 {.path = "a.b", .default_value = std::int64_t{1}, .doc = "d"},
                                 {.path = "few", .default_value = std::int64_t{1}, .doc = "d", .min = 2},
                                 {.path = "nan", .default_value = std::nan(""), .doc = "d"},
                                 {.path = "one", .default_value = std::string("x"), .doc = "d", .choices = {"y"}},
                                 {.path = "none", .default_value = std::vector<double>(), .doc = "d"},
                                 {.path = "forged", .default_value = true, .doc = "d\nseed = 3"}},
                        .make = role_of<own::Thermometer>});
  EXPECT_EQ(
      mistakes_of(registry),
      "registry: environment \"corridor\": registered twice\n"
      "registry: environment \"cartpole-swingup\": registered twice\n"
      "registry: message \"Celsius\": registered twice\n"
      "registry: role \"thermometer\": registered twice\n"
      "registry: message \"celsius\": expected 1 .. 64 letters and digits, a capital letter first\n"
      "registry: message \"Trajectory\": Troupe has a message of this name\n"
      "registry: message \"Huge\": max_bytes is 67108865, expected 1 .. 67108864\n"
      "registry: message \"Empty\": max_bytes is 0, expected 1 .. 67108864\n"
      "registry: environment \"nothing\": nothing makes it\n"
      "registry: algorithm \"SAC\": expected a name of 1 .. 32 lower-case letters, digits, '-' and '_', a letter "
      "first\n"
      "registry: algorithm \"SAC\": nothing makes it\n"
      "registry: role \"idle\": nothing makes it\n"
      "registry: role \"idle\": it has no ports, so it can have no part in a run\n"
      "registry: role \"odd\": key \"kind\" is there already\n"
      "registry: role \"odd\": key \"a.b\": expected a name of 1 .. 32 lower-case letters, digits and '_', a "
      "letter first\n"
      "registry: role \"odd\": key \"few\": its default is 1, which is not allowed: expected >= 2\n"
      "registry: role \"odd\": key \"nan\": its default is nan, which is not allowed: expected a finite number\n"
      "registry: role \"odd\": key \"one\": its default is \"x\", which is not allowed: expected one of y\n"
      "registry: role \"odd\": key \"none\": its default is [], which is not allowed: expected 1 or more of them\n"
      "registry: role \"odd\": key \"forged\": expected words for people on one line\n"
      "registry: role \"odd\": port \"in\" carries \"Celcius\", which nobody has registered (did you mean "
      "Celsius?)\n"
      "registry: role \"odd\": port \"in\" is there twice\n"
      "registry: role \"odd\": port \"in\" carries \"Control\", which nobody has registered\n"
      "registry: role \"odd\": port \"a.b\": expected a name of 1 .. 32 lower-case letters, digits, '-' and '_', "
      "a letter first\n"
      "registry: role \"odd\": port \"out\": a stream has no answers");
}

/// What make_environment() makes of a user's function.
std::string made_by(EnvironmentKind kind) {
  Registry registry;
  registry.environment("odd", std::move(kind));
  const auto make = make_environment(registry, "odd", ConfigSection("odd", {}));
  if (!make.ok()) return make.error().message;
  const auto made = (*make)(1);
  return made.ok() ? "ok" : made.error().message;
}

EnvironmentKind instance_by(envs::MakeEnvironment make) {
  return {.make = [make = std::move(make)](const ConfigSection&) { return Result(make); }};
}

TEST(Registry, AnEnvironmentThatIsNoneIsOneErrorThatNamesIt) {
  using Made = Result<std::unique_ptr<envs::Environment>>;
  EXPECT_EQ(made_by(instance_by(own::make_corridor)), "ok");
  EXPECT_EQ(made_by(instance_by([](std::uint64_t) -> Made { return {nullptr}; })),
            "environment odd: an instance is null");
  EXPECT_EQ(made_by(instance_by([](std::uint64_t) -> Made { throw std::runtime_error("no\nscreen"); })),
            "environment odd: exception: no\\nscreen");
  EXPECT_EQ(made_by(instance_by([](std::uint64_t) -> Made { throw 3; })), "environment odd: unknown exception");
  EXPECT_EQ(made_by(instance_by(nullptr)), "environment odd: it gave nothing that makes instances");
  EXPECT_EQ(made_by({.make = [](const ConfigSection&) -> Result<envs::MakeEnvironment> {
              return Error{Code::kIo, "no map"};
            }}),
            "no map");
  const auto with = [](auto change) {
    return made_by(instance_by([change](std::uint64_t) -> Made {
      envs::EnvSpec spec = Corridor::make_spec(5);
      change(spec);
      return {std::make_unique<Corridor>(spec)};
    }));
  };
  EXPECT_EQ(with([](envs::EnvSpec& spec) { spec.observation.clear(); }),
            "environment corridor: an observation has no numbers, expected at least one");
  EXPECT_EQ(with([](envs::EnvSpec& spec) { spec.action.low.clear(); }),
            "environment corridor: an action has 0 lower and 1 upper bounds, expected 1 of each");
  EXPECT_EQ(with([](envs::EnvSpec& spec) { spec.action.low[0] = 1; }),
            "environment corridor: number 0 of an action is from 1 to 1, expected finite bounds, the lower one first");
  EXPECT_EQ(with([](envs::EnvSpec& spec) { spec.action.high[0] = std::numeric_limits<double>::infinity(); }),
            "environment corridor: number 0 of an action is from -1 to inf, expected finite bounds, the lower one "
            "first");
  EXPECT_EQ(with([](envs::EnvSpec& spec) { spec.action = envs::ActionSpec::discrete(4); }), "ok");
  EXPECT_EQ(with([](envs::EnvSpec& spec) {
              spec.action = envs::ActionSpec::discrete(4);
              spec.action.low = {0};
            }),
            "environment corridor: an action has 1 lower and 0 upper bounds, expected 0 of each");
  EXPECT_EQ(
      with([](envs::EnvSpec& spec) { spec.action.tensor.dtype = DType::kI32; }),
      "environment corridor: an action is action: int32[1] with 0 choices, expected int32 with choices, or float64 "
      "or float32");
  EXPECT_EQ(with([](envs::EnvSpec& spec) { spec.observation = {{"pixels", DType::kU8, Shape{84, 84, 3}}}; }), "ok");
  EXPECT_EQ(with([](envs::EnvSpec& spec) { spec.episode_steps = 0; }),
            "environment corridor: an episode has at most 0 steps, expected 1 or more");
}

TEST(Registry, AnEnvironmentWithoutAPictureSaysSo) {
  const auto corridor = own::make_corridor(1).value();
  std::vector<std::uint8_t> pixels(84 * 84 * 3);
  const Status drawn = corridor->render({}, pixels);
  ASSERT_FALSE(drawn.ok());
  EXPECT_EQ(drawn.error().message, "corridor: this environment has no picture of itself");
}

}  // namespace
}  // namespace troupe
