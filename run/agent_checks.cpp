#include <troupe/run/agent_checks.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include <troupe/core/text.hpp>
#include <troupe/run/agent_options.hpp>
#include <troupe/run/group_schema.hpp>
#include <troupe/run/mistake_place.hpp>

namespace troupe::apps {
namespace {

class AgentChecker {
 public:
  AgentChecker(const Config& config, std::string prefix, std::vector<std::string>& mistakes)
      : config_(config), prefix_(std::move(prefix)), mistakes_(mistakes) {}

  void check() {
    check_wrappers("wrappers");
    check_wrappers("evaluator.wrappers");
    check_ratio();
    check_replay_device();
    check_clients();
    check_learner();
    at_most("actors.threads", "actors.envs_per_actor");
    at_most("placement.actors.nodes", "actors.count");
    at_most("placement.replay.nodes", "replay.shards");
    at_most("placement.inference.nodes", "inference.count");
    at_most("placement.learner.nodes", "learner.count");
    at_most("placement.learner_ps.nodes", "learner.ps_shards");
    demand(integer("placement.learner.nodes") < 2 || is_served() || text("learner.replicator") == "multi_worker",
           {"placement.learner.nodes", "learner.replicator"},
           fmt::format("{}placement.learner.nodes is {}, but learner.replicator = \"{}\" has all learners in one "
                       "instance",
                       prefix_, integer("placement.learner.nodes"), text("learner.replicator")));
  }

 private:
  std::int64_t integer(std::string_view key) const { return config_.get_int(prefix_ + std::string(key)); }
  double number(std::string_view key) const { return config_.get_float(prefix_ + std::string(key)); }
  const std::string& text(std::string_view key) const { return config_.get_string(prefix_ + std::string(key)); }

  bool is_served() const { return actors::has_parameter_server(read_group(config_.section(prefix_ + "learner"))); }

  /// Its place is that of the first of these keys that somebody set: there the user can look.
  void demand(bool holds, std::initializer_list<std::string_view> keys, const std::string& what) {
    if (holds) return;
    std::string place = "default";
    for (const std::string_view key : keys) {
      const std::string& set = config_.where(prefix_ + std::string(key));
      if (place == "default") place = set;
    }
    mistakes_.push_back(fmt::format("{}: {}", place, what));
  }
  void at_most(std::string_view key, std::string_view bound) {
    demand(integer(key) <= integer(bound), {key, bound},
           fmt::format("{0}{1} must not exceed {0}{2}: got {3} and {4}", prefix_, key, bound, integer(key),
                       integer(bound)));
  }

  void check_wrappers(std::string_view key) {
    const std::vector<std::string>& names = config_.get_strings(prefix_ + std::string(key));
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto first = std::ranges::find(names, names[i]) - names.begin();
      demand(static_cast<std::size_t>(first) == i, {key},
             fmt::format("{}{}: \"{}\" is there twice, expected each wrapper once", prefix_, key, names[i]));
      demand(names[i] != kSameWrappers || names.size() == 1, {key},
             fmt::format("{}{}: \"{}\" is there with others, expected it alone", prefix_, key, names[i]));
    }
  }
  /// Of the limiter "ratio".
  void check_ratio() {
    if (text("replay.limiter") != "ratio") return;
    const char* const parts = replay_is_held() ? "learner.count" : "replay.shards";
    const std::int64_t min_items = integer("replay.min_items"), shards = integer(parts);
    at_most("replay.min_items", "replay.max_items");
    at_most(parts, "replay.min_items");
    const double per_insert = number("replay.samples_per_insert");
    // The error buffer in samples; see replay/rate_limiter.hpp, which demands at least as much.
    const double buffer = static_cast<double>(min_items) * number("replay.tolerance") * per_insert;
    // A shard's window is twice its part of the buffer; one whole batch and one insert must fit into it.
    const double batch_size = static_cast<double>(integer("learner.batch_size"));
    const double needed = std::max({1.0, per_insert, (batch_size + per_insert) / 2}) * static_cast<double>(shards);
    demand(buffer >= needed,
           {"replay.tolerance", "replay.min_items", "replay.samples_per_insert", "learner.batch_size", parts},
           fmt::format("{0}replay.min_items * {0}replay.tolerance * {0}replay.samples_per_insert = {1:g} samples of "
                       "error buffer would block actors and learner for ever: expected at least {2:g}{3}",
                       prefix_, buffer, needed,
                       shards > 1 ? fmt::format(" for {} {}", shards, replay_is_held() ? "learners" : parts) : ""));
  }

