#include "role.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include <troupe/actors/roles/sequence_writer.hpp>
#include <troupe/core/log.hpp>

#include "binding.hpp"
#include "message.hpp"

using namespace nanobind::literals;

// Every CPython has it, though the stable ABI's headers do not declare it: whether this thread holds the lock.
extern "C" int PyGILState_Check();

namespace troupe::python {
namespace {

using actors::Port;
using actors::Progress;
using actors::RoleContext;

/// A thread's state in Python, from its first use of the lock to its end.
class ThreadState {
 public:
  ~ThreadState() {
    if (saved_ == nullptr || Py_IsInitialized() == 0) return;
    PyEval_RestoreThread(saved_);
    PyGILState_Release(first_);
  }
  void take() {
    if (saved_ != nullptr) {
      PyEval_RestoreThread(saved_);
      return;
    }
    first_ = PyGILState_Ensure();
  }
  void leave() { saved_ = PyEval_SaveThread(); }

 private:
  PyGILState_STATE first_{};
  PyThreadState* saved_ = nullptr;
};

thread_local ThreadState thread_state;

/// What step() is given: the context of this one call, behind which there is nothing afterwards.
struct Context {
  RoleContext* now = nullptr;
  std::vector<Port> inlets, outlets;
  std::string name;
  Sender sender;
  Status failed;  ///< what a reply's callback has raised since the step before

