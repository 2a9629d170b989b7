#include <troupe/actors/runtime/role_actor.hpp>

#include <algorithm>

#include <troupe/actors/runtime/cut_listener.hpp>
#include <troupe/actors/runtime/group_seat.hpp>
#include <troupe/actors/runtime/instance_report.hpp>
#include <troupe/core/check.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/thread_priority.hpp>
#include <troupe/core/worth_a_line.hpp>

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
  report.counters.push_back({kPortFrames + port, static_cast<double>(counts.frames)});
  report.counters.push_back({kPortBytes + port, static_cast<double>(counts.bytes)});
  report.counters.push_back({kPortWaitedS + port, seconds(counts.waited)});
  report.counters.push_back({kPortRefused + port, static_cast<double>(counts.refused)});
}

/// An instance that is idle for so long, though its work never ends, is worth a line in the log.
constexpr Duration kStallWarning = std::chrono::seconds(30);

}  // namespace

RoleActor::RoleActor(caf::actor_config& config, InstanceOptions options, caf::actor node)
    : caf::event_based_actor(config),
      options_(std::move(options)),
      spec_(*options_.topology->find(options_.identity.role)),
      name_(options_.identity.name()),
      node_(std::move(node)),
      sender_(make_sender()),
      reports_(std::make_unique<OutletPort>(Port{"reports", "Metrics", ChannelKind::kLatest}, sender_)) {
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
  for (std::uint32_t c = 0; c < options_.topology->channels.size(); ++c) {
    const ChannelSpec& channel = options_.topology->channels[c];
    if (channel.from_role != spec_.name) continue;
    const auto own = static_cast<std::uint32_t>(options_.identity.index);
    const auto count = static_cast<std::uint32_t>(options_.topology->find(channel.to_role)->count);
    for (auto& outlet : outlets_) {
      if (outlet->spec().name != channel.from_port) continue;
      for (std::uint32_t i = 0; i < count; ++i) outlet->expect({c, own, i});
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

PortSender RoleActor::make_sender() {
  PortSender sender;
  sender.incarnation = static_cast<std::uint32_t>(options_.identity.incarnation);
  // To an actor of this node by its mailbox, to another node through the network.
  auto deliver = [this](auto atom, const Address& to, auto message) {
    if (to.actor) {
      send(to.actor, atom, std::move(message));
    } else if (options_.network != nullptr) {
      options_.network->send(to.node, std::move(message));
    }
  };
  sender.frame = [this, deliver](const Address& to, FrameMessage m) {
    if (may_be_sent(m.route.edge.channel, m.frame)) deliver(frame_atom::value, to, std::move(m));
  };
  sender.credit = [deliver](const Address& to, CreditMessage m) { deliver(credit_atom::value, to, m); };
  sender.call = [this, deliver](const Address& to, CallMessage m) {
    if (may_be_sent(m.route.edge.channel, m.frame)) deliver(call_atom::value, to, std::move(m));
  };
  sender.answer = [this, deliver](const Address& to, AnswerMessage m) {
    if (m.error || may_be_sent(m.route.edge.channel, m.frame, true)) deliver(answer_atom::value, to, std::move(m));
  };
  sender.now = [this] { return options_.clock->now(); };
  // One timer for the soonest deadline, not one a call: calls are many, and almost all are answered long before.
  sender.expire_at = [this](Duration at) {
    if (expire_armed_ && *expire_armed_ <= at) return;
    expire_armed_ = at;
    delayed_send(this, std::max(at - options_.clock->now(), Duration::zero()), expire_atom::value);
  };
  return sender;
}

bool RoleActor::may_be_sent(std::uint32_t channel, const Frame& frame, bool is_answer) {
  if (channel == kReportChannel || options_.topology->messages.empty()) return true;
  const ChannelSpec& through = options_.topology->channels[channel];
  const auto& ports = is_answer ? spec_.inlets : spec_.outlets;
  const auto port = std::ranges::find(ports, is_answer ? through.to_port : through.from_port, &Port::name);
  const std::string& type = is_answer ? port->answer_type() : port->type;
  const messages::MessageType* const own = options_.topology->find_message(type);
  if (own == nullptr) return true;
  const Status fits = messages::check_size(*own, frame);
  if (!fits.ok() && !unsendable_) {
    unsendable_ = Error{fits.error().code, fmt::format("sent on {}: {}", port->name, fits.error().message)};
  }
  return fits.ok();
}

void RoleActor::on_exit() {
  role_.reset();
  inlets_.clear();
  outlets_.clear();
  callers_.clear();
  servers_.clear();
  reports_.reset();
  node_ = nullptr;
}

caf::behavior RoleActor::make_behavior() {
  send(this, retry_atom::value);  // the role is made inside of a handler, where its exceptions are caught
  return {
      [this](frame_atom, FrameMessage& message) {
        const std::uint32_t channel = message.route.edge.channel;
        const std::string& port =
            channel == kReportChannel ? options_.topology->reports->port : options_.topology->channels[channel].to_port;
        if (find_port(inlets_, port, name_).receive(std::move(message))) poke();
      },
      [this](credit_atom, const CreditMessage& message) {
        const std::uint32_t channel = message.route.edge.channel;
        if (channel == kReportChannel) return reports_->credit(message);
        find_port(outlets_, options_.topology->channels[channel].from_port, name_).credit(message);
        answer_pause();
        poke();
      },
      [this](call_atom, CallMessage& message) {
        const std::string& port = options_.topology->channels[message.route.edge.channel].to_port;
        if (find_port(servers_, port, name_).receive(std::move(message))) poke();
      },
      [this](answer_atom, AnswerMessage& message) {
        const std::string& port = options_.topology->channels[message.route.edge.channel].from_port;
        if (find_port(callers_, port, name_).answer(std::move(message))) poke();
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
      [this](retry_atom) { make_role(); },
      [this](wire_atom, const std::vector<Peer>& peers) { wire(peers); },
      [this](unwire_atom, const EdgeId& edge, bool peer_produces, std::uint32_t incarnation) {
        unwire(edge, peer_produces, incarnation);
        answer_pause();
        poke();  // calls to a server that is gone have ended
      },
      [this](live_atom, const LiveRoles& live) {
        live_ = live;
        poke();
      },
      [this](group_atom) { poke(); },
      [this](start_atom) {
        if (running_ || role_ == nullptr) return;
        running_ = true;
        if (options_.report_period > Duration::zero()) delayed_send(this, options_.report_period, report_atom::value);
        poke();
      },
      [this](pause_atom) {
        paused_ = pause_due_ = true;
        answer_pause();
      },
      [this](resume_atom) {
        paused_ = pause_due_ = false;
        poke();
      },
      [this](save_atom) { save(); },
      [this](committed_atom) {
        if (auto* const listener = dynamic_cast<CutListener*>(role_.get())) listener->committed();
      },
      [this](status_atom) { return status(); },
      [this](stop_atom) { quit(); },
  };
}

Inlet& RoleActor::in(std::string_view port) { return find_port(inlets_, port, name_); }
Outlet& RoleActor::out(std::string_view port) { return find_port(outlets_, port, name_); }
Caller& RoleActor::caller(std::string_view port) { return find_port(callers_, port, name_); }
Server& RoleActor::server(std::string_view port) { return find_port(servers_, port, name_); }

void RoleActor::wake_after(Duration delay) { delayed_send(this, delay, wake_atom::value, ++wake_generation_); }

std::function<void()> RoleActor::waker() {
  return [address = caf::actor_cast<caf::actor_addr>(this)] {
    if (const auto self = caf::actor_cast<caf::actor>(address)) caf::anon_send(self, group_atom::value);
  };
}

bool RoleActor::alive(std::string_view role) const {
  return live_ != nullptr && std::find(live_->begin(), live_->end(), role) != live_->end();
}

void RoleActor::refuse(std::string_view port, const Error& why) {
  if (std::ranges::any_of(servers_, [&](const auto& server) { return server->spec().name == port; })) {
    if (!log::worth_a_line(++refused_)) return;
    log::warn("TRP-S706 {}: a request on {} is refused ({} so far): {}", name_, port, refused_, why.message);
    return;
  }
  InletPort& inlet = find_port(inlets_, port, name_);
  ++inlet.counts().refused;
  if (!log::worth_a_line(++refused_)) return;
  const auto& [edge, node] = inlet.last_sender();
  std::string sender = fmt::format("instance {}", edge.producer);
  if (edge.channel != kReportChannel) {
    const RoleSpec* const role = options_.topology->find(options_.topology->channels[edge.channel].from_role);
    sender = RoleIdentity{role->name, edge.producer, role->count}.name();
  }
  log::warn("TRP-S706 {}: a frame from {} ({}) on {} is refused ({} so far): {}", name_, sender,
            node.empty() ? "this node" : "node " + node, port, refused_, why.message);
}

void RoleActor::make_role() {
  if (options_.ending && *options_.ending) return;  // the word to stop is in the mailbox
  if (options_.goes_behind) go_behind();            // and whatever threads the role makes
  auto made = spec_.make(options_.identity);
  if (!made.ok()) return fail(made.error());
  role_ = std::move(made).value();
  if (options_.load) {
    auto loaded = options_.load();
    if (!loaded.ok()) return fail(loaded.error());
    if (const auto& state = *loaded; state != nullptr) {
      if (Status restored = role_->restore(state->role); !restored.ok()) return fail(restored.error());
      for (const auto& [edge, frame] : state->waiting) {
        find_port(inlets_, options_.topology->channels[edge.channel].to_port, name_).restore(edge, frame);
      }
    }
    options_.load = nullptr;
  }
  send(node_, up_atom::value, name_);
}

void RoleActor::wire(const std::vector<Peer>& peers) {
  for (const Peer& peer : peers) wire(peer);
  poke();
}

void RoleActor::wire(const Peer& peer) {
  if (peer.edge.channel == kReportChannel) {
    if (peer.produces) return find_port(inlets_, options_.topology->reports->port, name_).wire(peer, 1);
    return reports_->wire(peer);
  }
  const ChannelSpec& channel = options_.topology->channels[peer.edge.channel];
  if (peer.produces) {
    for (auto& inlet : inlets_) {
      if (inlet->spec().name == channel.to_port) inlet->wire(peer, channel.capacity);
    }
    for (auto& server : servers_) {
      if (server->spec().name == channel.to_port) server->wire(peer, channel.capacity);
    }
  } else {
    for (auto& outlet : outlets_) {
      if (outlet->spec().name == channel.from_port) outlet->wire(peer);
    }
    for (auto& caller : callers_) {
      if (caller->spec().name == channel.from_port) caller->wire(peer, channel.capacity);
    }
  }
}

void RoleActor::unwire(const EdgeId& edge, bool peer_produces, std::uint32_t incarnation) {
  if (peer_produces) {
    for (auto& inlet : inlets_) inlet->unwire(edge, incarnation);
    for (auto& server : servers_) server->unwire(edge, incarnation);
  } else {
    for (auto& outlet : outlets_) outlet->unwire(edge, incarnation);
    for (auto& caller : callers_) caller->unwire(edge, incarnation);
    reports_->unwire(edge, incarnation);
  }
}

void RoleActor::poke() {
  if (running_ && !paused_ && !done_ && !step_coming_) step();
}

void RoleActor::step() {
  count_waits();
  if (options_.step_began) options_.step_began->store(options_.clock->now().count(), std::memory_order_relaxed);
  Result<Progress> progress = role_->step(*this);
  if (options_.step_began) options_.step_began->store(-1, std::memory_order_relaxed);
  if (const auto& seat = options_.identity.group) {
    if (const auto broken = seat->take_broken()) {
      send(node_, group_atom::value, name_, broken->first, broken->second);
    }
  }
  if (!progress.ok()) return fail(progress.error());
  if (unsendable_) return fail(*unsendable_);
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
      send(node_, done_atom::value, name_);
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
  error.message = name_ + ": " + error.message;
  send(node_, failed_atom::value, Failure{name_, std::move(error)});
  quit(caf::exit_reason::unhandled_exception);
}

void RoleActor::answer_pause() {
  // What an earlier incarnation of a consumer had not taken would be missing from a cut: it is not on its way yet.
  if (!pause_due_ || !std::all_of(outlets_.begin(), outlets_.end(), [](const auto& o) { return o->settled(); })) return;
  pause_due_ = false;
  send(node_, paused_atom::value, name_);
}

void RoleActor::save() {
  SavedMessage answer{name_, std::nullopt, nullptr};
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
      if (waiting.edge.channel != kReportChannel) state->waiting.emplace_back(waiting.edge, waiting.frame);
    }
  }
  answer.state = std::move(state);
  send(node_, saved_atom::value, std::move(answer));
}

void RoleActor::report() {
  if (!running_) return;
  warn_when_stalled();
  InstanceReport content{options_.identity.role, options_.identity.index, {}};
  role_->report(content.content);
  for (auto& inlet : inlets_) {
    content.content.gauges.push_back({kPortDepth + inlet->spec().name, static_cast<double>(inlet->depth())});
    add_counts(content.content, inlet->spec().name, inlet->counts());
  }
  for (auto& outlet : outlets_) add_counts(content.content, outlet->spec().name, outlet->counts());
  auto frame = make_instance_report(*options_.pool, content);
  if (!frame.ok()) return log::warn("{}: report dropped: {}", name_, frame.error().message);
  reports_->send(std::move(frame).value());
}

InstanceStatus RoleActor::status() const {
  InstanceStatus status;
  status.instance = name_;
  status.paused = paused_;
  status.done = done_;
  Report report;  // as of now: the versions of several instances are compared
  if (role_ != nullptr) role_->report(report);
  for (const Scalar& gauge : report.gauges) {
    if (gauge.name == "version") status.version = static_cast<std::int64_t>(gauge.value);
  }
  const bool idle = running_ && !done_ && idle_since_ >= Duration::zero();
  if (idle) status.idle_s = seconds(options_.clock->now() - idle_since_);
  // Busy or not: replay may take what comes while its limiter lets nobody draw.
  if (running_ && !done_) status.why = role_->waiting_for();
  auto port_status = [&](const auto& port, bool inlet, std::int64_t depth) {
    const PortCounts& counts = port.counts();
    status.ports.push_back({port.spec().name, inlet, depth, counts.frames, counts.bytes, seconds(counts.waited)});
  };
  // An outlet without room holds a role up however much waits in its inlets; a latest channel never does.
  for (const auto& inlet : inlets_) {
    port_status(*inlet, true, inlet->depth());
    if (idle && inlet->empty() && inlet->spec().kind == ChannelKind::kStream && !inlet->spec().always_drained) {
      status.waits_for = inlet->spec().name;
    }
  }
  for (const auto& outlet : outlets_) {
    port_status(*outlet, false, outlet->under_way());
    if (idle && !outlet->ready()) status.waits_for = outlet->spec().name;
  }
  return status;
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
  log::warn("{} waits for {:.0f} s: {}", name_, seconds(now - idle_since_), reason);
}

}  // namespace troupe::actors
