// TOML as our parser takes it, and a small configuration with every type of key.
#include <functional>

#include <troupe/core/config.hpp>
#include <troupe/core/toml.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>

namespace troupe::fuzz {
namespace {

const ConfigSchema& schema() {
  static const ConfigSchema made = {
      {.path = "name", .default_value = std::string(), .doc = "name"},
      {.path = "seed", .default_value = std::int64_t{1}, .doc = "seed", .min = 0},
      {.path = "learner.rate", .default_value = 0.1, .doc = "rate", .min = 1e-9, .max = 1.0},
      {.path = "learner.sizes", .default_value = std::vector<std::int64_t>{256, 256}, .doc = "sizes", .min = 1},
      {.path = "learner.betas", .default_value = std::vector<double>{0.9}, .doc = "betas"},
      {.path = "learner.device", .default_value = std::vector<std::string>{"cpu"}, .doc = "devices"},
      {.path = "learner.kind", .default_value = std::string("a"), .doc = "kind", .choices = {"a", "bc"}},
      {.path = "replicas.*.steps", .default_value = std::int64_t{5}, .doc = "steps"},
      {.path = "replicas.*.sync", .default_value = true, .doc = "sync"}};
  return made;
}

std::size_t depth_of(const TomlValue& value) {
  std::size_t deepest = 0;
  if (const auto* list = std::get_if<TomlValue::List>(&value.value)) {
    for (const TomlValue& element : *list) deepest = std::max(deepest, depth_of(element));
  } else if (const auto* table = std::get_if<TomlValue::Table>(&value.value)) {
    for (const TomlMember& member : *table) deepest = std::max(deepest, depth_of(member.value));
  }
  return deepest + 1;
}

void one_input(Bytes input) {
  Input choice(input);
  const std::string override_text = to_string(choice.part());
  const std::string_view text = text_of(choice.rest());
  if (const auto tree = parse_toml(text, "f"); tree.ok()) (void)depth_of(*tree);
  std::vector<std::string> overrides;
  if (!override_text.empty()) overrides.push_back(override_text);
  const auto config = parse_config(text, "f", overrides, schema());
  if (!config.ok()) {
    TROUPE_CHECK(!config.error().message.empty(), "an error without a word");
    return;
  }
  const auto again = parse_config(config->to_toml(), "again", {}, schema());
  TROUPE_CHECK(again.ok(), "the resolved configuration is refused: {}", again.error().message);
  TROUPE_CHECK(again->hash() == config->hash() && again->to_toml() == config->to_toml(), "a configuration changed");
}

std::vector<std::string> seeds() {
  return {
      part("learner.kind=bc") + "name = \"a\\u00e9\"\nseed = 0x1F\n[learner]\nrate = 1e-3\nsizes = [1, 2]\n",
      part("learner.device=cuda:1") + "[learner]\nbetas = [0.5, inf]\ndevice = [\"cpu\"]\n[replicas.gan]\nsteps = 7\n",
      part("") + "a = { b = [ { c.d = '''x\n''' } ] } # comment\nt = 1979-05-27T07:32:00Z\n[[x.y]]\nz=nan\n"};
}

const Registered registered({"toml", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
