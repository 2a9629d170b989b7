#include <troupe/actors/cut_writer.hpp>

namespace troupe::actors {

caf::behavior CutWriter::make_behavior() {
  return {
      [this](write_atom, const std::shared_ptr<const Cut>& cut) {
        WrittenMessage answer{cut->number, std::nullopt, {}};
        if (Status written = write_(cut); !written.ok()) answer.error = written.error();
        for (const Cut::Instance& instance : cut->instances) {
          for (const messages::Counter& counter : instance.state->role.counters) {
            answer.counters.push_back({instance.name + "/" + counter.name, counter.value});
          }
        }
        return caf::make_message(written_atom::value, std::move(answer));
      },
      [this](stop_atom) { quit(); },
  };
}

}  // namespace troupe::actors