  RoleContext& context() const {
    if (now == nullptr) raise({Code::kInvalidArgument, name + ": a context is used outside of step()"});
    return *now;
  }
  const Port& port(const std::vector<Port>& ports, const std::string& wanted, const char* what) const {
    for (const Port& port : ports) {
      if (port.name == wanted) return port;
    }
    raise({Code::kNotFound, name + ": it has no " + what + " \"" + wanted + "\""});
  }
  messages::Frame frame(nb::handle message, const std::string& type) {
    return value_or_raise(to_frame(message, type, context().pool(), sender));
  }
};

/// One end of a channel. Which of the context's four it is, says its port's kind.
struct End {
  std::shared_ptr<Context> of;
  const Port* port = nullptr;
};
struct InletEnd : End {
  actors::Inlet& operator()() const { return of->context().in(port->name); }
};
struct OutletEnd : End {
  actors::Outlet& operator()() const { return of->context().out(port->name); }
};
struct CallerEnd : End {
  actors::Caller& operator()() const { return of->context().caller(port->name); }
};
struct ServerEnd : End {
  actors::Server& operator()() const { return of->context().server(port->name); }
};

template <typename T>
T end_of(const std::shared_ptr<Context>& context, const std::vector<Port>& ports, const std::string& name,
         const char* what, bool request) {
  const Port& port = context->port(ports, name, what);
  if ((port.kind == actors::ChannelKind::kRequest) != request) {
    raise({Code::kInvalidArgument,
           context->name + ": " + what + " \"" + name + "\" is of kind " + std::string(to_string(port.kind))});
  }
  return T{{context, &port}};
}

/// Takes a message, or drops one that makes no sense as every role of ours does, and looks for the next.
nb::object take(const InletEnd& inlet) {
  while (!inlet().empty()) {
    Result<nb::object> message = to_python(inlet().take(), inlet.port->type);
    if (message.ok()) return std::move(message).value();
    inlet.of->context().refuse(inlet.port->name, message.error());
  }
  return nb::none();
}

void send(const OutletEnd& outlet, nb::handle message, std::optional<std::size_t> consumer) {
  if (consumer ? *consumer >= outlet().consumers() || !outlet().ready(*consumer) : !outlet().ready()) {
    raise({Code::kUnavailable,
           outlet.of->name + ": outlet \"" + outlet.port->name + "\" has no room: ask `ready` first"});
  }
  messages::Frame frame = outlet.of->frame(message, outlet.port->type);
  consumer ? outlet().send_to(*consumer, std::move(frame)) : outlet().send(std::move(frame));
}

/// A reply comes on the role's thread, and step() follows it. What the callback raises is raised by that step.
void call(const CallerEnd& caller, nb::handle request, nb::callable reply, double timeout_s) {
  if (!caller().ready()) {
    raise({Code::kUnavailable, caller.of->name + ": \"" + caller.port->name +
                                   "\" has as many calls under way as it may: ask `ready` first"});
  }
  const std::shared_ptr<nb::object> kept = shared(std::move(reply));
  const auto answered = [kept, of = caller.of, type = caller.port->answer_type()](Result<messages::Frame> answer) {
    const Status called = in_python(of->name + ": a reply", [&]() -> Status {
      Result<nb::object> message = answer.ok() ? to_python(*answer, type) : Result<nb::object>(answer.error());
      message.ok() ? (*kept)(*message, nb::none()) : (*kept)(nb::none(), message.error().message);
      return {};
    });
    if (!called.ok()) of->failed = called;
  };
  caller().call(caller.of->frame(request, caller.port->type), from_seconds(timeout_s), answered);
}

/// The request and what answers it. A request that makes no sense is answered as cancelled, and dropped.
nb::object take_request(const ServerEnd& server) {
  while (!server().empty()) {
    auto [frame, answer] = server().take();
    Result<nb::object> request = to_python(frame, server.port->type);
    if (!request.ok()) {
      server.of->context().refuse(server.port->name, request.error());
      continue;
    }
    const auto once = std::make_shared<std::function<void(messages::Frame)>>(std::move(answer));
    nb::object reply = nb::cpp_function(
        [once, of = server.of, type = server.port->answer_type()](nb::handle message) {
          if (*once == nullptr) raise({Code::kInvalidArgument, of->name + ": a request is answered twice"});
          (*once)(of->frame(message, type));
          *once = nullptr;
        },
        "message"_a.none());
    return nb::make_tuple(*request, reply);
  }
  return nb::none();
}

nb::object identity_object(const actors::RoleIdentity& identity) {
  nb::kwargs fields;
  fields["role"] = identity.role;
  fields["index"] = identity.index;
  fields["count"] = identity.count;
  fields["incarnation"] = identity.incarnation;
  fields["seed"] = identity.seed;
  fields["name"] = identity.name();
  fields["directory"] = identity.directory.string();
  fields["run_directory"] = identity.run_directory.string();
  fields["resumes"] = identity.resumes;
  return nb::module_::import_("troupe.roles").attr("Identity")(**fields);
}

class PythonRole final : public actors::Role {
 public:
  /// With the lock.
  PythonRole(const nb::object& type, const nb::dict& keys, const RoleKind& kind, const actors::RoleIdentity& identity)
      : context_(std::make_shared<Context>()), seen_(nb::cast(context_)) {
    context_->inlets = kind.inlets;
    context_->outlets = kind.outlets;
    context_->name = identity.name();
    context_->sender = {static_cast<std::uint32_t>(identity.index), static_cast<std::uint32_t>(identity.incarnation)};
    self_ = type(keys, identity_object(identity));
    step_ = self_.attr("step");
  }
  ~PythonRole() override {
    const Locked lock;
    step_.reset();
    self_.reset();
    seen_.reset();
  }

  Result<Progress> step(RoleContext& context) override {
    TROUPE_TRY(std::exchange(context_->failed, Status()));
    return in_python(name(), [&]() -> Result<Progress> {
      context_->now = &context;
      const std::shared_ptr<Context> after(context_.get(), [](Context* of) { of->now = nullptr; });
      const nb::object said = step_(seen_);
      return said.is_none() ? Progress::kIdle : cast_or_raise<Progress>(said, "step()", "a troupe.Progress");
    });
  }

  std::string waiting_for() const override {
    const auto said =
        in_python(name(), [&]() -> Result<std::string> { return nb::cast<std::string>(self_.attr("waiting_for")()); });
    return said.ok() ? *said : said.error().message;
  }

