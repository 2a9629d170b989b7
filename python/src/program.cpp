// troupe._core.main: the whole program, with what a user has written in Python in its registry.
#include "program.hpp"

#include <troupe/apps/main.hpp>
#include <troupe/run/queue_role.hpp>
#include <troupe/run/sequence_role.hpp>

#include "binding.hpp"
#include "learner.hpp"
#include "message.hpp"
#include "role.hpp"
#include "tables.hpp"

using namespace nanobind::literals;

namespace troupe::python {
namespace {

/// Of a troupe.SequenceReplayRole.
RoleKind sequence_replay_kind(const nb::object& role) {
  using Described = std::tuple<std::vector<Column>, std::vector<TableDescription>, PatternDescriptions, std::int64_t>;
  const auto described = nb::cast<Described>(nb::module_::import_("troupe.sequences").attr("describe_tables")(role));
  return sequence_replay_of(std::apply(sequence_options, described));
}

/// Of a role that ships, or of a subclass of troupe.Role.
RoleKind kind_of(const nb::object& role) {
  if (nb::isinstance(role, nb::module_::import_("troupe.sequences").attr("SequenceReplayRole"))) {
    return sequence_replay_kind(role);
  }
  if (!nb::isinstance(role, nb::module_::import_("troupe.roles").attr("Queue"))) return role_kind(role);
  const auto type = nb::cast<std::string>(role.attr("type"));
  if (!has_form(type)) raise({Code::kInvalidArgument, "a queue: only Troupe's own roles speak " + type});
  const nb::object priority = role.attr("priority");
  if (priority.is_none()) return queue_of(type);
  return queue_of(type, [kept = shared(priority), type](const messages::Frame& frame) {
    return in_python("priority", [&]() -> Result<double> {
      TROUPE_ASSIGN(const nb::object message, to_python(frame, type));
      return cast_or_raise<double>((*kept)(message), "what it gave", "a number");
    });
  });
}

int main_of(nb::handle program, std::vector<std::string> arguments, std::vector<std::string> command) {
  Registry registry = registry_of(program);
  registry.command(std::move(command));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const nb::gil_scoped_release roles_run;
  return troupe::main(static_cast<int>(arguments.size()), argv.data(), registry);
}

}  // namespace

Registry registry_of(nb::handle program) {
  Registry registry = shipped();
  if (program.is_none()) return registry;
  for (const auto& [name, type] : nb::cast<nb::dict>(program.attr("roles"))) {
    registry.role(nb::cast<std::string>(name), kind_of(nb::cast<nb::object>(type)));
  }
  for (const auto& [name, bytes] : nb::cast<nb::dict>(program.attr("messages"))) {
    registry.message(nb::cast<std::string>(name), {.max_bytes = nb::cast<std::size_t>(bytes)});
  }
  for (const auto& [name, type] : nb::cast<nb::dict>(program.attr("learners"))) {
    registry.learner(nb::cast<std::string>(name), learner_kind(nb::cast<nb::object>(type)));
  }
  return registry;
}

void bind_program(nb::module_& m) {
  bind_role(m);
  m.def("main", &main_of, "program"_a, "arguments"_a, "command"_a,
        "Runs the command that `arguments` ask for, their first being the program's name, and returns the exit code. "
        "command: how another process of the program is started.");
}

}  // namespace troupe::python
