#include <fmt/format.h>

#include <algorithm>

#include <troupe/actors/control/chief_actor.hpp>
#include <troupe/actors/control/node_actor.hpp>
#include <troupe/core/check.hpp>
#include <troupe/tests/actors/simulation_impl.hpp>

namespace troupe::actors::testing {
namespace {

constexpr Duration kLaunchLeast = std::chrono::milliseconds(50);
constexpr Duration kLaunchMost = std::chrono::milliseconds(500);

}  // namespace

Simulation::Simulation(SimulationOptions options, SimulatedDisk disk)
    : options_(std::move(options)), disk_(std::move(disk)), rng_(derive_seed(options_.seed, "simulation", 0)) {}

Simulation::~Simulation() {
  over_ = true;
  for (auto& [birth, process] : processes_) {
    if (process->alive) exit(*process);
  }
}

// ---- time ----

Duration Simulation::random(Duration least, Duration most) {
  return least + Duration(rng_.below(static_cast<std::uint64_t>((most - least).count()) + 1));
}

void Simulation::note(std::string_view what, std::uint64_t a, std::uint64_t b) {
  const auto mix = [this](std::uint64_t value) { trace_ = (trace_ ^ value) * 1099511628211ULL; };
  for (const char c : what) mix(static_cast<unsigned char>(c));
  mix(static_cast<std::uint64_t>(now_.count()));
  mix(a);
  mix(b);
}

void Simulation::at(Duration time, std::function<void()> event) {
  events_.emplace(std::pair(std::max(time, now_), ++sequence_), std::move(event));
}

void Simulation::wake(Process& process) {
  if (process.alive) awake_.insert(process.birth);
}

void Simulation::note_timer(Process& process) {
  std::optional<Duration> next;
  if (process.alive && !process.stopped) {
    const auto& schedule = process.scheduler().clock().schedule();
    if (!schedule.empty()) next = schedule.begin()->first.time_since_epoch();
  }
  if (next == process.timer) return;
  if (process.timer) timers_.erase({*process.timer, process.birth});
  if (next) timers_.emplace(*next, process.birth);
  process.timer = next;
}

void Simulation::run(Process& process) {
  auto& scheduler = process.scheduler();
  for (;;) {
    auto& clock = scheduler.clock();
    const Duration behind = now_ - clock.current_time.time_since_epoch();
    const bool due = !clock.schedule().empty() && clock.schedule().begin()->first.time_since_epoch() <= now_;
    if (behind > Duration::zero() || due) clock.advance_time(behind);
    if (!scheduler.try_run_once()) {
      if (!due) return;
      continue;
    }
    while (scheduler.try_run_once()) {
    }
  }
}

void Simulation::settle() {
  while (!timers_.empty() && timers_.begin()->first <= now_) {
    Process& process = *processes_.at(timers_.begin()->second);
    timers_.erase(timers_.begin());
    process.timer.reset();
    wake(process);
  }
  while (!awake_.empty()) {
    Process& process = *processes_.at(*awake_.begin());
    awake_.erase(awake_.begin());
    if (process.alive && !process.stopped) run(process);
    note_timer(process);
  }
}

void Simulation::run_until(Duration time) {
  for (;;) {
    settle();
    const Duration event = events_.empty() ? Duration::max() : events_.begin()->first.first;
    const Duration next = std::min(event, timers_.empty() ? Duration::max() : timers_.begin()->first);
    if (next > time) break;
    now_ = std::max(now_, next);
    while (!events_.empty() && events_.begin()->first.first <= now_) {
      const auto first = events_.begin();
      const std::function<void()> happens = std::move(first->second);
      events_.erase(first);
      happens();
    }
  }
  now_ = time;
  settle();
}

// ---- processes ----

Simulation::Process* Simulation::current(const std::string& node) {
  const auto found = current_.find(node);
  if (found == current_.end()) return nullptr;
  Process& process = *processes_.at(found->second);
  return process.alive ? &process : nullptr;
}

Simulation::Process* Simulation::at_port(const std::string& node, std::uint16_t port) {
  const auto found = ports_.find({node, port});
  return found == ports_.end() ? nullptr : processes_.at(*found->second.rbegin()).get();
}

std::size_t Simulation::alive(const std::string& node) const {
  return static_cast<std::size_t>(std::count_if(processes_.begin(), processes_.end(), [&](const auto& entry) {
    return entry.second->alive && entry.second->name == node;
  }));
}

std::size_t Simulation::alive() const {
  return static_cast<std::size_t>(
      std::count_if(processes_.begin(), processes_.end(), [](const auto& entry) { return entry.second->alive; }));
}

std::vector<std::string> Simulation::nodes() const { return {wanted_.begin(), wanted_.end()}; }

void Simulation::start(const std::string& node) {
  wanted_.insert(node);
  spawn(node);
}

void Simulation::spawn(const std::string& node) {
  const bool leads = node == kChiefNode;
  const std::uint64_t birth = ++sequence_;
  std::uint16_t port = leads ? kChiefPort : ++next_port_;
  if (!leads && options_.same_ports) {
    for (const auto& [other_birth, other] : processes_) {
      if (other->name == node && !other->alive) port = other->port;
    }
  }
  auto made = std::make_unique<Process>(*this, node, birth, port);
  Process* const process = made.get();
  processes_[birth] = std::move(made);
  ports_[{node, port}].insert(birth);
  current_[node] = birth;
  wake(*process);
  note("start", birth, port);

  const auto listener = [this, process](caf::event_based_actor* self, int) -> caf::behavior {
    return {
        [this, process](ended_atom, const RunEnded& message) {
          note("ended", process->birth, message.error.has_value());
          if (process->name == kChiefNode && !(message.error && message.error->code == Code::kCancelled)) {
            if (message.error) findings_.push_back("the run ended: " + message.error->message);
            ended_ = message;
            end();
            return;
          }
          end_by_itself(process->birth);
        },
        [process](const CheckpointDone& message) {
          if (process->checkpoint_done) process->checkpoint_done(message);
        },
        [process](const std::string& message) {
          if (process->status_done) process->status_done(message);
        },
        [self, process](checkpoint_atom) {
          self->send(process->chief, checkpoint_atom::value, caf::timespan(std::chrono::seconds(2)));
        },
        [self, process](status_atom) { self->send(process->chief, status_atom::value); },
        [](stop_atom) {},
    };
  };
  // CAF would bind a reference to null for a function without arguments.
  process->listener = process->system.spawn(listener, 0);

  tell(*process);
  if (leads) {
    tell_chief(*process);
    process->chief = process->system.spawn<ChiefActor>(process->options, *options_.topology, process->clock,
                                                       disk_.journal, process->listener);
    resume = false;  // its next process goes on with the run
  }
  const NodeTools tools{*options_.topology, process->clock, process->pool, process->routes, process->groups};
  process->hands = process->system.spawn<NodeActor>(process->options, tools, process->chief, process->listener);
  if (!leads) line(*process, kChiefNode, kChiefPort, 0);
  watch_node(node);
}

/// What a process is told of its run.
void Simulation::tell(Process& process) {
  RuntimeOptions& options = process.options;
  options.seed = options_.seed;
  options.deterministic = true;
  options.report_period = options_.report_period;
  options.cut_deadline = options_.cut_deadline;
  options.checkpoint_period = options_.checkpoint_period;
  options.membership = options_.membership;
  options.write_cut = [this, &process](std::shared_ptr<const Cut> cut) -> Status {
    if (const auto dies = dies_in_write_.find(process.name); dies != dies_in_write_.end()) {
      process.dying = true;
      at(now_, [this, node = process.name, pause = dies->second] { kill(node, pause); });
      dies_in_write_.erase(dies);
      if (rng_.below(2) == 0) return Error{Code::kIo, "killed"};
    }
    if (!process.alive || failing_disks_.contains(process.name)) {
      return Error{Code::kIo, "no space left on the simulated disk"};
    }
    disk_.shards[process.name][cut->number] = std::move(cut);
    return {};
  };
  NodeOptions& node = options.node;
  node.network = &process.network;
  node.self = {"simulated", {}, process.name};
  if (!options_.directory.empty()) node.directory = options_.directory / process.name;
  node.load = [this](const std::string& instance,
                     std::uint64_t number) -> Result<std::shared_ptr<const InstanceState>> {
    for (const auto& [name, shards] : disk_.shards) {
      const auto shard = shards.find(number);
      if (shard == shards.end() || disk_.damaged.contains({name, number})) continue;
      for (const Cut::Instance& saved : shard->second->instances) {
        if (saved.name != instance) continue;
        loads_.emplace_back(instance, number);
        return saved.state;
      }
    }
    findings_.push_back(fmt::format("cut {} has no state of {}", number, instance));
    return Error{Code::kCorrupt, "no state"};
  };
  node.parts.keep = [this, &process](const std::vector<std::uint64_t>& numbers) {
    if (!process.alive) return;
    std::erase_if(disk_.shards[process.name], [&](const auto& shard) {
      return shard.first < std::ranges::max(numbers) && std::ranges::find(numbers, shard.first) == numbers.end();
    });
  };
  node.parts.check = [this, &process](std::uint64_t number, const std::string&) -> Status {
    if (disk_.shards[process.name].contains(number) && !disk_.damaged.contains({process.name, number})) return {};
    return Error{Code::kCorrupt, "damaged on the simulated disk"};
  };
  node.orphaned_after = options_.orphaned_after;
  node.on_lost = [this, &process](const std::string&) { end_by_itself(process.birth); };
  node.birth = process.birth;
  node.address = {process.name, 0, process.name, process.port};
  node.elastic_instances = options_.elastic_instances;
  for (const RoleSpec& role : options_.topology->roles) {
    if (role.elastic) node.self.roles.push_back(role.name);
  }
  for (const PlacedNode& placed : options_.placement) {
    if (placed.name != process.name) continue;
    for (const PlacedNode::Share& share : placed.shares) node.self.roles.push_back(share.role);
  }
}

/// What the chief's process is told beside that.
void Simulation::tell_chief(Process& process) {
  ChiefOptions& chief = process.options.chief;
  chief.placement = options_.placement;
  if (resume) {
    chief.resume_from = disk_.cuts;
  } else if (!disk_.cuts.empty()) {
    chief.committed = disk_.cuts.front();
  }
  chief.journal.save = [this, &process](const ChiefJournal& journal) -> Status {
    if (process.alive && !process.dying) disk_.journal = journal;
    return {};
  };
  chief.journal.load = [this]() -> Result<ChiefJournal> { return disk_.journal; };
  chief.commit = [this, &process](const CommittedCut& cut) -> Status {
    const std::uint64_t number = cut.number;
    if (!process.alive || process.dying) return Error{Code::kCancelled, "dead"};
    note("commit", number, process.birth);
    if (number <= disk_.committed()) {
      findings_.push_back(fmt::format("cut {} was committed after cut {}", number, disk_.committed()));
    }
    std::vector<std::shared_ptr<const Cut>> shards;
    for (const CutPart& part : cut.parts) {
      const std::string& node = part.node;
      const auto& all = disk_.shards[node];
      const auto shard = all.find(number);
      if (shard == all.end()) {
        findings_.push_back(fmt::format("cut {} was committed without the shard of {}", number, node));
        continue;
      }
      shards.push_back(shard->second);
    }
    disk_.cuts.insert(disk_.cuts.begin(), cut);
    for (CutPart& part : disk_.cuts.front().parts) part.here = part.node == kChiefNode;  // a disk for each host
    if (disk_.cuts.size() > 2) disk_.cuts.resize(2);
    if (on_commit) on_commit(shards);
    if (dies_after_commit_) {
      process.dying = true;
      at(now_, [this, pause = *std::exchange(dies_after_commit_, std::nullopt)] { kill(kChiefNode, pause); });
    }
    return {};
  };
  chief.kept = [this] {
    std::vector<std::uint64_t> numbers;
    for (const CommittedCut& cut : disk_.cuts) numbers.push_back(cut.number);
    return numbers;
  };
  chief.resumed_from = [this](std::uint64_t number) -> Status {
    std::erase_if(disk_.cuts, [&](const CommittedCut& cut) { return cut.number > number; });
    return {};
  };
}

/// The process is gone at once; nobody hears a word of it any more but what was on its way.
void Simulation::exit(Process& process) {
  process.alive = false;
  note("exit", process.birth, 0);
  note_timer(process);
  const auto listens = ports_.find({process.name, process.port});
  listens->second.erase(process.birth);
  if (listens->second.empty()) ports_.erase(listens);
  const std::set<std::uint64_t> lanes = lanes_of_[process.name];
  for (const std::uint64_t id : lanes) {
    Lane& lane = *lanes_.at(id);
    if (lane.from != process.birth) continue;
    lane.orphan = true;
    lane.control = nullptr;
    const std::size_t arrive = lane.queue.empty() ? 0 : rng_.below(lane.queue.size() + 1);
    lane.queue.resize(arrive);
    if (lane.queue.empty()) remove(lane);
  }
  for (const auto& [key, id] : process.lines) {
    lines_of_[process.name].erase(id);
    lines_of_[key.first].erase(id);
    lines_.erase(id);
  }
  if (process.chief) {
    caf::anon_send(process.chief, stop_atom::value);
    caf::anon_send(process.chief, stop_atom::value, true);
  }
  caf::anon_send(process.hands, stop_atom::value, true);
  while (process.scheduler().try_run_once()) {
  }
  caf::anon_send_exit(process.listener, caf::exit_reason::user_shutdown);
  process.chief = process.hands = process.listener = nullptr;
  while (process.scheduler().try_run_once()) {
  }
  process.routes.clear();
  process.system.clock().cancel_all();
  watch_node(process.name);
}

void Simulation::end_by_itself(std::uint64_t birth) {
  at(now_, [this, birth] {
    Process& ended = *processes_.at(birth);
    if (!ended.alive) return;
    const bool again = current(ended.name) == &ended && wanted_.contains(ended.name);
    exit(ended);
    if (!again || over_) return;
    at(now_ + random(kLaunchLeast, kLaunchMost), [this, node = ended.name] {
      if (wanted_.contains(node) && current(node) == nullptr && !over_) spawn(node);
    });
  });
}

void Simulation::kill(const std::string& node, Duration pause) {
  Process* const process = current(node);
  if (process == nullptr) return;
  exit(*process);
  if (pause < Duration::zero()) {
    wanted_.erase(node);
    return;
  }
  at(now_ + pause, [this, node] {
    if (wanted_.contains(node) && current(node) == nullptr && !over_) spawn(node);
  });
}

void Simulation::stop(const std::string& node) {
  if (Process* const process = current(node)) {
    process->stopped = true;
    note("stop", process->birth, 0);
    note_timer(*process);
    watch_node(node);
  }
}

void Simulation::resume_process(const std::string& node) {
  for (auto& [birth, process] : processes_) {
    if (process->name != node) continue;
    process->stopped = false;
    wake(*process);
  }
  watch_node(node);
}

void Simulation::replace(const std::string& node, Duration pause) {
  Process* const process = current(node);
  if (process == nullptr || over_) return;
  process->stopped = true;
  note("replace", process->birth, 0);
  note_timer(*process);
  at(now_ + pause, [this, birth = process->birth] {
    Process& woken = *processes_.at(birth);
    woken.stopped = false;
    wake(woken);
    watch_node(woken.name);
  });
  spawn(node);
}

void Simulation::reap(const std::string& node) {
  for (auto& [birth, process] : processes_) {
    if (process->alive && process->name == node && process.get() != current(node)) exit(*process);
  }
}

void Simulation::leave(const std::string& node) {
  wanted_.erase(node);
  if (Process* const process = current(node)) {
    caf::anon_send(process->hands, stop_atom::value);
    wake(*process);
  }
}

std::string Simulation::describe() const {
  std::string text;
  for (const auto& [birth, process] : processes_) {
    if (!process->alive) continue;
    text += fmt::format("{} (process {}{}) knows", process->name, birth, process->stopped ? ", stopped" : "");
    for (const auto& [name, node] : process->known) text += fmt::format(" {}/{}:{}", name, node.incarnation, node.port);
    text += fmt::format("; listens on {}\n", process->port);
  }
  for (const auto& [id, lane] : lanes_) {
    if (lane->queue.empty()) continue;
    text += fmt::format("lane {} of process {} to {}: {} messages\n", id, lane->from, lane->node, lane->queue.size());
  }
  return text;
}

// ---- the run ----

void Simulation::checkpoint(std::function<void(const CheckpointDone&)> done) {
  Process* const chief = current(kChiefNode);
  if (chief == nullptr) return;
  chief->checkpoint_done = std::move(done);
  caf::anon_send(chief->listener, checkpoint_atom::value);
  wake(*chief);
}

void Simulation::status(std::function<void(const std::string&)> done) {
  Process* const chief = current(kChiefNode);
  if (chief == nullptr) return;
  chief->status_done = std::move(done);
  caf::anon_send(chief->listener, status_atom::value);
  wake(*chief);
}

void Simulation::end() {
  over_ = true;
  Process* const chief = current(kChiefNode);
  if (chief == nullptr) return;
  caf::anon_send(chief->chief, stop_atom::value);
  wake(*chief);
  // The process ends when its chief has told all nodes.
  at(now_ + std::chrono::seconds(4), [this, birth = chief->birth] {
    if (processes_.at(birth)->alive) exit(*processes_.at(birth));
  });
}

}  // namespace troupe::actors::testing