  void report(actors::Report& report) const override {
    const Status done = in_python(name(), [&]() -> Status {
      const nb::object said = nb::module_::import_("troupe.roles").attr("as_report")(self_.attr("report")());
      add_scalars(report.counters, said.attr("counters"));
      add_scalars(report.gauges, said.attr("gauges"));
      add_scalars(report.sums, said.attr("sums"));
      return {};
    });
    if (!done.ok() && !std::exchange(complained_, true)) log::error("{}", done.error().message);
  }

  Result<actors::RoleState> save() const override {
    return in_python(name(), [&]() -> Result<actors::RoleState> { return state_of(self_.attr("save")()); });
  }
  Status restore(const actors::RoleState& state) override {
    return in_python(name(), [&]() -> Status {
      self_.attr("restore")(dict_of(state));
      return {};
    });
  }

 private:
  const std::string& name() const { return context_->name; }

  std::shared_ptr<Context> context_;
  nb::object seen_, self_, step_;
  mutable bool complained_ = false;
};

/// One of the values that a key may have.
ConfigValue value_of(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) return nb::cast<std::int64_t>(value);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  const nb::list list(nb::cast<nb::object>(value));
  const auto all = [&](auto is) { return std::ranges::all_of(list, is); };
  if (nb::len(list) > 0 && all([](nb::handle one) { return nb::isinstance<nb::int_>(one); })) {
    return nb::cast<std::vector<std::int64_t>>(list);
  }
  if (nb::len(list) > 0 && all([](nb::handle one) { return nb::isinstance<nb::str>(one); })) {
    return nb::cast<std::vector<std::string>>(list);
  }
  return nb::cast<std::vector<double>>(list);
}

std::vector<Port> ports_of(nb::handle ports) {
  std::vector<Port> made;
  for (const nb::handle port : nb::cast<nb::list>(ports)) {
    Port& one = made.emplace_back();
    one.name = nb::cast<std::string>(port.attr("name"));
    one.type = nb::cast<std::string>(port.attr("type"));
    one.answer = nb::cast<std::string>(port.attr("answer"));
    one.always_drained = nb::cast<bool>(port.attr("always_drained"));
    const auto kind = nb::cast<std::string>(port.attr("kind"));
    for (const auto known :
         {actors::ChannelKind::kStream, actors::ChannelKind::kLatest, actors::ChannelKind::kRequest}) {
      if (kind == to_string(known)) one.kind = known;
    }
    for (const std::string& type : {one.type, one.answer_type()}) {
      if (has_form(type)) continue;
      raise({Code::kInvalidArgument, "port \"" + one.name + "\": only Troupe's own roles speak " + type});
    }
  }
  return made;
}

}  // namespace

Locked::Locked() : held_(PyGILState_Check() == 1) {
  if (!held_) thread_state.take();
}
Locked::~Locked() {
  if (!held_) thread_state.leave();
}

void add_scalars(std::vector<Scalar>& to, nb::handle from) {
  for (const auto& [key, value] : cast_or_raise<nb::dict>(from, "numbers to report", "a dictionary")) {
    const auto name = cast_or_raise<std::string>(key, "the name of a number to report", "a string");
    to.push_back({name, cast_or_raise<double>(value, name, "a number")});
  }
}

actors::RoleState state_of(nb::handle saved) {
  actors::RoleState state;
  for (const auto& [key, value] : cast_or_raise<nb::dict>(saved, "save()", "a dictionary")) {
    const auto name = cast_or_raise<std::string>(key, "save(): a name", "a string");
    if (nb::isinstance<nb::int_>(value)) {
      state.counters.push_back({name, nb::cast<std::int64_t>(value)});
      continue;
    }
    const auto array = nb::cast<Rows>(nb::module_::import_("troupe.arrays").attr("as_column")(value));
    const auto* const begin = static_cast<const std::byte*>(array.data());
    state.tensors.push_back({name,
                             value_or_raise(dtype_of(name, array.dtype())),
                             value_or_raise(shape_of(name, array)),
                             {begin, begin + array.nbytes()}});
  }
  return state;
}

