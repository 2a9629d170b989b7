#include <troupe/apps/sweep/sweep.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <troupe/apps/sweep/children.hpp>
#include <troupe/apps/sweep/sweep_progress.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/comparison.hpp>
#include <troupe/run/comparison_page.hpp>
#include <troupe/run/comparison_table.hpp>
#include <troupe/run/progress.hpp>
#include <troupe/run/recorded_run.hpp>
#include <troupe/run/say.hpp>
#include <troupe/run/units.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLastLines = 5;
constexpr std::streamoff kLastBytes = 8192;
constexpr Duration kResultsPatience = std::chrono::minutes(1);

/// The last lines of a log, for people.
std::vector<std::string> last_lines(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return {};
  stream.seekg(std::max<std::streamoff>(stream.tellg() - kLastBytes, 0));
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const std::vector<std::string_view> all = lines(text);
  std::vector<std::string> last;
  for (std::size_t i = all.size() - std::min(all.size(), kLastLines); i < all.size(); ++i) {
    last.push_back(printable(all[i]));
  }
  return last;
}

/// What a run that has met its limits has come to: "return 871.2 after 120k env steps, 2m03s".
std::string result_in_words(const RecordedRun& run) {
  std::string words;
  for (const RecordedAgent& agent : run.agents) {
    words += fmt::format("{}return {:.1f} after {} env steps, ", run.agents.size() > 1 ? agent.task + ": " : "",
                         agent.returns.back().value, format_count(agent.env_steps));
  }
  return words + format_duration(run.wall_s);
}

class Sweep {
 public:
  Sweep(const SweepDirectory& directory, const RecordedSweep& sweep, const Registry& registry,
        const std::vector<std::size_t>& numbers, std::size_t jobs)
      : directory_(directory),
        sweep_(sweep),
        registry_(registry),
        numbers_(numbers),
        jobs_(jobs),
        progress_(jobs, clock_),
        shown_(ProgressLine::on(stdout, clock_)) {
    outcome_.finished = sweep.plan.runs.size() - unfinished(directory, sweep.plan).size();
  }

  Result<SweepOutcome> run() {
    TROUPE_ASSIGN(const auto program, registry_.command());
    say_failures(directory_, sweep_.plan, numbers_);
    std::vector<ChildCommand> commands;
    for (const std::size_t number : numbers_) {
      const SweepRun& run = sweep_.plan.runs[number];
      std::error_code ignored;
      fs::remove(directory_.failure(run), ignored);
      commands.push_back({command_of(program, run), directory_.log(run)});
      TROUPE_ASSIGN(const auto options, options_of(sweep_.plan, run, registry_));
      progress_.add(in_words(run), run.config, directory_.run(run), limits_of(options));
    }
    std::fflush(stdout);
    const ChildrenOptions how = {.jobs = jobs_,
                                 .begins = [this](std::size_t i) { progress_.begins(i); },
                                 .ends = [this](std::size_t i, const ChildEnding& ending) { ended(i, ending); },
                                 .meanwhile = [this] { show(); }};
    TROUPE_ASSIGN(const int asked, run_children(commands, how));
    shown_.clear();
    outcome_.stopped = asked > 0;
    return outcome_;
  }

 private:
  std::vector<std::string> command_of(std::vector<std::string> command, const SweepRun& run) const {
    command.insert(command.end(), {"train", directory_.config(run).string()});
    for (std::string& override_text : overrides_of(run)) command.insert(command.end(), {"--set", override_text});
    const RunDirectory place = directory_.run(run);
    command.insert(command.end(),
                   {state_of(place) == RunState::kBegun ? "--resume" : "--run-dir", place.path.string()});
    return command;
  }

  /// How far it is, when it is time to say so.
  void show() {
    if (!shown_.is_due()) return;
    progress_.look();
    shown_.draw([this](std::size_t columns_max) {
      const std::string done = fmt::format("[{}/{}] ", outcome_.finished, sweep_.plan.runs.size());
      return done + progress_.line(columns_max - std::min(columns_max, done.size()));
    });
  }

  void ended(std::size_t number, const ChildEnding& ending) {
    const SweepRun& run = sweep_.plan.runs[numbers_[number]];
    shown_.clear();
    const RunDirectory place = directory_.run(run);
    const bool good = !ending.signalled && ending.number == 0 && ending.error.empty();
    const bool done = good && state_of(place) == RunState::kFinished;
    progress_.ends(number, done);
    if (!good) {
      failed(run, ending);
    } else if (!done) {
      line(run, "stopped; it goes on when the sweep does");
    } else {
      ++outcome_.finished;
      const auto recorded = read_recorded_run(place.path, registry_);
      line(run, recorded.ok() ? result_in_words(*recorded) : recorded.error().message);
      // At the end they are written once more, and then an error counts.
      const auto written = write_results(directory_, sweep_, registry_);
      if (!written.ok()) log::warn("{}", written.error().message);
    }
    std::fflush(stdout);
  }

