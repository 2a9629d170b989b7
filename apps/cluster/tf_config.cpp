// The TF_CONFIG reader of environment.hpp.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <troupe/apps/cluster/detail/mistakes.hpp>
#include <troupe/apps/cluster/environment.hpp>
#include <troupe/apps/cluster/place.hpp>
#include <troupe/core/json_nesting.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/run_topology.hpp>

namespace troupe::apps {
namespace {

using Json = nlohmann::json;

/// What else TensorFlow's scripts and launchers put there; it has no meaning here.
constexpr std::array<const char*, 4> kIgnored = {"environment", "job", "rpc_layer", "session_master"};
constexpr std::size_t kTasksMax = 4096;
/// The cluster takes three levels; what launchers add, a few.
constexpr std::size_t kLevelsMax = 32;

std::string shown(const Json& value) {
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 80);
}

class TfConfig {
 public:
  Result<OwnPlace> read(const std::string& text, const actors::TrainOptions& options, const std::string& run) {
    if (json_nests_beyond(text, kLevelsMax)) {
      return Error{Code::kInvalidArgument,
                   fmt::format("TF_CONFIG: nested by more than {} levels: {}", kLevelsMax, printable(text, 80))};
    }
    Json json;
    try {
      json = Json::parse(text);
    } catch (const Json::parse_error& error) {
      return Error{Code::kInvalidArgument, fmt::format("TF_CONFIG: not JSON: error at byte {} of {}: {}", error.byte,
                                                       text.size(), printable(text, 80))};
    } catch (const Json::exception& error) {  // a number beyond what there are
      return Error{Code::kInvalidArgument, fmt::format("TF_CONFIG: not JSON: {}", printable(error.what(), 160))};
    }
    read_top(json);
    TROUPE_TRY(mistakes_.report());
    OwnPlace own{make_cluster(options, run), node_name(task_type_, task_index_)};
    TROUPE_TRY(mistakes_.report());
    return own;
  }

 private:
  /// "master" is read as "chief".
  const std::vector<transport::Address>& tasks(const std::string& type) { return tasks_[type]; }
  std::string node_name(const std::string& type, std::size_t index) {
    const bool chief = type == "chief" || (tasks("chief").empty() && type == "worker" && index == 0);
    if (chief) return kChiefName;
    return type == "evaluator" ? type : fmt::format("{}-{}", type, index);
  }

  void read_top(const Json& json) {
    if (!json.is_object()) return mistakes_.add(0, fmt::format("got {}, expected an object", shown(json)));
    std::vector<std::string> known = {"cluster", "task"};
    known.insert(known.end(), kIgnored.begin(), kIgnored.end());
    for (const auto& [key, value] : json.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      mistakes_.add(0, fmt::format("unknown key {}{}, expected cluster and task", printable(key),
                                   detail::suggestion(key, known)));
    }
    if (!json.contains("cluster")) {
      mistakes_.add(0, "no cluster");
    } else {
      read_cluster(json["cluster"]);
    }
    if (!json.contains("task")) {
      mistakes_.add(0, "no task");
    } else {
      read_task(json["task"]);
    }
  }

  void read_cluster(const Json& cluster) {
    if (!cluster.is_object()) {
      return mistakes_.add(0, fmt::format("cluster: got {}, expected an object", shown(cluster)));
    }
    for (const auto& [type, hosts] : cluster.items()) {
      if (std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
        mistakes_.add(0, fmt::format("cluster: unknown task type {}{}, expected {}", printable(type),
                                     detail::suggestion(type, kTypes), fmt::join(kTypes, ", ")));
      } else if (!hosts.is_array() || hosts.size() > kTasksMax) {
        mistakes_.add(0, fmt::format("cluster.{}: got {}, expected a list of \"host:port\"", type, shown(hosts)));
      } else {
        read_hosts(type, hosts);
      }
    }
    const std::size_t chiefs = tasks("chief").size();
    if (cluster.contains("chief") && cluster.contains("master")) {
      mistakes_.add(0, "cluster: chief and master are the same, expected one of them");
    } else if (chiefs > 1) {
      mistakes_.add(0, fmt::format("cluster: {} chiefs, expected one", chiefs));
    } else if (chiefs == 0 && tasks("worker").empty() && !mistakes_.any()) {
      mistakes_.add(0, "cluster: neither chief nor worker, expected a chief or at least one worker");
    }
    if (tasks("evaluator").size() > 1) {
      mistakes_.add(0, fmt::format("cluster: {} evaluators, expected at most one", tasks("evaluator").size()));
    }
  }

  void read_hosts(const std::string& type, const Json& hosts) {
    std::vector<transport::Address>& list = tasks_[type == "master" ? "chief" : type];
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const std::string where = fmt::format("cluster.{}[{}]", type, i);
      if (!hosts[i].is_string()) {
        mistakes_.add(0, fmt::format("{}: got {}, expected \"host:port\"", where, shown(hosts[i])));
        continue;
      }
      const Result<transport::Address> address = transport::parse_address(hosts[i].get<std::string>());
      if (!address.ok()) {
        mistakes_.add(0, fmt::format("{}: {}", where, address.error().message));
        continue;
      }
      if (address->port == 0) mistakes_.add(0, fmt::format("{}: port 0, expected one that the others know", where));
      const auto [first, fresh] = seen_.insert({to_string(*address), where});
      if (!fresh) mistakes_.add(0, fmt::format("{}: {} is {} already", where, first->first, first->second));
      list.push_back(*address);
    }
  }

