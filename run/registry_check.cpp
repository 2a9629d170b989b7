#include <troupe/run/registry_check.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/nearest.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/replica_schema.hpp>
#include <troupe/run/role_schema.hpp>
#include <troupe/run/train_schema.hpp>

namespace troupe {
namespace {

constexpr std::size_t kNameMax = 32;

/// What a name may have besides lower-case letters, digits and '_'.
struct NameRule {
  bool dashes = false;
  bool capitals = false;
};
constexpr NameRule kKey = {};
constexpr NameRule kSection = {.dashes = true};  // or a port
/// Environments have the names that their benchmarks gave them: "CartPole-v1".
constexpr NameRule kEnvironment = {.dashes = true, .capitals = true};

bool is_plain(std::string_view name, NameRule rule) {
  const auto letter = [&](unsigned char c) { return std::islower(c) != 0 || (rule.capitals && std::isupper(c) != 0); };
  return !name.empty() && name.size() <= kNameMax && letter(static_cast<unsigned char>(name[0])) &&
         std::ranges::all_of(name, [&](unsigned char c) {
           return letter(c) || std::isdigit(c) != 0 || c == '_' || (rule.dashes && c == '-');
         });
}

std::string expected_name(NameRule rule) {
  return fmt::format("expected a name of 1 .. {} {}letters, digits{} and '_', a letter first", kNameMax,
                     rule.capitals ? "" : "lower-case ", rule.dashes ? ", '-'" : "");
}

/// Whether the default of a key is among what the key allows; a required key has none.
bool allows_default(const ConfigKey& key) {
  const auto in_range = [&](double value) { return std::isfinite(value) && value >= key.min && value <= key.max; };
  const auto chosen = [&](const std::string& value) {
    return printable(value) == value &&
           (key.choices.empty() || std::ranges::find(key.choices, value) != key.choices.end());
  };
  return std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) {
          return true;
        } else if constexpr (std::is_same_v<T, std::string>) {
          return chosen(value);
        } else if constexpr (std::is_arithmetic_v<T>) {
          return in_range(static_cast<double>(value));
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          return (key.may_be_empty || !value.empty()) && std::ranges::all_of(value, chosen);
        } else {
          return (key.may_be_empty || !value.empty()) &&
                 std::ranges::all_of(value, [&](auto number) { return in_range(static_cast<double>(number)); });
        }
      },
      key.default_value);
}

std::string expected_default(const ConfigKey& key) {
  const std::string allowed = allowed_values(key);
  if (!allowed.empty()) return allowed;
  return std::visit(
      [](const auto& value) -> std::string {
        if constexpr (requires { value.empty(); }) {
          return value.empty() ? "1 or more of them" : "printable text";
        } else {
          return "a finite number";
        }
      },
      key.default_value);
}

class RegistryChecker {
 public:
  explicit RegistryChecker(const Registry& registry) : registry_(registry) {
    for (const ConfigKey& key : apps::train_schema({}))
      sections_.insert(key.path.substr(0, key.path.find_first_of(".[")));
  }

