#include <troupe/actors/role_actor.hpp>

#include <algorithm>

#include <troupe/actors/instance_report.hpp>
#include <troupe/core/check.hpp>
#include <troupe/core/log.hpp>

namespace troupe::actors {
namespace {

template <typename P>
P& find_port(std::vector<std::unique_ptr<P>>& ports, std::string_view name, std::string_view role) {
  for (auto& port : ports) {
    if (port->spec().name == name) return *port;
  }
  TROUPE_CHECK(false, "role {} has no such port: {}", role, name);
}

void add_counts(Report& report, const std::string& port, const PortCounts& counts) {
  report.counters.push_back({"frames/" + port, static_cast<double>(counts.frames)});
  report.counters.push_back({"bytes/" + port, static_cast<double>(counts.bytes)});
  report.counters.push_back({"wait_s/" + port, seconds(counts.waited)});
}

/// An instance that is idle for so long, though its work never ends, is worth a line in the log.
constexpr Duration kStallWarning = std::chrono::seconds(30);

}  // namespace

RoleActor::RoleActor(caf::actor_config& config, InstanceOptions options, caf::actor supervisor)
    : caf::event_based_actor(config),
      options_(std::move(options)),
      spec_(*options_.topology->find(options_.identity.role)),
      supervisor_(std::move(supervisor)) {
  sender_.frame = [this](const caf::actor& to, FrameMessage message) {
    send(to, frame_atom::value, std::move(message));
  };
  sender_.credit = [this](const caf::actor& to, EdgeId edge) { send(to, credit_atom::value, edge); };
  sender_.call = [this](const caf::actor& to, CallMessage message) { send(to, call_atom::value, std::move(message)); };
  sender_.answer = [this](const caf::actor& to, AnswerMessage m) { send(to, answer_atom::value, std::move(m)); };
  sender_.now = [this] { return options_.clock->now(); };
  // One timer for the soonest deadline, not one a call: calls are many, and almost all are answered long before.
  sender_.expire_at = [this](Duration at) {
    if (expire_armed_ && *expire_armed_ <= at) return;
    expire_armed_ = at;
    delayed_send(this, std::max(at - options_.clock->now(), Duration::zero()), expire_atom::value);
  };
  for (const Port& port : spec_.inlets) {
    if (port.kind == ChannelKind::kRequest) {
      servers_.push_back(std::make_unique<ServerPort>(port, sender_));
    } else {
      inlets_.push_back(std::make_unique<InletPort>(port, sender_));
    }
  }
  for (const Port& port : spec_.outlets) {
    if (port.kind == ChannelKind::kRequest) {
      callers_.push_back(std::make_unique<CallerPort>(port, sender_));
    } else {
      outlets_.push_back(std::make_unique<OutletPort>(port, sender_));
    }
  }
  set_exception_handler([this](caf::scheduled_actor*, std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& exception) {
      fail(Error{Code::kInternal, std::string("exception: ") + exception.what()});
    } catch (...) {
      fail(Error{Code::kInternal, "unknown exception"});
    }
    return caf::exit_reason::unhandled_exception;
  });
}

RoleActor::~RoleActor() = default;

void RoleActor::on_exit() {
  role_.reset();
  inlets_.clear();
  outlets_.clear();
  callers_.clear();
  servers_.clear();
  reports_.reset();
  supervisor_ = nullptr;
}

