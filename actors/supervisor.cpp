#include <troupe/actors/supervisor.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/log.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::actors {

Supervisor::Supervisor(caf::actor_config& config, SupervisorActorOptions options, caf::actor listener)
    : caf::event_based_actor(config), options_(std::move(options)), listener_(std::move(listener)) {
  for (const RoleSpec& role : options_.topology->roles) {
    for (std::int64_t index = 0; index < role.count; ++index) {
      Instance instance;
      instance.identity = {role.name, index, role.count, 0,
                           derive_seed(options_.seed, role.name, static_cast<std::uint64_t>(index))};
      instance.spec = &role;
      instances_.push_back(std::move(instance));
    }
  }
  set_down_handler([this](const caf::down_msg& down) { went_down(down.source, down.reason); });
}

caf::behavior Supervisor::make_behavior() {
  start_all();
  return {
      [this](done_atom, std::uint32_t number) { finished(number); },
      [this](failed_atom, const Failure& failure) { instances_[failure.instance].failure = failure.error; },
      [this](paused_atom, std::uint32_t number) { instance_paused(number); },
      [this](saved_atom, const SavedMessage& message) { instance_saved(message); },
      [this](retry_atom, std::uint32_t number) { restart(number); },
      [this](cut_atom) {
        auto promise = make_response_promise();
        if (cut_) {
          promise.deliver(CutMessage{Error{Code::kUnavailable, "cut: another is under way"}, {}});
          return promise;
        }
        cut_.emplace();
        cut_->promise = promise;
        begin_cut();
        return promise;
      },
      [this](tick_atom, std::uint64_t cut_number) {
        if (!cut_ || cut_->number != cut_number) return;
        std::vector<std::string> silent;
        for (std::size_t i = 0; i < instances_.size(); ++i) {
          if (!cut_->answered[i]) silent.push_back(instances_[i].identity.name());
        }
        end_cut(Error{Code::kDeadlineExceeded,
                      fmt::format("cut: no answer to {} within {:.0f} s from {}", cut_->saving ? "save" : "pause",
                                  seconds(options_.cut_deadline), fmt::join(silent, ", "))});
      },
      [this](stop_atom) {
        ended_ = true;
        for (const Instance& instance : instances_) {
          if (instance.up) send(instance.actor, stop_atom::value);
        }
        quit();
      },
  };
}

void Supervisor::on_exit() {
  instances_.clear();
  cut_.reset();
  listener_ = nullptr;
}

std::vector<std::uint32_t> Supervisor::instances_of(const std::string& role) const {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < instances_.size(); ++i) {
    if (instances_[i].identity.role == role) numbers.push_back(i);
  }
  return numbers;
}

Wiring Supervisor::wiring_of(std::uint32_t number) const {
  const Instance& self = instances_[number];
  const auto own = static_cast<std::uint32_t>(self.identity.index);
  Wiring wiring;
  auto peer = [&](std::uint32_t other, EdgeId edge, const std::string& port) {
    return Peer{edge, port, instances_[other].actor};
  };
  for (std::uint32_t c = 0; c < options_.topology->channels.size(); ++c) {
    const ChannelSpec& channel = options_.topology->channels[c];
    if (channel.to_role == self.identity.role) {
      for (std::uint32_t other : instances_of(channel.from_role)) {
        const auto index = static_cast<std::uint32_t>(instances_[other].identity.index);
        wiring.producers.push_back(peer(other, EdgeId{c, index, own}, channel.to_port));
      }
    }
    if (channel.from_role == self.identity.role) {
      for (std::uint32_t other : instances_of(channel.to_role)) {
        const auto index = static_cast<std::uint32_t>(instances_[other].identity.index);
        wiring.consumers.push_back(peer(other, EdgeId{c, own, index}, channel.from_port));
      }
    }
  }
  if (const auto& reports = options_.topology->reports) {
    const std::uint32_t collector = instances_of(reports->role).front();
    if (collector == number) {
      for (std::uint32_t other = 0; other < instances_.size(); ++other) {
        wiring.producers.push_back(peer(other, EdgeId{kReportChannel, other, 0}, reports->port));
      }
    }
    wiring.consumers.push_back(peer(collector, EdgeId{kReportChannel, number, 0}, "reports"));
  }
  return wiring;
}

void Supervisor::spawn_instance(std::uint32_t number, std::shared_ptr<const InstanceState> state,
                                std::shared_ptr<const std::vector<EdgeId>> under_way) {
  Instance& instance = instances_[number];
  InstanceOptions options{number,        instance.identity,      options_.topology, options_.clock,
                          options_.pool, options_.report_period, std::move(state),  std::move(under_way)};
  const caf::actor self = caf::actor_cast<caf::actor>(this);
  if (instance.spec->execution == Execution::kThread && !options_.single_threaded) {
    instance.actor = spawn<RoleActor, caf::detached>(std::move(options), self);
  } else {
    instance.actor = spawn<RoleActor>(std::move(options), self);
  }
  instance.up = true;
  instance.failure.reset();
  monitor(instance.actor);
}

void Supervisor::start_all() {
  auto under_way = std::make_shared<std::vector<EdgeId>>();
  if (options_.resume_from) {
    for (const auto& state : options_.resume_from->instances) {
      if (!state) continue;
      for (const auto& [edge, frame] : state->waiting) under_way->push_back(edge);
    }
  }
  for (std::uint32_t i = 0; i < instances_.size(); ++i) {
    spawn_instance(i, options_.resume_from ? options_.resume_from->instances[i] : nullptr, under_way);
  }
  for (std::uint32_t i = 0; i < instances_.size(); ++i) send(instances_[i].actor, wire_atom::value, wiring_of(i));
  for (const Instance& instance : instances_) send(instance.actor, start_atom::value);
}

