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

/// Of a section, a key or a port: lower-case letters, digits, '_' and, where the place allows it, '-'.
bool is_plain(std::string_view name, bool dashes) {
  return !name.empty() && name.size() <= kNameMax && std::islower(static_cast<unsigned char>(name[0])) != 0 &&
         std::ranges::all_of(name, [&](unsigned char c) {
           return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_' || (dashes && c == '-');
         });
}

std::string expected_name(bool dashes) {
  return fmt::format("expected a name of 1 .. {} lower-case letters, digits{} and '_', a letter first", kNameMax,
                     dashes ? ", '-'" : "");
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
    for (const auto& [name, kind] : registry_.environments()) check_section("environment", name, kind);
    for (const auto& [name, kind] : registry_.wrappers()) {
      check_section("wrapper", name, kind);
      if (name == "same") add("wrapper \"same\": in evaluator.wrappers it stands for those of the agent");
    }
    for (const auto& [name, kind] : registry_.algorithms()) check_section("algorithm", name, kind);
    for (const auto& [name, kind] : registry_.models()) check_model(name, kind);
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
  void check_section(const char* of, const std::string& name, const Kind& kind) {
    const std::string what = fmt::format("{} \"{}\"", of, printable(name));
    if (!is_plain(name, true)) add("{}: {}", what, expected_name(true));
    if (!sections_.insert(name).second) add("{}: a configuration has [{}] for something else", what, name);
    if (kind.make == nullptr) add("{}: nothing makes it", what);
    check_keys(what, kind.keys, {});
  }

  void check_model(const std::string& name, const ModelKind& kind) {
    const std::string what = fmt::format("model \"{}\"", printable(name));
    if (!is_plain(name, true)) add("{}: {}", what, expected_name(true));
    if (kind.make == nullptr) add("{}: nothing makes it", what);
    check_keys(what, kind.keys, apps::common_group_keys());
  }

  void check_role(const std::string& name, const RoleKind& kind) {
    const std::string what = fmt::format("role \"{}\"", printable(name));
    if (!is_plain(name, true)) add("{}: {}", what, expected_name(true));
    if (kind.make == nullptr) add("{}: nothing makes it", what);
    check_keys(what, kind.keys, apps::common_role_keys());
    if (kind.inlets.empty() && kind.outlets.empty()) add("{}: it has no ports, so it can have no part in a run", what);
    std::set<std::string> ports;
    for (const auto* list : {&kind.inlets, &kind.outlets}) {
      for (const actors::Port& port : *list) {
        if (!is_plain(port.name, true)) add("{}: port \"{}\": {}", what, printable(port.name), expected_name(true));
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
      if (!is_plain(key.path, false)) add("{}: key \"{}\": {}", what, shown, expected_name(false));
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