caf::behavior RoleActor::make_behavior() {
  return {
      [this](frame_atom, FrameMessage& message) {
        for (auto& inlet : inlets_) {
          if (inlet->takes(message.edge)) {
            inlet->receive(std::move(message));
            return poke();
          }
        }
      },
      [this](credit_atom, const EdgeId& edge) {
        const caf::actor_addr from = caf::actor_cast<caf::actor_addr>(current_sender());
        if (edge.channel == kReportChannel) return reports_->credit(edge, from);
        for (auto& outlet : outlets_) outlet->credit(edge, from);
        poke();
      },
      [this](call_atom, CallMessage& message) {
        const std::string& port = options_.topology->channels[message.edge.channel].to_port;
        find_port(servers_, port, spec_.name)
            .receive(std::move(message), caf::actor_cast<caf::actor>(current_sender()));
        poke();
      },
      [this](answer_atom, AnswerMessage& message) {
        const std::string& port = options_.topology->channels[message.edge.channel].from_port;
        if (find_port(callers_, port, spec_.name).answer(std::move(message))) poke();
      },
      [this](expire_atom) {
        expire_armed_.reset();
        bool any = false;
        for (auto& caller : callers_) any |= caller->expire();
        if (any) poke();
      },
      [this](step_atom) {
        step_coming_ = false;
        poke();
      },
      [this](wake_atom, std::uint64_t generation) {
        if (generation == wake_generation_) poke();
      },
      [this](report_atom) {
        report();
        delayed_send(this, options_.report_period, report_atom::value);
      },
      [this](wire_atom, const Wiring& wiring) { wire(wiring); },
      [this](rewire_atom, const EdgeId& edge, const caf::actor& actor) { rewire(edge, actor); },
      [this](start_atom) { start(); },
      [this](pause_atom) {
        paused_ = true;
        send(supervisor_, paused_atom::value, options_.instance);
      },
      [this](resume_atom) {
        paused_ = false;
        poke();
      },
      [this](save_atom) { save(); },
      [this](stop_atom) { quit(); },
  };
}

Inlet& RoleActor::in(std::string_view port) { return find_port(inlets_, port, spec_.name); }
Outlet& RoleActor::out(std::string_view port) { return find_port(outlets_, port, spec_.name); }
Caller& RoleActor::caller(std::string_view port) { return find_port(callers_, port, spec_.name); }
Server& RoleActor::server(std::string_view port) { return find_port(servers_, port, spec_.name); }

void RoleActor::wake_after(Duration delay) { delayed_send(this, delay, wake_atom::value, ++wake_generation_); }

std::int64_t RoleActor::capacity(const EdgeId& edge) const {
  return edge.channel == kReportChannel ? 1 : options_.topology->channels[edge.channel].capacity;
}

void RoleActor::wire(const Wiring& wiring) {
  for (const Peer& peer : wiring.producers) {
    for (auto& inlet : inlets_) {
      if (inlet->spec().name == peer.port) inlet->add_producer(peer);
    }
    for (auto& server : servers_) {
      if (server->spec().name == peer.port) server->add_caller(capacity(peer.edge));
    }
  }
  for (const Peer& peer : wiring.consumers) {
    if (peer.edge.channel == kReportChannel) {
      reports_ = std::make_unique<OutletPort>(Port{"reports", "Metrics", ChannelKind::kLatest}, sender_);
      reports_->add_consumer(peer, 1, 0);
      continue;
    }
    std::int64_t used = 0;
    if (options_.frames_under_way) {
      used = std::count(options_.frames_under_way->begin(), options_.frames_under_way->end(), peer.edge);
    }
    for (auto& outlet : outlets_) {
      if (outlet->spec().name == peer.port) outlet->add_consumer(peer, capacity(peer.edge), used);
    }
    for (auto& caller : callers_) {
      if (caller->spec().name == peer.port) caller->add_server(peer, capacity(peer.edge));
    }
  }
}

void RoleActor::rewire(const EdgeId& edge, const caf::actor& actor) {
  for (auto& inlet : inlets_) inlet->rewire(edge, actor);
  for (auto& outlet : outlets_) outlet->rewire(edge, actor);
  for (auto& caller : callers_) caller->rewire(edge, actor);
  if (reports_) reports_->rewire(edge, actor);
  poke();
}

