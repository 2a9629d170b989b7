#include <troupe/actors/control/cut_writer.hpp>

#include <troupe/actors/runtime/last_resort.hpp>

namespace troupe::actors {

caf::behavior CutWriter::make_behavior() {
  end_process_on_exception(*this);
  return {
      [this](write_atom, const std::shared_ptr<const Cut>& cut) {
        WrittenMessage answer;
        answer.number = cut->number;
        if (Status written = write_(cut); !written.ok()) answer.error = written.error();
        if (parts_.id && !answer.error) {
          auto id = parts_.id(cut->number);
          if (id.ok()) {
            answer.part = *std::move(id);
          } else {
            answer.error = id.error();
          }
        }
        for (const Cut::Instance& instance : cut->instances) {
          answer.instances.push_back(instance.name);
          for (const messages::Counter& counter : instance.state->role.counters) {
            answer.counters.push_back({instance.name + "/" + counter.name, counter.value});
          }
        }
        return caf::make_message(written_atom::value, std::move(answer));
      },
      [this](keep_atom, const std::vector<std::uint64_t>& numbers) {
        if (parts_.keep) parts_.keep(numbers);
      },
      [this](check_atom, const PartNames& parts) {
        PartsChecked answer;
        for (const auto& [number, id] : parts) {
          const Status good = parts_.check ? parts_.check(number, id) : Status{};
          if (good.ok()) {
            answer.whole.push_back(number);
          } else {
            answer.wrong += (answer.wrong.empty() ? "" : "; ") + good.error().message;
          }
        }
        return caf::make_message(check_atom::value, std::move(answer));
      },
      [this](stop_atom) { quit(); },
  };
}

}  // namespace troupe::actors