void Supervisor::went_down(const caf::actor_addr& address, const caf::error& reason) {
  auto found = std::find_if(instances_.begin(), instances_.end(), [&](const Instance& instance) {
    return instance.up && instance.actor.address() == address;
  });
  if (found == instances_.end() || ended_) return;
  Instance& instance = *found;
  const auto number = static_cast<std::uint32_t>(found - instances_.begin());
  instance.up = false;
  const Error error = instance.failure.value_or(
      Error{Code::kInternal, fmt::format("{} went down: {}", instance.identity.name(), system().render(reason))});
  const RestartPolicy& policy = instance.spec->restart;
  if (instance.restarts >= policy.max_restarts) {
    const std::string budget = policy.max_restarts == 0 ? "" : fmt::format(" (after {} restarts)", instance.restarts);
    return end_run(Error{error.code, error.message + budget});
  }
  // Doubling stops early, before it could overflow.
  Duration backoff = policy.first_backoff;
  for (int i = 0; i < instance.restarts && backoff < policy.max_backoff; ++i) backoff *= 2;
  backoff = std::min(backoff, policy.max_backoff);
  ++instance.restarts;
  log::warn("{}; restarting it as incarnation {} in {:.1f} s ({} of {})", error.message,
            instance.identity.incarnation + 1, seconds(backoff), instance.restarts, policy.max_restarts);
  if (cut_) end_cut(Error{Code::kUnavailable, fmt::format("cut: {} went down", instance.identity.name())});
  delayed_send(this, backoff, retry_atom::value, number);
}

void Supervisor::restart(std::uint32_t number) {
  if (ended_) return;
  if (cut_) {
    // Coming up in the middle of a cut it would be neither paused nor saved: wait until the cut is over.
    delayed_send(this, std::chrono::milliseconds(10), retry_atom::value, number);
    return;
  }
  Instance& instance = instances_[number];
  ++instance.identity.incarnation;
  spawn_instance(number, nullptr, nullptr);
  const Wiring wiring = wiring_of(number);
  send(instance.actor, wire_atom::value, wiring);
  for (const auto* peers : {&wiring.producers, &wiring.consumers}) {
    for (const Peer& peer : *peers) {
      if (peer.actor != instance.actor) send(peer.actor, rewire_atom::value, peer.edge, instance.actor);
    }
  }
  send(instance.actor, start_atom::value);
}

void Supervisor::finished(std::uint32_t number) {
  instances_[number].done = true;
  const RoleSpec* role = instances_[number].spec;
  if (!role->completes_run) return;
  const bool all = std::all_of(instances_.begin(), instances_.end(),
                               [&](const Instance& instance) { return instance.spec != role || instance.done; });
  if (all) end_run(std::nullopt);
}

void Supervisor::begin_cut() {
  cut_->number = ++cuts_;
  cut_->answered.assign(instances_.size(), false);
  cut_->cut.instances.resize(instances_.size());
  delayed_send(this, options_.cut_deadline, tick_atom::value, cut_->number);
  for (const Instance& instance : instances_) {
    if (!instance.up) {
      return end_cut(Error{Code::kUnavailable, fmt::format("cut: {} is being restarted", instance.identity.name())});
    }
  }
  for (const Instance& instance : instances_) send(instance.actor, pause_atom::value);
}

void Supervisor::instance_paused(std::uint32_t number) {
  if (!cut_ || cut_->saving) return;
  cut_->answered[number] = true;
  if (!std::all_of(cut_->answered.begin(), cut_->answered.end(), [](bool answered) { return answered; })) return;
  cut_->saving = true;
  cut_->answered.assign(instances_.size(), false);
  for (const Instance& instance : instances_) send(instance.actor, save_atom::value);
}

void Supervisor::instance_saved(const SavedMessage& message) {
  if (!cut_ || !cut_->saving) return;
  if (message.error) {
    return end_cut(Error{message.error->code, fmt::format("cut: {}: {}", instances_[message.instance].identity.name(),
                                                          message.error->message)});
  }
  cut_->answered[message.instance] = true;
  cut_->cut.instances[message.instance] = message.state;
  if (std::all_of(cut_->answered.begin(), cut_->answered.end(), [](bool answered) { return answered; })) {
    end_cut(std::nullopt);
  }
}

void Supervisor::end_cut(std::optional<Error> error) {
  PendingCut cut = std::move(*cut_);
  cut_.reset();
  for (const Instance& instance : instances_) {
    if (instance.up) send(instance.actor, resume_atom::value);
  }
  if (error) {
    cut.promise.deliver(CutMessage{std::move(error), nullptr});
  } else {
    cut.promise.deliver(CutMessage{std::nullopt, std::make_shared<const Cut>(std::move(cut.cut))});
  }
}

void Supervisor::end_run(std::optional<Error> error) {
  if (ended_) return;
  ended_ = true;
  if (cut_ && error) end_cut(Error{Code::kCancelled, "cut: the run has failed"});
  send(listener_, ended_atom::value, RunEnded{std::move(error)});
}

}  // namespace troupe::actors
