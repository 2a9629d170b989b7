#include <troupe/page/prometheus.hpp>

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string_view>

#include <troupe/page/overview.hpp>

namespace troupe::page {
namespace {

std::string escaped_label(std::string_view text) {
  std::string made;
  for (const char c : text) {
    if (c == '\\' || c == '"') made += '\\';
    made += c;  // there are no line ends: what comes from a run is printable
  }
  return made;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

bool is_up(const SeenInstance& instance) { return instance.state == "up" || instance.state == "done"; }

}  // namespace

std::string prometheus_name(std::string_view quantity) {
  std::string name = "troupe_";
  for (const char c : quantity) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const bool capital = c >= 'A' && c <= 'Z';
    name += capital ? static_cast<char>(c - 'A' + 'a') : fits ? c : '_';
  }
  // Base units by their whole names, and no ending that means something else there.
  if (name.ends_with("_per_s")) name += "econd";
  if (name.ends_with("_s")) name += "econds";
  for (const char* taken : {"_total", "_count", "_sum", "_bucket", "_info"}) {
    if (name.ends_with(taken)) name += "_value";
  }
  return name;
}

void Exposition::sample(const std::string& name, const char* help, const WatchedRun& run, const Labels& labels,
                        double value) {
  Family& family = families_[name];
  family.help = help;
  family.type = name.ends_with("_total") ? "counter" : "gauge";
  family.series += fmt::format("{}{{run=\"{}\"", name, escaped_label(run.name()));
  for (const auto& [label, text] : labels) family.series += fmt::format(",{}=\"{}\"", label, escaped_label(text));
  family.series += fmt::format("}} {}\n", number_text(value));
}

void Exposition::add(const WatchedRun& run) {
  sample("troupe_run_training", "Whether a process trains in the run directory.", run, {},
         run.state() == WatchedRun::State::kTrains ? 1 : 0);
  add_metrics(run);
  if (run.seen()) add_seen(run);
}

void Exposition::add_metrics(const WatchedRun& run) {
  for (const std::string& column : run.metrics().names()) {
    const auto value = run.newest(column);
    if (!value) continue;
    const std::size_t slash = column.find('/');
    if (column == "wall_s") {
      sample("troupe_run_seconds_total", "Seconds since the start of the run, over all of its starts.", run, {},
             *value);
    } else if (slash == std::string::npos) {
      sample(prometheus_name(column) + "_total", "Steps of the whole run, of metrics.csv.", run, {}, *value);
    } else {
      sample(prometheus_name(std::string_view(column).substr(slash + 1)),
             "The newest value of this column of metrics.csv, by the part before the slash.", run,
             {{"role", column.substr(0, slash)}}, *value);
    }
  }
  const apps::FollowedCsv& evaluations = run.evaluations();
  const std::size_t source = evaluations.find("source");
  if (source == evaluations.names().size()) return;
  std::map<std::pair<std::string, std::string>, double> newest;
  for (std::size_t column = 0; column < evaluations.names().size(); ++column) {
    const std::string& name = evaluations.names()[column];
    if (column == source || name == "wall_s" || name == "step" || name == "env_steps") continue;
    for (std::size_t row = 0; row < evaluations.rows(); ++row) {
      const double value = evaluations.cell(row, column);
      if (!std::isnan(value)) newest[{evaluations.text(evaluations.cell(row, source)), name}] = value;
    }
  }
  for (const auto& [key, value] : newest) {
    sample("troupe_evaluation", "The newest value of this column of evaluations.csv.", run,
           {{"role", key.first}, {"value", key.second}}, value);
  }
}

void Exposition::add_seen(const WatchedRun& run) {
  const SeenRun& seen = *run.seen();
  sample("troupe_status_age_seconds", "How old what is said of instances, channels and nodes is.", run, {},
         run.seen_age_s());
  sample("troupe_alarms", "Lines about what is wrong: down, hanging, or keeping the chief from its work.", run, {},
         static_cast<double>(alarms_of(seen).size()));
  for (const SeenInstance& instance : seen.instances) {
    const Labels labels = {
        {"node", instance.node}, {"role", instance.role}, {"index", std::to_string(index_of(instance))}};
    sample("troupe_instance_up", "Whether the instance is at work, or done.", run, labels, is_up(instance) ? 1 : 0);
    sample("troupe_instance_restarts_total", "How often the instance was started again.", run, labels,
           static_cast<double>(instance.restarts));
    if (instance.version >= 0) {
      sample("troupe_instance_version", "Version of the parameters that it has.", run, labels,
             static_cast<double>(instance.version));
    }
    if (instance.staleness >= 0) {
      sample("troupe_instance_staleness_versions", "By how many versions they are behind the newest.", run, labels,
             static_cast<double>(instance.staleness));
    }
    if (!instance.told) continue;
    Labels waits = labels;
    waits.emplace_back("for", instance.waits_for);
    sample("troupe_wait_seconds", "How long it has waited, on which of its ports; 0: it is at work.", run, waits,
           std::max(0.0, instance.idle_s));
  }
  for (const ChannelView& view : overview_of(seen, run.traffic()).channels) {
    const SeenChannel& channel = view.channel;
    const Labels labels = {
        {"channel", fmt::format("{}.{}:{}.{}", channel.from, channel.from_port, channel.to, channel.to_port)}};
    sample("troupe_channel_depth_frames", "Messages that wait at the end of the channel.", run, labels, view.depth);
    sample("troupe_channel_frames_per_second", "Messages that go through the channel.", run, labels, view.frames_per_s);
    sample("troupe_channel_bytes_per_second", "Bytes that go through the channel.", run, labels, view.bytes_per_s);
    sample("troupe_channel_producers_waiting", "Instances that wait for room in the channel.", run, labels,
           static_cast<double>(view.producers_waiting));
  }
  for (const SeenNode& node : seen.nodes) {
    sample("troupe_node_up", "Whether the node is up.", run, {{"node", node.name}}, node.state == "up" ? 1 : 0);
    sample("troupe_node_silent_seconds", "How long the chief has not heard of the node.", run, {{"node", node.name}},
           node.silent_s);
  }
  for (const SeenGroup& group : seen.groups) {
    const Labels labels = {{"role", group.name}};
    sample("troupe_group_members", "Members of the group's newest epoch.", run, labels,
           static_cast<double>(group.members.size()));
    sample("troupe_group_seats", "Members that the group would have.", run, labels, static_cast<double>(group.seats));
    sample("troupe_group_hangs", "Whether members wait for others in a collective.", run, labels,
           group.hang.empty() ? 0 : 1);
  }
}

std::string Exposition::text() const {
  std::string text;
  for (const auto& [name, family] : families_) {
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{3}", name, family.help, family.type, family.series);
  }
  return text;
}

}  // namespace troupe::page