nb::dict dict_of(const actors::RoleState& state) {
  nb::dict saved;
  for (const messages::Counter& counter : state.counters) saved[counter.name.c_str()] = counter.value;
  for (const actors::StateTensor& tensor : state.tensors) {
    const auto [array, memory] = tensor_array({tensor.name, tensor.dtype, tensor.shape}, std::nullopt);
    std::memcpy(memory, tensor.bytes.data(), tensor.bytes.size());
    saved[tensor.name.c_str()] = array;
  }
  return saved;
}

ConfigSchema keys_of(nb::handle keys) {
  ConfigSchema schema;
  for (const nb::handle each : nb::cast<nb::list>(keys)) {
    ConfigKey& key = schema.emplace_back();
    key.path = nb::cast<std::string>(each.attr("name"));
    key.default_value = value_of(each.attr("default"));
    key.doc = nb::cast<std::string>(each.attr("doc"));
    key.unit = nb::cast<std::string>(each.attr("unit"));
    key.min = nb::cast<double>(each.attr("min"));
    key.max = nb::cast<double>(each.attr("max"));
    key.choices = nb::cast<std::vector<std::string>>(each.attr("choices"));
  }
  return schema;
}

nb::dict values_of(const ConfigSection& section, const ConfigSchema& keys) {
  nb::dict values;
  for (const ConfigKey& key : keys) {
    const auto set = [&](const auto& value) { values[key.path.c_str()] = value; };
    std::visit(
        [&](const auto& of) {
          using T = std::decay_t<decltype(of)>;
          if constexpr (std::is_same_v<T, bool>) set(section.get_bool(key.path));
          if constexpr (std::is_same_v<T, std::int64_t>) set(section.get_int(key.path));
          if constexpr (std::is_same_v<T, double>) set(section.get_float(key.path));
          if constexpr (std::is_same_v<T, std::string>) set(section.get_string(key.path));
          if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) set(nb::cast(section.get_ints(key.path)));
          if constexpr (std::is_same_v<T, std::vector<double>>) set(nb::cast(section.get_floats(key.path)));
          if constexpr (std::is_same_v<T, std::vector<std::string>>) set(nb::cast(section.get_strings(key.path)));
        },
        key.default_value);
  }
  return values;
}

RoleKind role_kind(const nb::object& type) {
  const nb::object about = nb::module_::import_("troupe.roles").attr("describe")(type);
  const auto flag = [&](const char* name) { return nb::cast<bool>(about.attr(name)); };
  RoleKind kind;
  kind.doc = nb::cast<std::string>(about.attr("doc"));
  kind.inlets = ports_of(about.attr("inlets"));
  kind.outlets = ports_of(about.attr("outlets"));
  kind.keys = keys_of(about.attr("keys"));
  kind.execution = actors::Execution::kThread;
  kind.restart_from = flag("restart_from_checkpoint") ? actors::RestartFrom::kLastCut : actors::RestartFrom::kNothing;
  kind.quarantine = flag("quarantine");
  kind.completes_run = flag("completes_run");
  kind.elastic = flag("elastic");
  const std::shared_ptr<nb::object> kept = shared(type);
  kind.make = [kept, kind](const ConfigSection& section) -> Result<actors::RoleFactory> {
    return actors::RoleFactory([kept, kind, section](const actors::RoleIdentity& identity) {
      return in_python(identity.name(), [&]() -> Result<std::unique_ptr<actors::Role>> {
        return {std::make_unique<PythonRole>(*kept, values_of(section, kind.keys), kind, identity)};
      });
    });
  };
  return kind;
}

std::shared_ptr<nb::object> shared(nb::object object) {
  // Python counts references under its lock, and nobody knows which thread drops the last one.
  return {new nb::object(std::move(object)), [](nb::object* dropped) {
            const Locked lock;
            delete dropped;
          }};
}

