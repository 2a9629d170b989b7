#include <troupe/apps/sweep/sweep_directory.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <climits>
#include <system_error>
#include <utility>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/config.hpp>
#include <troupe/core/json_nesting.hpp>
#include <troupe/core/text.hpp>
#include <troupe/core/toml.hpp>
#include <troupe/run/recorded_run.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;
using PlanJson = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::uint64_t kPlanBytesMax = 64 << 20;
constexpr std::size_t kPlanLevels = 16;

PlanJson to_json(const RecordedSweep& sweep) {
  PlanJson configs = PlanJson::array(), runs = PlanJson::array();
  for (const SweepConfig& config : sweep.plan.configs) configs.push_back(config.name);
  for (const SweepRun& run : sweep.plan.runs) {
    PlanJson settings = PlanJson::object();
    for (const auto& [key, value] : run.settings) settings[key] = value;
    runs.push_back({{"name", run.name}, {"config", run.config}, {"settings", settings}, {"seed", run.seed}});
  }
  return {{"format", kFormat},        {"version", sweep.version},
          {"machine", sweep.machine}, {"threshold", to_string(sweep.compared.threshold)},
          {"at", sweep.compared.at},  {"configs", configs},
          {"keys", sweep.plan.keys},  {"runs", runs}};
}

/// Throws nlohmann's exceptions where something is missing or of another type.
Result<RecordedSweep> from_json(const PlanJson& json, const SweepDirectory& directory) {
  if (const int format = json.at("format"); format != kFormat) {
    return Error{Code::kCorrupt, fmt::format("{}: got format {}, expected {}: another version of troupe began it",
                                             directory.plan().string(), format, kFormat)};
  }
  RecordedSweep sweep{.version = json.at("version"), .machine = json.at("machine")};
  TROUPE_ASSIGN(sweep.compared.threshold, parse_threshold(json.at("threshold")));
  sweep.compared.at = json.at("at").get<std::vector<std::int64_t>>();
  for (const PlanJson& name : json.at("configs")) {
    SweepConfig config{.name = name.get<std::string>(), .text = {}};
    TROUPE_ASSIGN(config.text, read_config_text(directory.configs() / (config.name + ".toml")));
    sweep.plan.configs.push_back(std::move(config));
  }
  sweep.plan.keys = json.at("keys").get<std::vector<std::string>>();
  for (const PlanJson& one : json.at("runs")) {
    SweepRun run{.name = one.at("name"), .config = one.at("config"), .settings = {}, .seed = one.at("seed")};
    if (run.name != safe_name(run.name)) {
      return Error{Code::kCorrupt,
                   fmt::format("{}: {} is no name of a run", directory.plan().string(), printable(run.name))};
    }
    for (const auto& [key, value] : one.at("settings").items()) run.settings.emplace_back(key, value);
    sweep.plan.runs.push_back(std::move(run));
  }
  return sweep;
}

}  // namespace

std::string SweepDirectory::shown() const { return printable(path.string(), PATH_MAX); }

bool is_sweep(const SweepDirectory& directory) {
  std::error_code ignored;
  return fs::is_regular_file(directory.plan(), ignored);
}

Result<RecordedSweep> read_sweep(const SweepDirectory& directory) {
  if (!is_sweep(directory)) {
    return Error{Code::kNotFound,
                 fmt::format("{}: not the directory of a sweep: it has no sweep.json", directory.shown())};
  }
  TROUPE_ASSIGN(const std::vector<std::byte> bytes, read_file(directory.plan().string(), kPlanBytesMax));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string why = text.empty() ? "it is empty" : "too many levels";
  try {
    if (!text.empty() && !json_nests_beyond(text, kPlanLevels)) return from_json(PlanJson::parse(text), directory);
  } catch (const nlohmann::json::exception& exception) {
    why = printable(exception.what());
  }
  return Error{Code::kCorrupt, fmt::format("{}: not the plan of a sweep: {}", directory.plan().string(), why)};
}

Status write_sweep(const SweepDirectory& directory, const RecordedSweep& sweep) {
  for (const fs::path& folder : {directory.configs(), directory.runs(), directory.logs()}) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return Error{Code::kIo, fmt::format("{}: {}", printable(folder.string()), error.message())};
  }
  for (const SweepConfig& config : sweep.plan.configs) {
    TROUPE_TRY(write_file_atomic((directory.configs() / (config.name + ".toml")).string(), config.text));
  }
  return write_file_atomic(directory.plan().string(), to_json(sweep).dump(1) + "\n");
}

RunState state_of(const RunDirectory& run) {
  const auto end = read_recorded_end(run);
  if (end.ok() && met_its_limits(end->stop_reason)) return RunState::kFinished;
  return has_checkpoint(run) ? RunState::kBegun : RunState::kNew;
}

}  // namespace troupe::apps
