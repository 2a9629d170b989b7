// A run's configuration: what the schema takes becomes options or a list of mistakes.
#include <troupe/run/train_schema.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>

namespace troupe::fuzz {
namespace {

const ConfigSchema& schema() {
  static const ConfigSchema made = apps::train_schema({"cartpole-swingup", "pendulum-swingup"});
  return made;
}

}  // namespace

void one_input(Bytes input) {
  Input choice(input);
  std::vector<std::string> overrides;
  for (std::size_t left = choice.choose(4); left > 0; --left) overrides.push_back(to_string(choice.part()));
  const auto config = parse_config(text_of(choice.rest()), "f", overrides, schema());
  if (!config.ok()) return;
  const auto options = apps::to_train_options(*config);
  const auto again = parse_config(config->to_toml(), "again", {}, schema());
  TROUPE_CHECK(again.ok(), "the resolved configuration is refused: {}", again.error().message);
  TROUPE_CHECK(again->hash() == config->hash(), "a configuration changed");
  TROUPE_CHECK(apps::to_train_options(*again).ok() == options.ok(), "a resolved configuration means something else");
}

std::vector<std::string> seeds() {
  return {"\2" + part("learner.batch_size=64") + part("placement.actors.nodes=2") +
              "env = \"cartpole-swingup\"\nseed = 3\n[actors]\ncount = 4\n[learner]\nlearning_rate = 1e-4\n",
          std::string(1, '\0') +
              "name = \"cnn\"\n[replicas.cnn]\nmodel = \"classifier\"\nreplicator = \"multi_worker\"\ncount = 2\n",
          "\1" + part("replicas.g.steps=10") + "[replicas.g]\nmodel = \"sngan\"\nreplicator = \"split_gan\"\n"};
}

}  // namespace troupe::fuzz