void bind_role(nb::module_& m) {
  using namespace actors;  // NOLINT
  nb::enum_<Progress>(m, "Progress", "What step() says about the next call.")
      .value("MORE", Progress::kMore, "There is more to do now.")
      .value("IDLE", Progress::kIdle, "Nothing until a message or room for one comes, or the time of wake_after().")
      .value("DONE", Progress::kDone, "This instance has finished its work.");
  nb::class_<InletEnd>(m, "Inlet", "The taking end of a channel.")
      .def_prop_ro("empty", [](const InletEnd& inlet) { return inlet().empty(); })
      .def("take", &take,
           "The oldest message (of a `latest` channel the newest), or None when there is none. One that makes no sense "
           "is dropped, counted, and its sender named.");
  nb::class_<OutletEnd>(m, "Outlet", "The sending end of a channel.")
      .def_prop_ro(
          "ready", [](const OutletEnd& outlet) { return outlet().ready(); }, "Whether a consumer has room.")
      .def_prop_ro("consumers", [](const OutletEnd& outlet) { return outlet().consumers(); })
      .def(
          "ready_for",
          [](const OutletEnd& outlet, std::size_t consumer) {
            return consumer < outlet().consumers() && outlet().ready(consumer);
          },
          "consumer"_a)
      .def(
          "send", &send, "message"_a.none(), "consumer"_a = nb::none(),
          "Sends to the next consumer that has room (of a `latest` channel to all), or to this one. Raises TroupeError "
          "when there is no room.");
  nb::class_<CallerEnd>(m, "Caller", "The calling end of a channel of requests.")
      .def_prop_ro("ready", [](const CallerEnd& caller) { return caller().ready(); })
      .def(
          "call", &call, "request"_a.none(), "reply"_a, "timeout"_a = 10.0,
          "reply(answer, None) is called once, before the next step, or reply(None, reason) after `timeout` seconds or "
          "when nobody answers.");
  nb::class_<ServerEnd>(m, "Server", "The serving end of a channel of requests.")
      .def_prop_ro("empty", [](const ServerEnd& server) { return server().empty(); })
      .def("take", &take_request,
           "(request, answer): answer(message) must be called once, now or later. None when there is none.");
  nb::class_<Context>(m, "Context", "What a role may touch in a step. Of no use afterwards.")
      .def(
          "inlet",
          [](const std::shared_ptr<Context>& self, const std::string& name) {
            return end_of<InletEnd>(self, self->inlets, name, "inlet", false);
          },
          "name"_a)
      .def(
          "outlet",
          [](const std::shared_ptr<Context>& self, const std::string& name) {
            return end_of<OutletEnd>(self, self->outlets, name, "outlet", false);
          },
          "name"_a)
      .def(
          "caller",
          [](const std::shared_ptr<Context>& self, const std::string& name) {
            return end_of<CallerEnd>(self, self->outlets, name, "outlet", true);
          },
          "name"_a)
      .def(
          "server",
          [](const std::shared_ptr<Context>& self, const std::string& name) {
            return end_of<ServerEnd>(self, self->inlets, name, "inlet", true);
          },
          "name"_a)
      .def_prop_ro(
          "time", [](const Context& self) { return seconds(self.context().clock().now()); },
          "Seconds by the run's clock, which only grows.")
      .def(
          "wake_after", [](const Context& self, double delay) { self.context().wake_after(from_seconds(delay)); },
          "seconds"_a, "step() is called again after so long at the latest.")
      .def(
          "flush_steps",
          [](const Context& self, actors::SequenceWriter& writer, const std::string& outlet) {
            return value_or_raise(writer.flush(self.context(), self.port(self.outlets, outlet, "outlet").name));
          },
          "writer"_a, "outlet"_a, "What troupe.StepsWriter.flush() calls.")
      .def(
          "alive", [](const Context& self, const std::string& role) { return self.context().alive(role); }, "role"_a,
          "Whether an instance of that role is up and not done.");
}

}  // namespace troupe::python
