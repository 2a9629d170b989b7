// A run's configuration: what the schema takes becomes options or a list of mistakes.
#include <troupe/run/train_schema.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>

namespace troupe::fuzz {
namespace {

/// Names with and without keys of their own. Nothing is made of them here but factories.
const Registry& registry() {
  static const Registry made = [] {
    const auto nothing = [](std::uint64_t) -> Result<std::unique_ptr<envs::Environment>> {
      return Error{Code::kUnavailable, "none"};
    };
    const auto no_role = [](const ConfigSection&) -> Result<actors::RoleFactory> {
      return actors::RoleFactory([](const actors::RoleIdentity&) -> Result<std::unique_ptr<actors::Role>> {
        return Error{Code::kUnavailable, "none"};
      });
    };
    Registry some;
    some.environment("cartpole-swingup", nothing);
    some.environment("maze",
                     {.keys = {{.path = "size", .default_value = std::int64_t{9}, .doc = "Of a side", .min = 3}},
                      .make = [nothing](const ConfigSection&) { return Result<envs::MakeEnvironment>(nothing); }});
    some.message("Celsius", {.max_bytes = 8});
    some.role("thermometer", {.outlets = {{"celsius", "Celsius"}},
                              .keys = {{.path = "period_s", .default_value = 1.0, .doc = "Between two"}},
                              .make = no_role});
    some.role("display", {.inlets = {{"celsius", "Celsius"}}, .make = no_role, .completes_run = true});
    return some;
  }();
  return made;
}

const ConfigSchema& schema() {
  static const ConfigSchema made = apps::train_schema(registry());
  return made;
}

void one_input(Bytes input) {
  Input choice(input);
  std::vector<std::string> overrides;
  for (std::size_t left = choice.choose(4); left > 0; --left) overrides.push_back(to_string(choice.part()));
  const auto config = parse_config(text_of(choice.rest()), "f", overrides, schema());
  if (!config.ok()) return;
  const auto options = apps::to_train_options(*config, registry());
  const auto again = parse_config(config->to_toml(), "again", {}, schema());
  TROUPE_CHECK(again.ok(), "the resolved configuration is refused: {}", again.error().message);
  TROUPE_CHECK(again->hash() == config->hash(), "a configuration changed");
  TROUPE_CHECK(apps::to_train_options(*again, registry()).ok() == options.ok(),
               "a resolved configuration means something else");
}

std::vector<std::string> seeds() {
  return {"\2" + part("learner.batch_size=64") + part("placement.actors.nodes=2") +
              "env = \"cartpole-swingup\"\nseed = 3\n[actors]\ncount = 4\n[learner]\nlearning_rate = 1e-4\n",
          std::string(1, '\0') +
              "name = \"cnn\"\n[replicas.cnn]\nmodel = \"classifier\"\nreplicator = \"multi_worker\"\ncount = 2\n",
          "\1" + part("channels[0].capacity=2") +
              "[roles.t]\nkind = \"thermometer\"\nperiod_s = 2.0\n[roles.d]\nkind = \"display\"\n[[channels]]\nfrom = "
              "\"t.celsius\"\nto = \"d.celsius\"\n[placement.t]\nnodes = 0\n",
          "\1" + part("replicas.g.steps=10") + "[replicas.g]\nmodel = \"sngan\"\nreplicator = \"split_gan\"\n"};
}

const Registered registered({"config", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
