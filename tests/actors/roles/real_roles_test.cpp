// Simulated runs with the shipped roles in them, small: env actors, replay with its journal, and a parameter server
// with its workers, on hosts that are killed, stopped, cut off and whose disks fill up. What was acknowledged is there
// once, neither lost nor doubled, and after the faults everything moves again, a checkpoint succeeds and the run ends.
//
// TROUPE_SIMULATION_SEED=n runs that seed alone; TROUPE_SIMULATION_SEEDS=n that many of each kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include <troupe/actors/roles/env_actor.hpp>
#include <troupe/actors/roles/input_feed.hpp>
#include <troupe/actors/roles/parameter_server.hpp>
#include <troupe/actors/roles/replay_actor.hpp>
#include <troupe/actors/roles/replay_journal.hpp>
#include <troupe/actors/roles/step_account.hpp>
#include <troupe/actors/roles/step_budget.hpp>
#include <troupe/core/log.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/tests/actors/random_faults.hpp>
#include <troupe/tests/actors/roles/line_parameters.hpp>
#include <troupe/tests/actors/simulation.hpp>
#include <troupe/tests/actors/test_roles.hpp>
#include <troupe/tests/learner/replicate/parameter_server/line.hpp>

namespace troupe::actors {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::RandomFaults;
using testing::SimulatedDisk;
using testing::Simulation;
using testing::SimulationOptions;

constexpr Duration kFaultsFrom = milliseconds(20);  // also while nodes join for the first time
constexpr Duration kFaultsUntil = seconds(7);
constexpr Duration kQuiet = seconds(14);  ///< by then everything must move again
constexpr Duration kEnd = seconds(16);

std::int64_t number_from(const char* variable, std::int64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

/// A run of one seed: a topology, its hosts, faults, and what must hold afterwards.
class Scenario {
 public:
  explicit Scenario(std::uint64_t seed) : rng_(derive_seed(seed, "real roles", 0)) {
    options_.seed = seed;
    options_.same_ports = rng_.below(2) == 0;
    folder_ = root() / fmt::format("real_roles_{}_{}", getpid(), seed);
    std::filesystem::remove_all(folder_);
    options_.directory = folder_;
  }
  virtual ~Scenario() { std::filesystem::remove_all(folder_); }

  void run() {
    topology_ = make_topology();
    options_.topology = &topology_;
    place();
    Status sound = check(topology_);
    if (sound.ok()) sound = check(topology_, options_.placement);
    if (!sound.ok()) return finding("{}", sound.error().message);
    {
      Simulation simulation(options_, {});
      with_faults(simulation);
    }
    graves_->clear();
    if (findings_.empty()) judge();
  }
  const std::vector<std::string>& findings() const { return findings_; }
  const std::vector<std::string>& schedule() const { return schedule_; }

 protected:
  using Graves = std::vector<std::unique_ptr<Role>>;

  virtual Topology make_topology() = 0;
  /// How far the run has come; must have grown between kQuiet and kEnd.
  virtual std::map<std::string, std::int64_t> progress() const = 0;
  /// Looks at all parts of a cut that has just been committed.
  virtual void committed(const std::vector<std::shared_ptr<const Cut>>&) {}
  virtual void finish() = 0;
  /// After the end, with what is on disk.
  virtual void judge() = 0;

  template <typename... Args>
  void finding(fmt::format_string<Args...> text, Args&&... args) {
    if (findings_.size() < 20) findings_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  const std::filesystem::path& folder() const { return folder_; }
  Rng& rng() { return rng_; }

  /// A role of which nothing is closed or written any more once its process has been killed.
  void make_mortal(RoleSpec& spec) {
    spec.make = [inner = spec.make, graves = graves_](const RoleIdentity& who) -> Result<std::unique_ptr<Role>> {
      TROUPE_ASSIGN(auto role, inner(who));
      return {std::make_unique<Mortal>(std::move(role), graves)};
    };
  }

 private:
  class Mortal final : public Role {
   public:
    Mortal(std::unique_ptr<Role> role, std::shared_ptr<Graves> graves)
        : role_(std::move(role)), graves_(std::move(graves)) {}
    ~Mortal() override { graves_->push_back(std::move(role_)); }
    Result<Progress> step(RoleContext& context) override { return role_->step(context); }
    std::string waiting_for() const override { return role_->waiting_for(); }
    void report(Report& report) const override { role_->report(report); }
    Result<RoleState> save() const override { return role_->save(); }
    Status restore(const RoleState& state) override { return role_->restore(state); }

   private:
    std::unique_ptr<Role> role_;
    const std::shared_ptr<Graves> graves_;
  };

  /// In memory where the system has such a folder: thousands of small files are written.
  static std::filesystem::path root() {
    const std::filesystem::path memory = "/dev/shm";
    return access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::path(::testing::TempDir());
  }

  void place() {
    options_.placement = {{kChiefNode, {}}};
    const std::uint64_t count = 2 + rng_.below(3);
    for (std::uint64_t i = 0; i < count; ++i) options_.placement.push_back({fmt::format("n{}", i), {}});
    for (const RoleSpec& role : topology_.roles) {
      for (std::int64_t i = 0; i < role.count; ++i) {
        PlacedNode& node = options_.placement[rng_.below(options_.placement.size())];
        node.shares.push_back({role.name, {static_cast<std::uint32_t>(i)}});
      }
    }
  }

  void with_faults(Simulation& simulation);

  Rng rng_;
  SimulationOptions options_;
  std::filesystem::path folder_;
  Topology topology_;
  const std::shared_ptr<Graves> graves_ = std::make_shared<Graves>();
  std::vector<std::string> findings_, schedule_;
};

void Scenario::with_faults(Simulation& simulation) {
  simulation.on_commit = [this](const auto& parts) { committed(parts); };
  for (const PlacedNode& node : options_.placement) simulation.start(node.name);
  RandomFaults faults(rng_, simulation);
  const std::uint64_t count = 2 + rng_.below(8);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto span = static_cast<std::uint64_t>((kFaultsUntil - kFaultsFrom).count());
    simulation.at(kFaultsFrom + Duration(rng_.below(span)), [this, &simulation, &faults] {
      const Duration now = simulation.now();
      schedule_.push_back(fmt::format("{:7.3f} s {}", troupe::seconds(now), faults.happen()));
    });
  }
  simulation.at(kFaultsUntil, [&simulation] { simulation.heal(); });
  simulation.run_until(kQuiet);
  const auto before = progress();
  std::optional<CheckpointDone> checkpoint;
  simulation.checkpoint([&](const CheckpointDone& done) { checkpoint = done; });
  simulation.run_until(kEnd);
  for (const auto& [what, count_now] : progress()) {
    const auto was = before.find(what);
    if (count_now <= (was == before.end() ? 0 : was->second)) finding("{} stands still at {}", what, count_now);
  }
  if (!checkpoint) finding("a checkpoint was not answered");
  if (checkpoint && checkpoint->error) finding("a checkpoint failed: {}", checkpoint->error->message);
  finish();
  simulation.run_until(kEnd + seconds(7));
  if (!simulation.ended()) finding("the run has not ended");
  if (simulation.alive() != 0) finding("{} processes live after the end", simulation.alive());
  for (const std::string& text : simulation.findings()) finding("{}", text);
  if (!findings_.empty()) schedule_.push_back(simulation.describe());
}

// ---- env actors and replay ----

/// Says with every observation which environment it is of, and how many steps that has made.
class Numbered final : public envs::Environment {
 public:
  explicit Numbered(std::int64_t life) : life_(life) {
    spec_.name = "numbered";
    spec_.observation = {{"label", DType::kF32, {2}}};
    spec_.action = envs::ActionSpec::continuous({-1}, {1}, DType::kF32);
    spec_.episode_steps = kEpisode;
    spec_.control_dt = 0.01;
  }
  const envs::EnvSpec& spec() const override { return spec_; }
  Result<envs::TimeStep> reset(std::uint64_t, std::span<std::byte> observation) override { return reset(observation); }
  Result<envs::TimeStep> reset(std::span<std::byte> observation) override {
    look(observation);
    return envs::TimeStep{};
  }
  Result<envs::TimeStep> step(std::span<const std::byte>, std::span<std::byte> observation) override {
    ++steps_;
    look(observation);
    return envs::TimeStep{steps_ % kEpisode == 0 ? envs::StepType::kLast : envs::StepType::kMid, 1, 1};
  }
  std::vector<std::byte> save_state() const override {
    std::vector<std::byte> state(sizeof(life_) + sizeof(steps_));
    std::memcpy(state.data(), &life_, sizeof(life_));
    std::memcpy(state.data() + sizeof(life_), &steps_, sizeof(steps_));
    return state;
  }
  Status restore_state(std::span<const std::byte> state) override {
    std::memcpy(&life_, state.data(), sizeof(life_));
    std::memcpy(&steps_, state.data() + sizeof(life_), sizeof(steps_));
    return {};
  }
  Status render(const envs::RenderOptions&, std::span<std::uint8_t>) override {
    return Error{Code::kUnavailable, "nothing to be seen"};
  }

 private:
  static constexpr std::int64_t kEpisode = 40;
  void look(std::span<std::byte> observation) const {
    const float label[2] = {static_cast<float>(life_), static_cast<float>(steps_)};
    std::memcpy(observation.data(), label, sizeof(label));
  }

  envs::EnvSpec spec_;
  std::int64_t life_;
  std::int64_t steps_ = 0;
};

/// Always the same action, at once.
class Still final : public Acting {
 public:
  Status refresh(RoleContext&) override { return {}; }
  Result<std::optional<std::int64_t>> act(RoleContext&, const BatchView&, const MutableBatchView& outputs) override {
    std::ranges::fill(outputs.as<float>(0), 0.5F);
    return std::optional<std::int64_t>(1);
  }
  std::string waiting_for() const override { return {}; }
  void report(Report&) const override {}
};

class ActingAndReplay final : public Scenario {
 public:
  using Scenario::Scenario;

 private:
  static constexpr std::int64_t kActors = 2;
  static constexpr std::int64_t kBatch = 8;
  struct Seen {
    std::int64_t lives = 0;
    std::int64_t batches = 0;
    std::int64_t episodes = 0;
    std::map<std::int64_t, std::int64_t> sampled;  ///< by life, one more than its newest step in a batch
    bool finish = false;
  };

  /// Takes a batch every 50 ms and says that its rows are worth as much as before.
  class Learner final : public Role {
   public:
    explicit Learner(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}
    Result<Progress> step(RoleContext& context) override {
      if (seen_->finish) return Progress::kDone;
      const Duration now = context.clock().now();
      if (now >= at_ && !context.in("batches").empty()) {
        TROUPE_ASSIGN(const auto batch, messages::read_batch(context.in("batches").take()));
        const auto labels = batch.columns().as<float>(0);
        for (std::size_t row = 0; row < static_cast<std::size_t>(kBatch); ++row) {
          std::int64_t& newest = seen_->sampled[static_cast<std::int64_t>(labels[2 * row])];
          newest = std::max(newest, static_cast<std::int64_t>(labels[2 * row + 1]) + 1);
        }
        ++seen_->batches;
        at_ = now + milliseconds(50);
        if (context.out("priorities").ready()) {
          messages::PriorityUpdate update;
          update.keys.assign(batch.rows().keys.begin(), batch.rows().keys.end());
          update.priorities.assign(update.keys.size(), 1.0);
          TROUPE_ASSIGN(Frame frame, messages::make_priorities(context.pool(), update));
          context.out("priorities").send(std::move(frame));
        }
      }
      context.wake_after(std::max(at_ - now, Duration(milliseconds(5))));
      return Progress::kIdle;
    }

   private:
    const std::shared_ptr<Seen> seen_;
    Duration at_{};
  };

  class People final : public Role {
   public:
    explicit People(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}
    Result<Progress> step(RoleContext& context) override {
      while (!context.in("use").empty()) (void)context.in("use").take();
      for (; !context.in("episodes").empty(); ++seen_->episodes) (void)context.in("episodes").take();
      for (Server& server = context.server("steps"); !server.empty();) {
        const auto [frame, answer] = server.take();
        TROUPE_ASSIGN(const auto request, messages::read_steps_request(frame));
        const auto alive = [&](std::int64_t index) { return server.alive(static_cast<std::size_t>(index)); };
        TROUPE_ASSIGN(const auto grant, account_.grant(request, alive, context.clock().now()));
        TROUPE_ASSIGN(Frame told, messages::make_steps_grant(context.pool(), grant));
        answer(std::move(told));
      }
      return Progress::kIdle;
    }

   private:
    const std::shared_ptr<Seen> seen_;
    StepAccount account_{0, kActors};  // no limit
  };

  ReplayActorOptions replay_options() const {
    ReplayActorOptions options;
    options.table.signature =
        replay::transition_signature({{"label", DType::kF32, {2}}}, {{"action", DType::kF32, {1}}});
    options.table.max_items = 20'000;
    options.table.limiter = replay::sample_to_insert_ratio(1, kBatch, 200).value();
    options.batch = kBatch;
    options.journal = {.durability = "relaxed", .background = false};
    return options;
  }

  Topology make_topology() override {
    EnvActorOptions acting;
    acting.make_environment = [seen = seen_](std::uint64_t) -> Result<std::unique_ptr<envs::Environment>> {
      return {std::make_unique<Numbered>(seen->lives++)};
    };
    acting.acting.columns = {{{"label", DType::kF32, {2}}}, {{"action", DType::kF32, {1}}}};
    acting.acting.make = [](const RoleIdentity&, std::int64_t) -> Result<std::unique_ptr<Acting>> {
      return {std::make_unique<Still>()};
    };
    acting.exploration = acting::no_exploration({"action", DType::kF32, {1}});
    acting.adder = replay::n_step_adders(1, 0.99);
    RoleSpec actor = EnvActor::spec("actor", kActors, acting);
    RoleSpec replay = ReplayActor::spec("replay", 1, replay_options());
    replay.restart.from = RestartFrom::kLastCut;
    make_mortal(replay);
    RoleSpec learner{.name = "learner", .inlets = {{"batches", "Batch"}}, .outlets = {{"priorities", "Priorities"}}};
    learner.make = testing::factory([seen = seen_](const RoleIdentity&) { return std::make_unique<Learner>(seen); });
    learner.completes_run = true;
    RoleSpec people{.name = "people",
                    .inlets = {{"use", "ParametersUse"}, {"episodes", "Episode"}, StepBudget::port()}};
    people.make = testing::factory([seen = seen_](const RoleIdentity&) { return std::make_unique<People>(seen); });
    Topology topology;
    topology.roles = {actor, replay, learner, people};
    for (RoleSpec& role : topology.roles) {
      role.restart.max_restarts = 1000;
      role.restart.max_backoff = milliseconds(400);
    }
    topology.channels = {
        {"actor", "trajectories", "replay", "trajectories", 2}, {"replay", "batches", "learner", "batches", 2},
        {"learner", "priorities", "replay", "priorities", 2},   {"actor", "use", "people", "use", 4},
        {"actor", "episodes", "people", "episodes", 4},         {"actor", "steps", "people", "steps", 1}};
    return topology;
  }

  std::map<std::string, std::int64_t> progress() const override {
    return {{"the learner", seen_->batches}, {"what people hear of episodes", seen_->episodes}};
  }
  void finish() override { seen_->finish = true; }

  /// The next process of replay reads the journal, as after a kill of all.
  void judge() override {
    RoleIdentity who{.role = "replay", .incarnation = 1000};
    for (const auto& node : std::filesystem::directory_iterator(folder())) {
      if (std::filesystem::is_directory(node.path() / "replay")) who.directory = node.path() / "replay";
    }
    if (who.directory.empty()) return finding("there is no journal");
    const ReplayActorOptions options = replay_options();
    auto table = replay::Table::make(options.table).value();
    auto journal = ReplayJournal::make(options.journal, who, options.table).value();
    if (const Status recovered = journal->recover(*table); !recovered.ok()) {
      return finding("the journal: {}", recovered.error().message);
    }
    const replay::TableInfo info = table->info();
    BatchBuffer rows(options.table.signature, info.items);
    std::vector<double> priorities(static_cast<std::size_t>(info.items));
    const Status read =
        table->read(static_cast<replay::Key>(info.inserts - info.items), rows.mutable_view(), priorities);
    if (!read.ok()) return finding("{}", read.error().message);
    std::map<std::int64_t, std::int64_t> next;  // of each life: it sends its steps in order
    const auto labels = rows.view().as<float>(0);
    for (std::size_t row = 0; row < static_cast<std::size_t>(info.items); ++row) {
      const auto life = static_cast<std::int64_t>(labels[2 * row]);
      const auto step = static_cast<std::int64_t>(labels[2 * row + 1]);
      std::int64_t& expected = next[life];
      if (step != expected) finding("row {}: step {} of environment {}, expected {}", row, step, life, expected);
      expected = step + 1;
    }
    for (const auto& [life, sampled] : seen_->sampled) {
      if (next[life] < sampled) {
        finding("step {} of environment {} was in a batch, and is not in the journal", sampled - 1, life);
      }
    }
  }

  const std::shared_ptr<Seen> seen_ = std::make_shared<Seen>();
};

// ---- a parameter server ----

/// Beside the line, the model has a number on each shard that counts the shard's updates: its gradient is one, whatever
/// the parameters, the batch and the age of the gradient, and so each update takes exactly one away from it.
class ParameterServer final : public Scenario {
 public:
  using Scenario::Scenario;

 private:
  static constexpr std::int64_t kUpdates = 600;
  static constexpr std::int64_t kShards = 2;
  struct Seen {
    std::int64_t ticks = 0;
    std::int64_t shards_began = 0;
    std::map<std::string, std::int64_t> saved;  ///< versions of shards in the newest cut
    bool ended = false;                         ///< a worker has published parameters of the last update
    bool finish = false;
  };

  /// Ends the run when it is told to.
  class Evaluating final : public Role {
   public:
    explicit Evaluating(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}
    Result<Progress> step(RoleContext& context) override {
      ++seen_->ticks;
      while (!context.in("parameters").empty()) (void)context.in("parameters").take();
      if (seen_->finish) return Progress::kDone;
      context.wake_after(milliseconds(100));
      return Progress::kIdle;
    }

   private:
    const std::shared_ptr<Seen> seen_;
  };

  static void count_updates(learner::Graph& graph, learner::ParamGroup) {
    const learner::ParamGroup count = graph.group("count");
    const learner::Var updates = graph.param(count, "updates", {kShards, 1}, learner::Init::constant(0));
    graph.minimize(learner::sum(updates), count, {.rule = learner::Sgd{.learning_rate = 1}});
  }

  Topology make_topology() override {
    ParameterServerOptions options;
    options.name = "line";
    options.feed = input_feed([]() -> Result<std::unique_ptr<learner::Replica>> {
      return {std::make_unique<learner::testing::LineReplica>(
          learner::OptimizerSpec{.rule = learner::Sgd{.learning_rate = 0.1}}, count_updates)};
    });
    options.workers = 2;
    options.batch = 8;
    options.shards = kShards;
    options.synchronous = rng().below(2) == 0;
    if (!options.synchronous) {
      // A gradient that a worker computed before it was stopped for long would undo what was learned since.
      options.stale = learner::StalePolicy::kDrop;
      options.max_staleness = kUpdates / 12;
    }
    options.updates = kUpdates;
    options.straggler_timeout = milliseconds(500);
    options.call_deadline = seconds(1);
    options.publication = step_publication(
        [this]() -> Result<MakeParametersFrame> {
          return {[this](messages::FramePool& pool, learner::Program& program, std::int64_t version) {
            if (version >= kUpdates) published_last(program);
            return actors::testing::line_parameters(pool, program, version);
          }};
        },
        kUpdates);
    Topology topology;
    if (const Status added = add_parameter_server(topology, options); !added.ok()) {
      finding("{}", added.error().message);
    }
    RoleSpec& shards = *std::ranges::find(topology.roles, "line-ps", &RoleSpec::name);
    shards.make = [inner = shards.make, seen = seen_](const RoleIdentity& who) {
      ++seen->shards_began;
      return inner(who);
    };
    RoleSpec evaluator{.name = "evaluator", .inlets = {{"parameters", "Parameters", ChannelKind::kLatest}}};
    evaluator.make =
        testing::factory([seen = seen_](const RoleIdentity&) { return std::make_unique<Evaluating>(seen); });
    evaluator.completes_run = true;
    topology.roles.push_back(evaluator);
    for (RoleSpec& role : topology.roles) {
      role.restart.max_restarts = 1000;
      role.restart.max_backoff = milliseconds(400);
    }
    topology.channels.push_back({"line", "parameters", "evaluator", "parameters", 1});
    return topology;
  }

  std::map<std::string, std::int64_t> progress() const override { return {{"the evaluator", seen_->ticks}}; }
  void finish() override { seen_->finish = true; }

  /// The version of a shard is the number of updates that its values have seen, and no update that is in a cut is lost.
  void committed(const std::vector<std::shared_ptr<const Cut>>& parts) override {
    for (const auto& part : parts) {
      for (const Cut::Instance& instance : part->instances) {
        if (!instance.name.starts_with("line-ps")) continue;
        const RoleState& state = instance.state->role;
        const auto count = std::ranges::find(state.tensors, "count", &StateTensor::name);
        float updates = 0;
        std::memcpy(&updates, count->bytes.data(), sizeof(updates));
        const std::int64_t version = state.counter("steps").value();
        if (updates != static_cast<float>(-version) || version > kUpdates) {
          finding("{} in cut {}: version {} after {} updates", instance.name, part->number, version, -updates);
        }
        std::int64_t& saved = seen_->saved[instance.name];
        if (version < saved) finding("{} in cut {}: version {} after {}", instance.name, part->number, version, saved);
        saved = version;
      }
    }
  }

  /// A worker is about to be done.
  void published_last(learner::Program& program) {
    seen_->ended = true;
    const auto count = program.params("count")->values();
    for (std::size_t shard = 0; shard < kShards; ++shard) {
      if (count[shard] == -kUpdates) continue;
      finding("shard {} has ended after {} updates, expected {}", shard, -count[shard], kUpdates);
    }
    // A shard that begins again is behind the others. Those make the rest of their updates beside parameters that are
    // far from the optimum, which move them away from it too. So only the number of updates is promised then.
    if (seen_->shards_began > kShards) return;
    const auto line = program.params("line")->values();
    for (std::size_t i = 0; i < learner::testing::kFeatures; ++i) {
      // 600 updates shrink the error by e^-36, and no gradient that is taken is more than 50 updates old.
      if (std::abs(line[i] - learner::testing::kSlopes[i]) > 1e-2) {
        finding("slope {} is {}, expected {}", i, line[i], learner::testing::kSlopes[i]);
      }
    }
  }

  void judge() override {
    if (!seen_->ended) finding("no worker has seen the last update");
  }

  const std::shared_ptr<Seen> seen_ = std::make_shared<Seen>();
};

template <typename Kind>
void expect_all_to_survive(std::int64_t usually) {
  log::set_level(log::Level::kOff);
  const std::int64_t only = number_from("TROUPE_SIMULATION_SEED", -1);
  const std::int64_t seeds = number_from("TROUPE_SIMULATION_SEEDS", usually);
  int failed = 0;
  for (std::int64_t seed = only >= 0 ? only : 0; failed < 3 && (only >= 0 ? seed == only : seed < seeds); ++seed) {
    if (only >= 0) log::set_level(log::Level::kDebug);
    Kind scenario(static_cast<std::uint64_t>(seed));
    scenario.run();
    if (scenario.findings().empty()) continue;
    ++failed;
    std::string text = fmt::format("seed {} (TROUPE_SIMULATION_SEED={} repeats it):\n", seed, seed);
    for (const std::string& finding : scenario.findings()) text += "  " + finding + "\n";
    text += "what happened:\n";
    for (const std::string& event : scenario.schedule()) text += "  " + event + "\n";
    ADD_FAILURE() << text;
  }
}

TEST(RealRoles, EnvActorsAndReplaySurviveTheirFaults) { expect_all_to_survive<ActingAndReplay>(40); }
TEST(RealRoles, AParameterServerSurvivesItsFaults) { expect_all_to_survive<ParameterServer>(20); }

}  // namespace
}  // namespace troupe::actors
