#include <troupe/page/messages.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <system_error>

#include <troupe/core/json_nesting.hpp>
#include <troupe/page/overview.hpp>

namespace troupe::page {
namespace {

using Json = nlohmann::ordered_json;

/// Of more instances than these the page shows those that wait longest or are down.
constexpr std::size_t kInstancesMax = 200;
constexpr std::size_t kWaitsMax = 30;
constexpr std::size_t kSummaryLevelsMax = 16;  ///< of a summary

/// Six digits, which is more than a curve can show.
void append_number(std::string& text, double value) {
  if (std::isfinite(value)) {
    fmt::format_to(std::back_inserter(text), "{:.7g}", value);
  } else {
    text += "null";
  }
}

std::string dump(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

Json role_json(const RoleView& role) {
  return {{"name", role.name},         {"instances", role.instances}, {"states", role.states},
          {"restarts", role.restarts}, {"waiting", role.waiting},     {"longest_idle_s", role.longest_idle_s},
          {"longest", role.longest},   {"waits_for", role.waits_for}, {"why", role.why},
          {"version", role.version},   {"staleness", role.staleness}, {"error", role.error}};
}

Json channel_json(const ChannelView& view) {
  const SeenChannel& channel = view.channel;
  return {{"from", channel.from},
          {"from_port", channel.from_port},
          {"to", channel.to},
          {"to_port", channel.to_port},
          {"kind", channel.kind},
          {"capacity", channel.capacity},
          {"depth", view.depth},
          {"frames_per_s", view.frames_per_s},
          {"bytes_per_s", view.bytes_per_s},
          {"producers_waiting", view.producers_waiting},
          {"consumers_waiting", view.consumers_waiting},
          {"longest_s", view.longest_s}};
}

Json instance_json(const SeenInstance& instance) {
  return {{"name", instance.name},         {"node", instance.node},           {"state", instance.state},
          {"restarts", instance.restarts}, {"limit", instance.restart_limit}, {"error", instance.error},
          {"idle_s", instance.idle_s},     {"waits_for", instance.waits_for}, {"why", instance.why},
          {"version", instance.version},   {"staleness", instance.staleness}};
}

/// Who is down comes first, then who waits longest.
Json instances_json(const SeenRun& seen) {
  std::vector<const SeenInstance*> order;
  for (const SeenInstance& instance : seen.instances) order.push_back(&instance);
  if (order.size() > kInstancesMax) {
    const auto rank = [](const SeenInstance* one) {
      return one->state == "up" || one->state == "done" ? one->idle_s : 1e9;
    };
    std::ranges::stable_sort(order, std::greater(), rank);
    order.resize(kInstancesMax);
  }
  Json list = Json::array();
  for (const SeenInstance* instance : order) list.push_back(instance_json(*instance));
  return list;
}

Json groups_json(const SeenRun& seen) {
  Json list = Json::array();
  for (const SeenGroup& group : seen.groups) {
    Json missing = Json::array();
    for (const auto& one : group.missing) missing.push_back({{"name", one.name}, {"state", one.state}});
    list.push_back({{"name", group.name},
                    {"epoch", group.epoch},
                    {"seats", group.seats},
                    {"members", group.members.size()},
                    {"missing", std::move(missing)},
                    {"hang", group.hang},
                    {"broke", group.broke}});
  }
  return list;
}

Json seen_json(const WatchedRun& run) {
  const SeenRun& seen = *run.seen();
  const Overview overview = overview_of(seen, run.traffic());
  Json roles = Json::array(), channels = Json::array(), nodes = Json::array();
  for (const RoleView& role : overview.roles) roles.push_back(role_json(role));
  for (const ChannelView& channel : overview.channels) channels.push_back(channel_json(channel));
  for (const SeenNode& node : seen.nodes) {
    nodes.push_back(
        {{"name", node.name}, {"state", node.state}, {"incarnation", node.incarnation}, {"silent_s", node.silent_s}});
  }
  return {{"age_s", run.seen_age_s()},
          {"seconds", seen.seconds},
          {"last_cut", seen.last_cut},
          {"alarms", alarms_of(seen)},
          {"waits", std::vector(seen.waits.begin(), seen.waits.begin() + static_cast<std::ptrdiff_t>(
                                                                             std::min(seen.waits.size(), kWaitsMax)))},
          {"waits_count", seen.waits.size()},
          {"roles", std::move(roles)},
          {"channels", std::move(channels)},
          {"nodes", std::move(nodes)},
          {"groups", groups_json(seen)},
          {"instances", instances_json(seen)},
          {"instances_count", seen.instances.size()}};
}

}  // namespace

std::string rows_of(const apps::FollowedCsv& table, Told::Table& told) {
  const bool all = told.generation != table.generation();
  const std::size_t from = all ? 0 : told.rows;
  told = {table.generation(), table.rows()};
  if (!all && from == table.rows()) return "";
  std::string text = all ? "{\"all\":true,\"names\":" + dump(Json(table.names())) + ",\"columns\":[" : "{\"columns\":[";
  for (std::size_t column = 0; column < table.names().size(); ++column) {
    text += column == 0 ? "[" : ",[";
    for (std::size_t row = from; row < table.rows(); ++row) {
      if (row > from) text += ',';
      const double cell = table.cell(row, column);
      table.is_text(column) ? text += dump(Json(table.text(cell))) : (append_number(text, cell), text);
    }
    text += ']';
  }
  return text + "]}";
}

std::string news_of(const WatchedRun& run, Told& told) {
  std::error_code ignored;
  Json news = {{"run", run.name()},
               {"directory", apps::RunDirectory{std::filesystem::absolute(run.directory().path, ignored)}.shown()},
               {"state", to_string(run.state())},
               {"notes", run.notes()}};
  if (run.seen()) news["seen"] = seen_json(run);
  if (told.config != run.config()) news["config"] = told.config = run.config();
  if (told.summary != run.summary()) {
    told.summary = run.summary();
    const bool sane = !json_nests_beyond(told.summary, kSummaryLevelsMax);
    const Json summary = sane ? Json::parse(told.summary, nullptr, false) : Json();
    if (summary.is_object()) news["summary"] = summary;
  }
  if (told.pictures != run.pictures().size()) {
    told.pictures = run.pictures().size();
    news["pictures"] = run.pictures();
  }
  const FollowedText& log = run.log();
  const std::uint64_t lines = log.before() + log.lines().size();
  if (told.log_lines != lines) {
    Json fresh = Json::array();
    for (std::uint64_t at = std::max(told.log_lines, log.before()); at < lines; ++at) {
      fresh.push_back(log.lines()[static_cast<std::size_t>(at - log.before())]);
    }
    told.log_lines = lines;
    news["log"] = std::move(fresh);
  }
  std::string text = dump(news);
  text.pop_back();  // the closing brace
  if (const std::string rows = rows_of(run.metrics(), told.metrics); !rows.empty()) text += ",\"metrics\":" + rows;
  if (const std::string rows = rows_of(run.evaluations(), told.evaluations); !rows.empty()) {
    text += ",\"evaluations\":" + rows;
  }
  return text + '}';
}

}  // namespace troupe::page