  void read_task(const Json& task) {
    if (!task.is_object()) return mistakes_.add(0, fmt::format("task: got {}, expected an object", shown(task)));
    const auto type = task.find("type"), index = task.find("index");
    if (type == task.end() || !type->is_string()) {
      mistakes_.add(0,
                    fmt::format("task.type: got {}, expected a string", type == task.end() ? "nothing" : shown(*type)));
    } else {
      task_type_ = type->get<std::string>();
      if (std::find(kTypes.begin(), kTypes.end(), task_type_) == kTypes.end()) {
        mistakes_.add(0, fmt::format("task.type: unknown task type {}{}, expected {}", printable(task_type_),
                                     detail::suggestion(task_type_, kTypes), fmt::join(kTypes, ", ")));
        task_type_.clear();
      }
      if (task_type_ == "master") task_type_ = "chief";
    }
    // Some launchers write the index as a string.
    std::int64_t number = 0;
    if (index != task.end() && index->is_number_integer()) {
      number = index->get<std::int64_t>();
    } else if (index != task.end() && index->is_string() && is_index(index->get<std::string>())) {
      number = std::stoll(index->get<std::string>());
    } else {
      return mistakes_.add(
          0, fmt::format("task.index: got {}, expected an integer", index == task.end() ? "nothing" : shown(*index)));
    }
    if (task_type_.empty() || mistakes_.any()) return;
    const auto count = static_cast<std::int64_t>(tasks(task_type_).size());
    if (count == 0 && task_type_ == "evaluator") {
      mistakes_.add(
          0,
          "task: this is the evaluator, but the cluster names none: add \"evaluator\": [\"host:port\"] to the "
          "cluster of every task");
    } else if (number < 0 || number >= count) {
      mistakes_.add(0, fmt::format("task: this is {} {}, but the cluster has {} of them", task_type_, number, count));
    }
    task_index_ = static_cast<std::size_t>(number);
  }

  static bool is_index(const std::string& text) {
    return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
  }

  ClusterSpec make_cluster(const actors::TrainOptions& options, const std::string& run) {
    ClusterSpec cluster{run, {}};
    for (const char* type : {"chief", "ps", "worker", "evaluator"}) {
      for (std::size_t i = 0; i < tasks(type).size(); ++i) {
        cluster.nodes.push_back({node_name(type, i), tasks(type)[i], {}});
      }
    }
    const auto node = [&](const std::string& name) {
      return std::find_if(cluster.nodes.begin(), cluster.nodes.end(), [&](const auto& n) { return n.name == name; });
    };
    const auto chief = node(kChiefName);
    std::rotate(cluster.nodes.begin(), chief, chief + 1);
    add_role(cluster.nodes[0], actors::kMetricsRole, {0});
    for (const actors::RoleCount& hosted : actors::role_counts(options)) {
      const std::size_t hands = hosted.task.empty() ? 0 : tasks(hosted.task).size();
      const auto shares = deal(hosted.count, std::max<std::size_t>(hands, 1));
      for (std::size_t i = 0; i < shares.size(); ++i) {
        add_role(hands == 0 ? cluster.nodes[0] : *node(node_name(hosted.task, i)), hosted.role, shares[i]);
      }
    }
    for (const NodeSpec& idle : cluster.nodes) {
      if (!idle.roles.empty()) continue;
      mistakes_.add(0, fmt::format("cluster: nothing is left for {}: the run has {}", idle.name,
                                   fmt::join(counts_in_words(options), ", ")));
      break;
    }
    return cluster;
  }

  static std::vector<std::string> counts_in_words(const actors::TrainOptions& options) {
    std::vector<std::string> words;
    for (const actors::RoleCount& hosted : actors::role_counts(options))
      words.push_back(fmt::format("{} {}", hosted.count, hosted.role));
    return words;
  }

  const std::vector<std::string> kTypes = {"chief", "master", "worker", "ps", "evaluator"};
  detail::Mistakes mistakes_{"TF_CONFIG"};
  std::map<std::string, std::vector<transport::Address>> tasks_;
  std::map<std::string, std::string> seen_;  ///< addresses, and where each was first
  std::string task_type_;
  std::size_t task_index_ = 0;
};

}  // namespace

Result<OwnPlace> tf_config_place(const Environment& environment, const actors::TrainOptions& options,
                                 const std::string& run) {
  const auto found = environment.find("TF_CONFIG");
  if (found == environment.end()) return Error{Code::kNotFound, "TF_CONFIG is not set"};
  return TfConfig().read(found->second, options, run);
}

}  // namespace troupe::apps