  bool replay_is_held() const {
    return config_.get_strings(prefix_ + "replay.device") != std::vector<std::string>{"cpu"};
  }

  void check_replay_device() {
    if (!replay_is_held()) return;
    const std::vector<std::string>& replay = config_.get_strings(prefix_ + "replay.device");
    const std::vector<std::string>& learner = config_.get_strings(prefix_ + "learner.device");
    const std::int64_t shards = integer("replay.shards"), learners = integer("learner.count");
    const auto holders = learner::parse_devices(replay), trainers = learner::parse_devices(learner);
    const bool held = holders.ok() && trainers.ok() && *holders == *trainers &&
                      (std::ranges::all_of(*holders, &learner::Device::is_gpu) ||
                       std::ranges::all_of(*holders, &learner::Device::is_pjrt));
    const bool apart = learners == 1 || text("learner.replicator") == "multi_worker";
    demand(
        held && shards == 1 && apart && !is_served(),
        {"replay.device", "learner.device", "learner.replicator", "replay.shards"},
        fmt::format("{}replay.device must be cpu, or what learner.device is, GPUs or devices of a PJRT plug-in alone, "
                    "with replay.shards = 1 and, of several learners, learner.replicator = \"multi_worker\": got "
                    "\"{}\" with learner.device \"{}\", {} shards, {} learners and learner.replicator \"{}\"",
                    prefix_, fmt::join(replay, "\", \""), fmt::join(learner, "\", \""), shards, learners,
                    text("learner.replicator")));
  }

  void check_clients() {
    if (!config_.get_bool(prefix_ + "replay.external")) return;
    demand(!replay_is_held(), {"replay.external", "replay.device"},
           fmt::format("{0}replay.external: got true, expected false with {0}replay.device \"{1}\", as the learner "
                       "holds replay",
                       prefix_, fmt::join(config_.get_strings(prefix_ + "replay.device"), "\", \"")));
  }

  void check_learner() {
    const Status group = actors::check(read_group(config_.section(prefix_ + "learner")), prefix_ + "learner");
    if (!group.ok()) {
      for (const std::string_view line : lines(group.error().message)) {
        mistakes_.push_back(fmt::format("{}: {}", place_of(config_, line), line));
      }
    }
    const std::int64_t learners = integer("learner.count"), rows = integer("learner.batch_size");
    demand(rows % learners == 0, {"learner.count", "learner.batch_size"},
           fmt::format("{0}learner.batch_size must be a multiple of {0}learner.count: got {1} and {2}", prefix_, rows,
                       learners));
    constexpr std::int64_t kShards = 8;  // learner::kStripes
    demand(
        !config_.get_bool(prefix_ + "learner.deterministic") || (kShards % learners == 0 && rows % kShards == 0),
        {"learner.deterministic", "learner.count", "learner.batch_size"},
        fmt::format("{}learner.deterministic: got learner.count = {} and learner.batch_size = {}, expected 1, 2, 4 or "
                    "8 and a multiple of {}",
                    prefix_, learners, rows, kShards));
    const std::string& kind = text("learner.kind");
    if (kind == actors::kProgramLearner) return;
    for (const char* const key : {"learner.count", "learner.devices", "learner.accumulate"}) {
      if (!config_.has(prefix_ + key)) continue;
      demand(integer(key) == 1, {key, "learner.kind"},
             fmt::format("{0}{1}: got {2}, but {0}learner.kind is \"{3}\", of which there is one", prefix_, key,
                         integer(key), kind));
    }
    demand(!is_served(), {"learner.replicator", "learner.kind"},
           fmt::format("{0}learner.replicator: got \"{1}\", but {0}learner.kind is \"{2}\", which takes its own steps",
                       prefix_, text("learner.replicator"), kind));
    demand(!replay_is_held(), {"replay.device", "learner.kind"},
           fmt::format("{0}replay.device: got \"{1}\", expected cpu, as {0}learner.kind is \"{2}\"", prefix_,
                       fmt::join(config_.get_strings(prefix_ + "replay.device"), "\", \""), kind));
  }

  const Config& config_;
  const std::string prefix_;
  std::vector<std::string>& mistakes_;
};

}  // namespace

void check_agent(const Config& config, const std::string& prefix, std::vector<std::string>& mistakes) {
  AgentChecker(config, prefix, mistakes).check();
}

}  // namespace troupe::apps