void RoleActor::start() {
  auto made = spec_.make(options_.identity);
  if (!made.ok()) return fail(made.error());
  role_ = std::move(made).value();
  if (options_.state) {
    if (Status restored = role_->restore(options_.state->role); !restored.ok()) return fail(restored.error());
    for (const auto& [edge, frame] : options_.state->waiting) {
      for (auto& inlet : inlets_) {
        if (inlet->takes(edge)) inlet->receive({edge, frame});
      }
    }
    options_.state.reset();
  }
  running_ = true;
  if (reports_ && options_.report_period > Duration::zero()) {
    delayed_send(this, options_.report_period, report_atom::value);
  }
  poke();
}

void RoleActor::poke() {
  if (running_ && !paused_ && !done_ && !step_coming_) step();
}

void RoleActor::step() {
  count_waits();
  Result<Progress> progress = role_->step(*this);
  if (!progress.ok()) return fail(progress.error());
  switch (*progress) {
    case Progress::kMore:
      step_coming_ = true;
      send(this, step_atom::value);
      return;
    case Progress::kIdle:
      idle_since_ = options_.clock->now();
      return;
    case Progress::kDone:
      done_ = true;
      send(supervisor_, done_atom::value, options_.instance);
      return;
  }
}

void RoleActor::count_waits() {
  if (idle_since_ < Duration::zero()) return;
  const Duration waited = options_.clock->now() - idle_since_;
  idle_since_ = Duration{-1};
  for (auto& inlet : inlets_) {
    if (inlet->empty()) inlet->counts().waited += waited;
  }
  for (auto& outlet : outlets_) {
    if (!outlet->ready()) outlet->counts().waited += waited;
  }
}

void RoleActor::fail(Error error) {
  running_ = false;
  error.message = options_.identity.name() + ": " + error.message;
  send(supervisor_, failed_atom::value, Failure{options_.instance, std::move(error)});
  quit(caf::exit_reason::unhandled_exception);
}

void RoleActor::save() {
  SavedMessage answer{options_.instance, std::nullopt, nullptr};
  auto state = std::make_shared<InstanceState>();
  if (role_) {
    if (auto saved = role_->save(); saved.ok()) {
      state->role = std::move(saved).value();
    } else {
      answer.error = saved.error();
    }
  }
  for (auto& inlet : inlets_) {
    for (const InletPort::Waiting& waiting : inlet->waiting()) {
      const FrameMessage& message = waiting.message;
      if (message.edge.channel != kReportChannel) state->waiting.emplace_back(message.edge, message.frame);
    }
  }
  answer.state = std::move(state);
  send(supervisor_, saved_atom::value, std::move(answer));
}

void RoleActor::report() {
  if (!running_) return;
  warn_when_stalled();
  InstanceReport content{options_.identity.role, options_.identity.index, {}};
  role_->report(content.content);
  for (auto& inlet : inlets_) {
    content.content.gauges.push_back({"depth/" + inlet->spec().name, static_cast<double>(inlet->depth())});
    add_counts(content.content, inlet->spec().name, inlet->counts());
  }
  for (auto& outlet : outlets_) add_counts(content.content, outlet->spec().name, outlet->counts());
  auto frame = make_instance_report(*options_.pool, content);
  if (!frame.ok()) return log::warn("{}: report dropped: {}", options_.identity.name(), frame.error().message);
  reports_->send(std::move(frame).value());
}

void RoleActor::warn_when_stalled() {
  if (idle_since_ < Duration::zero() || done_ || paused_) return;
  const Duration now = options_.clock->now();
  if (now - std::max(idle_since_, stall_warned_) < kStallWarning) return;
  std::string reason = role_->waiting_for();
  for (auto& outlet : outlets_) {
    if (!outlet->ready()) reason += " outlet " + outlet->spec().name + " has no room;";
  }
  for (auto& inlet : inlets_) {
    // An idle reader of a latest channel is content with the value it has.
    if (inlet->empty() && inlet->spec().kind == ChannelKind::kStream)
      reason += " inlet " + inlet->spec().name + " is empty;";
  }
  if (reason.empty()) return;
  stall_warned_ = now;
  log::warn("{} waits for {:.0f} s: {}", options_.identity.name(), seconds(now - idle_since_), reason);
}

}  // namespace troupe::actors
