#include <troupe/apps/commands/record_run.hpp>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <troupe/apps/commands/run_arguments.hpp>
#include <troupe/apps/version.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/log.hpp>
#include <troupe/run/csv_metrics.hpp>
#include <troupe/run/evaluations.hpp>
#include <troupe/run/fan_out.hpp>
#include <troupe/run/learning_curve.hpp>
#include <troupe/run/machine.hpp>
#include <troupe/run/progress.hpp>
#include <troupe/run/samples.hpp>
#include <troupe/run/say.hpp>
#include <troupe/run/stop_request.hpp>
#include <troupe/run/summary.hpp>
#include <troupe/run/tensorboard.hpp>

namespace troupe::apps {
namespace {

/// "cartpole-swingup, classifier": the environments, and the groups and roles by name.
std::string what_runs(const actors::TrainOptions& options) {
  std::string what;
  for (const actors::AgentOptions& agent : options.agents) what += (what.empty() ? "" : ", ") + agent.env;
  for (const actors::ReplicaRun& run : options.replicas) what += (what.empty() ? "" : ", ") + run.group.name;
  for (const actors::ConfiguredRole& role : options.roles) what += (what.empty() ? "" : ", ") + role.spec.name;
  return what;
}

/// After a stop nobody waits for one more evaluation: the last of the run is an agent's final one.
void take_final_evaluations(actors::TrainSummary& trained, std::span<const Evaluation> evaluations) {
  if (trained.stop_reason != actors::StopReason::kRequested) return;
  for (const Evaluation& evaluation : evaluations) {
    for (actors::AgentSummary& agent : trained.agents) {
      const bool of_agent = evaluated(evaluation.source) == agent.name && find_scalar(evaluation.values, kReturn);
      if (of_agent) agent.final_evaluation = evaluation;
    }
  }
}

/// A run that ends by its limits and was only ever filling its replay is a success for scripts; a person wants to know.
void warn_where_nothing_was_learnt(const actors::TrainSummary& trained, std::span<const actors::AgentOptions> options) {
  if (trained.stop_reason == actors::StopReason::kRequested) return;
  for (std::size_t i = 0; i < trained.agents.size(); ++i) {
    const actors::AgentSummary& agent = trained.agents[i];
    if (agent.learner_steps > 0) continue;
    std::string said = fmt::format("nothing was learnt{}: the learner took no step in {} env steps",
                                   agent.name.empty() ? "" : " by " + agent.name, agent.env_steps);
    if (const auto& replay = options[i].replay; replay.limiter != "queue") {
      said += fmt::format(", {}replay.min_items is {}", section_prefix(options[i]), replay.min_items);
    }
    log::warn("TRP-W109 {}", said);
  }
}

/// Passes on what a run records while its directory is the one that it began in. Where that has been moved away, files
/// of its name may be another run's.
class InPlace final : public MetricSink {
 public:
  InPlace(const RunDirectory& run, MetricSink& next)
      : run_(run), next_(next), began_in_(open(run.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~InPlace() override {
    if (began_in_ >= 0) close(began_in_);
  }
  InPlace(const InPlace&) = delete;
  InPlace& operator=(const InPlace&) = delete;

  Status check() const {
    if (began_in_ < 0 || is_in_place(began_in_, run_)) return {};
    return Error{Code::kNotFound,
                 fmt::format("run directory {}: it was moved or replaced while the run trains in it; go "
                             "on from its last checkpoint with --resume, where it is now",
                             run_.shown())};
  }
  Status rewind(const RunPoint& to) override {
    return checked([&] { return next_.rewind(to); });
  }
  Status write(const MetricRow& row) override {
    return checked([&] { return next_.write(row); });
  }
  Status record(const Evaluation& evaluation) override {
    return checked([&] { return next_.record(evaluation); });
  }
  Status flush() override { return checked([&] { return next_.flush(); }); }

 private:
  template <typename Call>
  Status checked(Call call) const {
    TROUPE_TRY(check());
    return call();
  }

  const RunDirectory& run_;
  MetricSink& next_;
  const int began_in_;  ///< open, so that its number stays its own
};

/// Over nodes whoever wants to know more often asks the chief.
constexpr double kStatusEveryS = 1, kStatusOverNodesEveryS = 10;

/// Keeps status.json. A disk that is full costs its news, which one line says, but never the run.
class StatusFile {
 public:
  explicit StatusFile(const RunDirectory& run) : path_(run.status().string()) {}
  void write(const std::string& status) {
    // The chief's object with one member more, in front.
    const Status written = replace_file(
        path_, fmt::format("{{\"written_unix_s\":{:.1f},{}", unix_s(), std::string_view(status).substr(1)));
    if (written.ok() != fails_) return;
    fails_ = !written.ok();
    if (fails_) log::warn("TRP-W607 {}; what it shows is old until it can be written again", written.error().message);
  }

 private:
  std::string path_;
  bool fails_ = false;
};

}  // namespace

Status record_run(const RunDirectory& run, const Config& config, const actors::TrainOptions& options,
                  const RecordOptions& how) {
  const StopRequest stop;  // before anything is said: nobody may be there to read it
  // A run that is resumed keeps the configuration that its checkpoints were made with until new ones are there.
  if (!how.resume) TROUPE_TRY(write_config(run, config));
  log::also_to_file(run.log().string());

  TROUPE_ASSIGN(CsvSink csv, CsvSink::open({run.metrics(), run.channels(), run.evaluations()}));
  TROUPE_ASSIGN(TensorBoardSink tensorboard, TensorBoardSink::create(run.path, unix_s()));
  const std::string what = what_runs(options);
  // Of earlier starts.
  TROUPE_ASSIGN(const std::vector<MetricRow> rows, read_metrics_csv(run.metrics()));
  TROUPE_ASSIGN(const std::vector<Evaluation> evaluations, read_evaluations_csv(run.evaluations()));
  double recorded_wall_s = 0;
  for (const MetricRow& row : rows) recorded_wall_s = std::max(recorded_wall_s, row.wall_s);
  for (const Evaluation& evaluation : evaluations) recorded_wall_s = std::max(recorded_wall_s, evaluation.wall_s);
  LearningCurveSink curve(run.learning_curve(), fmt::format("{}, seed {}", what, options.seed), evaluations);
  SampleSink samples(run.samples(), tensorboard);
  const SteadyClock clock;
  ProgressSink progress(ProgressLine::on(stdout, clock), limits_of(options));
  std::vector<MetricSink*> sinks = {&csv, &tensorboard, &curve};
  if (!how.quiet) sinks.push_back(&progress);
  FanOut all(std::move(sinks), evaluations);
  InPlace metrics(run, all);

  if (!how.quiet) say("{} {} in {}\n", how.resume ? "resuming" : "training on", what, run.shown());
  std::fflush(stdout);  // a pipe shows it now, and not with the first row
  StatusFile status(run);
  Result<actors::TrainSummary> trained =
      actors::train(options, {.stop = &stop.flag(),
                              .metrics = &metrics,
                              .recorded_wall_s = recorded_wall_s,
                              .pictures = &samples,
                              .checkpoint_dir = run.checkpoints(),
                              .run_id = run.id(),
                              .resume = how.resume,
                              .tell_status =
                                  [&](const std::string& text) {
                                    if (metrics.check().ok()) status.write(text);
                                  },
                              .status_every_s = how.place == nullptr ? kStatusEveryS : kStatusOverNodesEveryS,
                              .place = how.place,
                              .over = how.over});
  progress.finish();
  const Status flushed = metrics.flush();
  if (!trained.ok()) return trained.error();
  TROUPE_TRY(flushed);
  if (!trained->begun) {
    if (trained->stop_reason != actors::StopReason::kRequested) {
      return Error{Code::kDeadlineExceeded, fmt::format("the run has met its limit ({}) and had not begun: not all of "
                                                        "its instances were up, see what was said of them before",
                                                        actors::to_string(trained->stop_reason))};
    }
    log::info("TRP-I001 stopping; the run had not begun, so there is nothing to save");
    return {};
  }
  TROUPE_TRY(metrics.check());
  take_final_evaluations(*trained, curve.evaluations());
  warn_where_nothing_was_learnt(*trained, options.agents);
  TROUPE_TRY(animate_samples(run.samples()));
  if (how.resume) TROUPE_TRY(write_config(run, config));
  const RunSummary summary = {.seed = options.seed,
                              .version = std::string(version()),
                              .machine = machine(),
                              .config_hash = config.hash(),
                              .train = *trained,
                              .evaluations = curve.evaluations()};
  TROUPE_TRY(write_file_atomic(run.summary().string(), summary_json(summary)));
  if (!how.quiet) {
    say("{}", summary_table(summary));
    say("  {:<14} {}\n", "recorded in", run.shown());
    say("  {:<14} {}\n", "look at it", "troupe watch " + shell_word(run.path.string()));
  }
  return {};
}

}  // namespace troupe::apps