  Status run() {
    for (const std::string& twice : registry_.duplicates()) add("{}: registered twice", twice);
    for (const messages::MessageType& type : registry_.messages()) check_message_type(type);
    for (const auto& [name, kind] : registry_.environments()) check_section("environment", name, kEnvironment, kind);
    for (const auto& [name, kind] : registry_.wrappers()) {
      check_section("wrapper", name, kSection, kind);
      if (name == "same") add("wrapper \"same\": in evaluator.wrappers it stands for those of the agent");
    }
    for (const auto& [name, kind] : registry_.algorithms()) check_section("algorithm", name, kSection, kind);
    for (const auto& [name, kind] : registry_.models()) check_model(name, kind);
    for (const auto& [name, kind] : registry_.learners()) {
      check_section("learner", name, kSection, kind);
      if (name == actors::kProgramLearner) add("learner \"{}\": that is what learners are by default", name);
    }
    for (const auto& [name, kind] : registry_.roles()) check_role(name, kind);
    if (mistakes_.empty()) return {};
    return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(mistakes_, "\n"))};
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    mistakes_.push_back("registry: " + fmt::format(format, std::forward<Args>(args)...));
  }

  void check_message_type(const messages::MessageType& type) {
    if (const Status good = messages::check_type_name(type.name); !good.ok()) add("{}", good.error().message);
    if (type.max_bytes < 1 || type.max_bytes > messages::kMaxOwnMessageBytes) {
      add("message \"{}\": max_bytes is {}, expected 1 .. {}", printable(type.name), type.max_bytes,
          messages::kMaxOwnMessageBytes);
    }
  }

  /// Of what has a section of its own name.
  template <typename Kind>
  void check_section(const char* of, const std::string& name, NameRule rule, const Kind& kind) {
    const std::string what = fmt::format("{} \"{}\"", of, printable(name));
    if (!is_plain(name, rule)) add("{}: {}", what, expected_name(rule));
    if (!sections_.insert(name).second) add("{}: a configuration has [{}] for something else", what, name);
    if (kind.make == nullptr) add("{}: nothing makes it", what);
    check_keys(what, kind.keys, {});
  }

  void check_model(const std::string& name, const ModelKind& kind) {
    const std::string what = fmt::format("model \"{}\"", printable(name));
    if (!is_plain(name, kSection)) add("{}: {}", what, expected_name(kSection));
    if (kind.make == nullptr) add("{}: nothing makes it", what);
    check_keys(what, kind.keys, apps::common_group_keys());
  }

  void check_role(const std::string& name, const RoleKind& kind) {
    const std::string what = fmt::format("role \"{}\"", printable(name));
    if (!is_plain(name, kSection)) add("{}: {}", what, expected_name(kSection));
    if (kind.make == nullptr) add("{}: nothing makes it", what);
    check_keys(what, kind.keys, apps::common_role_keys());
    if (kind.inlets.empty() && kind.outlets.empty()) add("{}: it has no ports, so it can have no part in a run", what);
    std::set<std::string> ports;
    for (const auto* list : {&kind.inlets, &kind.outlets}) {
      for (const actors::Port& port : *list) {
        if (!is_plain(port.name, kSection))
          add("{}: port \"{}\": {}", what, printable(port.name), expected_name(kSection));
        if (!ports.insert(port.name).second) add("{}: port \"{}\" is there twice", what, port.name);
        check_port_type(what, port, port.type);
        if (port.answer.empty()) continue;
        if (port.kind == actors::ChannelKind::kRequest) {
          check_port_type(what, port, port.answer);
        } else {
          add("{}: port \"{}\": a {} has no answers", what, printable(port.name), to_string(port.kind));
        }
      }
    }
  }

  void check_port_type(const std::string& what, const actors::Port& port, const std::string& type) {
    std::vector<std::string> known = messages::shipped_type_names();
    for (const messages::MessageType& own : registry_.messages()) known.push_back(own.name);
    if (std::ranges::find(known, type) != known.end()) return;
    const std::vector<std::string> near = nearest(type, known, 1);
    add("{}: port \"{}\" carries \"{}\", which nobody has registered{}", what, printable(port.name), printable(type),
        near.empty() ? "" : fmt::format(" (did you mean {}?)", near[0]));
  }

  void check_keys(const std::string& what, const ConfigSchema& keys, const std::vector<std::string>& taken) {
    std::set<std::string> names(taken.begin(), taken.end());
    for (const ConfigKey& key : keys) {
      const std::string shown = printable(key.path);
      if (!is_plain(key.path, kKey)) add("{}: key \"{}\": {}", what, shown, expected_name(kKey));
      if (!names.insert(key.path).second) add("{}: key \"{}\" is there already", what, shown);
      // They become comments of the resolved configuration, which must not end before their line does.
      for (const std::string& text : {key.doc, key.unit}) {
        if (printable(text, 200) != text) add("{}: key \"{}\": expected words for people on one line", what, shown);
      }
      if (key.only_with || !key.names_from.empty()) add("{}: key \"{}\": its section has no others", what, shown);
      if (!key.required && !allows_default(key)) {
        add("{}: key \"{}\": its default is {}, which is not allowed: expected {}", what, shown,
            to_toml(key.default_value), expected_default(key));
      }
    }
  }

  const Registry& registry_;
  std::set<std::string> sections_;
  std::vector<std::string> mistakes_;
};

}  // namespace

Status check_registry(const Registry& registry) { return RegistryChecker(registry).run(); }

}  // namespace troupe