  void failed(const SweepRun& run, const ChildEnding& ending) {
    ++outcome_.failed;
    const std::vector<std::string> last = last_lines(directory_.log(run));
    line(run, fmt::format("FAILED, {}; the end of {}:", in_words(ending), printable(directory_.log(run).string())));
    for (const std::string& text : last) say("    {}\n", text);
    const std::string record = fmt::format("{}\n{}\n", in_words(ending), fmt::join(last, "\n"));
    if (const Status kept = write_file_atomic(directory_.failure(run).string(), record); !kept.ok()) {
      log::warn("{}", kept.error().message);
    }
  }

  void line(const SweepRun& run, const std::string& what) const {
    say("[{}/{}] {}: {}\n", outcome_.finished, sweep_.plan.runs.size(), printable(in_words(run)), what);
  }

  const SweepDirectory& directory_;
  const RecordedSweep& sweep_;
  const Registry& registry_;
  const std::vector<std::size_t>& numbers_;
  const std::size_t jobs_;
  const SteadyClock clock_;
  SweepProgress progress_;
  ProgressLine shown_;
  SweepOutcome outcome_;
};

/// Only one process of a sweep at a time writes its results. Its runs have locks of their own.
Result<RunLock> lock_results(const SweepDirectory& directory) {
  const SteadyClock clock;
  const Duration end = clock.now() + kResultsPatience;
  while (true) {
    Result<RunLock> lock = RunLock::take({directory.runs()});
    if (lock.ok() || lock.error().code != Code::kUnavailable) return lock;
    if (clock.now() >= end) {
      return Error{Code::kUnavailable, fmt::format("{}: another process writes its results, and did not end in {:g} s",
                                                   directory.shown(), seconds(kResultsPatience))};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

/// What the page says first.
std::vector<std::string> about(const RecordedSweep& sweep, std::size_t finished) {
  const SweepPlan& plan = sweep.plan;
  std::vector<std::string> configs, seeds, sentences;
  for (const SweepConfig& config : plan.configs) configs.push_back(config.name);
  for (const SweepRun& run : plan.runs) {
    const std::string seed = std::to_string(run.seed);
    if (std::ranges::find(seeds, seed) == seeds.end()) seeds.push_back(seed);
  }
  sentences.push_back(fmt::format("{} of {} runs have ended.", finished, plan.runs.size()));
  sentences.push_back(fmt::format("Configurations: {}. Seeds: {}.", fmt::join(configs, ", "), fmt::join(seeds, ", ")));
  for (const std::string& key : plan.keys) {
    std::vector<std::string> values;
    for (const SweepRun& run : plan.runs) {
      const auto setting = std::ranges::find(run.settings, key, &Setting::first);
      if (setting != run.settings.end() && std::ranges::find(values, setting->second) == values.end()) {
        values.push_back(setting->second);
      }
    }
    sentences.push_back(fmt::format("{}: {}.", key, fmt::join(values, ", ")));
  }
  sentences.push_back(fmt::format("Begun by troupe {} on {}.", sweep.version, sweep.machine));
  return sentences;
}

}  // namespace

std::vector<std::size_t> unfinished(const SweepDirectory& directory, const SweepPlan& plan) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    if (state_of(directory.run(plan.runs[i])) != RunState::kFinished) numbers.push_back(i);
  }
  return numbers;
}

void say_failures(const SweepDirectory& directory, const SweepPlan& plan, const std::vector<std::size_t>& numbers) {
  for (const std::size_t number : numbers) {
    std::ifstream stream(directory.failure(plan.runs[number]));
    std::string how;
    if (std::getline(stream, how)) {
      say("{} failed before ({}): trying again\n", printable(in_words(plan.runs[number])), printable(how));
    }
  }
}

Result<SweepOutcome> run_here(const SweepDirectory& directory, const RecordedSweep& sweep, const Registry& registry,
                              const std::vector<std::size_t>& numbers, std::size_t jobs) {
  return Sweep(directory, sweep, registry, numbers, jobs).run();
}

Result<std::optional<Comparison>> write_results(const SweepDirectory& directory, const RecordedSweep& sweep,
                                                const Registry& registry) {
  TROUPE_ASSIGN(const RunLock lock, lock_results(directory));
  std::vector<RecordedRun> runs;
  for (const SweepRun& run : sweep.plan.runs) {
    if (state_of(directory.run(run)) != RunState::kFinished) continue;
    TROUPE_ASSIGN(RecordedRun recorded, read_recorded_run(directory.run(run).path, registry));
    runs.push_back(std::move(recorded));
  }
  if (runs.empty()) return std::optional<Comparison>();
  ComparisonOptions options = sweep.compared;
  options.also = sweep.plan.keys;
  TROUPE_ASSIGN(Comparison comparison, compare(runs, options));
  std::error_code ignored;
  const std::string name = (fs::absolute(directory.path, ignored) / "").lexically_normal().parent_path().filename();
  const PageText text = {.title = name, .about = about(sweep, runs.size())};
  TROUPE_TRY(write_comparison(comparison, text, directory.path, "sweep.html"));
  return std::optional(std::move(comparison));
}

}  // namespace troupe::apps
