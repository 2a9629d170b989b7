#include <troupe/page/seen_run.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>

#include <troupe/core/json_nesting.hpp>
#include <troupe/core/text.hpp>

namespace troupe::page {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kStatusTextMax = 16 << 20;
constexpr std::size_t kStatusLevelsMax = 16;
constexpr std::size_t kTextBytesMax = 2048;

// Members that are absent have the value that means nothing, as releases add some; those of another type throw.
std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? "" : printable(found->get_ref<const std::string&>(), kTextBytesMax);
}

double number_of(const Json& object, const char* name, double otherwise = 0) {
  const auto found = object.find(name);
  return found == object.end() ? otherwise : found->get<double>();
}

std::int64_t integer_of(const Json& object, const char* name, std::int64_t otherwise = 0) {
  const auto found = object.find(name);
  return found == object.end() ? otherwise : found->get<std::int64_t>();
}

std::vector<std::string> texts_of(const Json& object, const char* name) {
  std::vector<std::string> texts;
  const auto found = object.find(name);
  if (found == object.end()) return texts;
  for (const Json& text : *found) texts.push_back(printable(text.get_ref<const std::string&>(), kTextBytesMax));
  return texts;
}

template <typename Take>
void each_of(const Json& object, const char* name, Take take) {
  const auto found = object.find(name);
  if (found == object.end()) return;
  for (const Json& one : found->get_ref<const Json::array_t&>()) {
    (void)one.get_ref<const Json::object_t&>();
    take(one);
  }
}

SeenInstance instance_of(const Json& json) {
  SeenInstance instance{.name = text_of(json, "name"),
                        .role = text_of(json, "role"),
                        .node = text_of(json, "node"),
                        .state = text_of(json, "state"),
                        .error = text_of(json, "error"),
                        .incarnation = integer_of(json, "incarnation"),
                        .restarts = integer_of(json, "restarts"),
                        .restart_limit = integer_of(json, "restart_limit"),
                        .told = json.contains("ports"),
                        .idle_s = number_of(json, "idle_s", -1),
                        .waits_for = text_of(json, "waits_for"),
                        .why = text_of(json, "why"),
                        .version = integer_of(json, "version", -1),
                        .ports = {}};
  each_of(json, "ports", [&](const Json& port) {
    instance.ports.push_back({text_of(port, "name"), text_of(port, "direction") == "in", integer_of(port, "depth"),
                              number_of(port, "frames_per_s"), number_of(port, "bytes_per_s"),
                              number_of(port, "waited_s")});
  });
  return instance;
}

SeenGroup group_of(const Json& json) {
  SeenGroup group{.name = text_of(json, "name"),
                  .epoch = text_of(json, "epoch"),
                  .hang = text_of(json, "hang"),
                  .broke = text_of(json, "broke"),
                  .seats = integer_of(json, "seats"),
                  .members = texts_of(json, "members"),
                  .missing = {}};
  each_of(json, "missing", [&](const Json& one) {
    group.missing.push_back({text_of(one, "name"), text_of(one, "state")});
  });
  return group;
}

SeenRun run_of(const Json& json) {
  SeenRun run{.run = text_of(json, "run"),
              .term = static_cast<std::uint64_t>(integer_of(json, "term")),
              .last_cut = static_cast<std::uint64_t>(integer_of(json, "last_cut")),
              .seconds = number_of(json, "seconds"),
              .written_unix_s = number_of(json, "written_unix_s"),
              .nodes = {},
              .instances = {},
              .channels = {},
              .groups = {},
              .waits = texts_of(json, "waits"),
              .trouble = texts_of(json, "trouble")};
  each_of(json, "nodes", [&](const Json& node) {
    run.nodes.push_back(
        {text_of(node, "name"), text_of(node, "state"), integer_of(node, "incarnation"), number_of(node, "silent_s")});
  });
  each_of(json, "instances", [&](const Json& one) { run.instances.push_back(instance_of(one)); });
  each_of(json, "channels", [&](const Json& one) {
    run.channels.push_back({text_of(one, "from"), text_of(one, "from_port"), text_of(one, "to"),
                            text_of(one, "to_port"), text_of(one, "kind"), integer_of(one, "capacity")});
  });
  each_of(json, "groups", [&](const Json& one) { run.groups.push_back(group_of(one)); });
  if (const auto staleness = json.find("staleness"); staleness != json.end()) {
    for (SeenInstance& instance : run.instances) instance.staleness = integer_of(*staleness, instance.name.c_str(), -1);
  }
  return run;
}

}  // namespace

Result<SeenRun> read_status(std::string_view text) {
  if (text.size() > kStatusTextMax || json_nests_beyond(text, kStatusLevelsMax)) {
    return Error{Code::kCorrupt, fmt::format("status: got {} bytes, expected at most {} in {} levels", text.size(),
                                             kStatusTextMax, kStatusLevelsMax)};
  }
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return Error{Code::kCorrupt, "status: got no JSON object"};
  try {
    return run_of(json);
  } catch (const nlohmann::json::exception& exception) {
    return Error{Code::kCorrupt, fmt::format("status: {}", exception.what())};
  }
}

std::int64_t index_of(const SeenInstance& instance) {
  // The only one of its role has the role's name.
  std::int64_t index = 0;
  const std::string prefix = instance.role + "-";
  if (!instance.name.starts_with(prefix)) return 0;
  std::from_chars(instance.name.data() + prefix.size(), instance.name.data() + instance.name.size(), index);
  return index;
}

}  // namespace troupe::page
