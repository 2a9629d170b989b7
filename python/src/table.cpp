// troupe._core.Table: a replay table that threads share.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include <troupe/replay/table.hpp>

#include "binding.hpp"
#include "tables.hpp"

using namespace nanobind::literals;

namespace troupe::python {
namespace {

/// Called with keys, priorities and times sampled of items: those that came, were drawn, were given a priority, left.
using Callbacks = std::array<nb::object, 4>;

/// What an operation did to items, until callbacks are called.
class Heard final : public replay::TableExtension {
 public:
  struct Items {
    std::vector<std::uint64_t> keys;
    std::vector<double> priorities;
    std::vector<std::int32_t> times;
  };
  using Kinds = std::array<Items, std::tuple_size_v<Callbacks>>;

  explicit Heard(const Callbacks& wanted) {
    for (std::size_t kind = 0; kind < wanted.size(); ++kind) wanted_[kind] = !wanted[kind].is_none();
  }
  void inserted(const replay::TableItem& item) override { add(0, item); }
  void sampled(const replay::TableItem& item) override { add(1, item); }
  void updated(const replay::TableItem& item) override { add(2, item); }
  void deleted(const replay::TableItem& item) override { add(3, item); }

  Kinds take() { return std::exchange(kinds_, {}); }

 private:
  void add(std::size_t kind, const replay::TableItem& item) {
    if (!wanted_[kind]) return;
    kinds_[kind].keys.push_back(item.key);
    kinds_[kind].priorities.push_back(item.priority);
    kinds_[kind].times.push_back(item.times_sampled);
  }

  std::array<bool, std::tuple_size_v<Callbacks>> wanted_{};
  Kinds kinds_;
};

class Table {
 private:
  /// The operation is done, and nothing is locked: callbacks may call the table, and what they raise reaches the
  /// caller. New items come first and leaving ones last, as an item may do both in one operation.
  void tell(const Heard::Kinds& kinds) const {
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      const std::size_t count = kinds[kind].keys.size();
      if (count == 0) continue;
      const auto [keys, key] = array<std::uint64_t>(count);
      const auto [priorities, priority] = array<double>(count);
      const auto [times, time] = array<std::int32_t>(count);
      std::ranges::copy(kinds[kind].keys, key);
      std::ranges::copy(kinds[kind].priorities, priority);
      std::ranges::copy(kinds[kind].times, time);
      callbacks_[kind](keys, priorities, times);
    }
  }

  const Signature& signature() const { return table_->options().signature; }

  /// What is asked of the table, with what it did to items.
  template <typename F>
  auto listening(F work, Heard::Kinds& heard) {
    return [this, work = std::move(work), &heard] {
      auto done = work();
      if (heard_) heard = heard_->take();
      return done;
    };
  }
  template <typename F>
  auto at_once(F work) {
    Heard::Kinds heard;
    auto result = waiting_.at_once(listening(std::move(work), heard));
    tell(heard);
    return value_or_raise(std::move(result));
  }
  template <typename F>
  auto when_admitted(const char* what, double timeout_s, F work) {
    Heard::Kinds heard;
    auto result = waiting_.when_admitted(what, timeout_s, listening(std::move(work), heard));
    tell(heard);
    return value_or_raise(std::move(result));
  }

 public:
  /// Python frees a table that only its own callbacks have.
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    for (const nb::object& callback : nb::inst_ptr<Table>(self)->callbacks_) Py_VISIT(callback.ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    if (!nb::inst_ready(self)) return 0;
    for (nb::object& callback : nb::inst_ptr<Table>(self)->callbacks_) callback = nb::none();
    return 0;
  }

  Table(const std::string& name, const std::vector<Column>& columns, std::int64_t max_items, const std::string& sampler,
        const std::string& remover, double priority_exponent, std::int64_t max_times_sampled, const Limits& limits,
        std::uint64_t seed, const Callbacks& callbacks)
      : callbacks_(callbacks) {
    replay::TableOptions options =
        table_options({name, max_items, sampler, remover, priority_exponent, max_times_sampled, limits, seed});
    options.signature = signature_of(columns);
    if (!std::ranges::all_of(callbacks, &nb::object::is_none)) {
      heard_ = std::make_shared<Heard>(callbacks);
      options.extensions = {heard_};
    }
    table_ = value_or_raise(replay::Table::make(std::move(options)));
  }

  std::uint64_t insert(const std::vector<Rows>& columns, std::int64_t rows, const std::optional<Doubles>& priorities,
                       double timeout_s) {
    const BatchView batch = batch_of(signature(), columns, rows);
    std::span<const double> given;
    if (priorities) given = {priorities->data(), priorities->size()};
    return when_admitted("insert", timeout_s, [&] { return table_->insert(batch, given); });
  }

  /// (columns, keys, probabilities, priorities, times sampled, items in the table), arrays of their own.
  nb::tuple sample(std::int64_t rows, double timeout_s) {
    if (rows < 1) raise({Code::kInvalidArgument, "sample: of " + std::to_string(rows) + " rows, expected at least 1"});
    const auto count = static_cast<std::size_t>(rows);
    MutableBatchView batch{.signature = &signature(), .rows = rows, .columns = {}};
    nb::list columns;
    for (const TensorSpec& column : signature()) {
      const auto [array, memory] = tensor_array(column, count);
      batch.columns.emplace_back(memory, column.bytes() * count);
      columns.append(array);
    }
    std::vector<replay::SampledItem> items(count);
    when_admitted("sample", timeout_s, [&]() -> Result<bool> {
      TROUPE_TRY(table_->sample(batch, items));
      return true;
    });
    return nb::tuple(nb::make_tuple(columns) + about(items));
  }

  std::int64_t update_priorities(const Keys& keys, const Doubles& priorities) {
    return at_once([&] {
      return table_->update_priorities({keys.data(), keys.size()}, {priorities.data(), priorities.size()});
    });
  }

  std::int64_t erase(const Keys& keys) {
    return at_once([&] { return table_->erase({keys.data(), keys.size()}); });
  }
  void reset() {
    at_once([&]() -> Result<bool> {
      TROUPE_TRY(table_->reset());
      return true;
    });
  }

  std::int64_t insertable(std::int64_t wanted) const {
    const auto lock = waiting_.lock();
    return table_->insertable(wanted);
  }
  std::int64_t sampleable(std::int64_t wanted) const {
    const auto lock = waiting_.lock();
    return table_->sampleable(wanted);
  }
  nb::dict info() const {
    const auto lock = waiting_.lock();
    return dict_of(table_->info());
  }

  nb::list save() const {
    std::vector<std::vector<std::byte>> chunks;
    {
      const nb::gil_scoped_release others_run;
      const auto lock = waiting_.lock();
      chunks = table_->save();
    }
    return list_of(chunks);
  }
  void restore(const std::vector<Chunk>& chunks) {
    const std::vector<std::vector<std::byte>> copied = copies_of(chunks);
    at_once([&]() -> Result<bool> {
      TROUPE_TRY(table_->restore(copied));
      return true;
    });
  }

 private:
  mutable Waiting waiting_;
  std::unique_ptr<replay::Table> table_;
  Callbacks callbacks_;
  std::shared_ptr<Heard> heard_;  ///< nothing: there are no callbacks
};

}  // namespace

void bind_table(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&Table::traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(&Table::clear)},
                                {0, nullptr}};
  nb::class_<Table>(m, "Table", nb::type_slots(slots),
                    "A replay table for the threads of a process; troupe.Table is what users have of it.")
      .def(nb::init<const std::string&, const std::vector<Column>&, std::int64_t, const std::string&,
                    const std::string&, double, std::int64_t, const Limits&, std::uint64_t, const Callbacks&>(),
           "name"_a, "columns"_a, "max_items"_a, "sampler"_a, "remover"_a, "priority_exponent"_a, "max_times_sampled"_a,
           "limits"_a, "seed"_a, "callbacks"_a, "Raises TroupeError naming the option.")
      .def("insert", &Table::insert, "columns"_a, "rows"_a, "priorities"_a.none(), "timeout"_a,
           "Copies rows in, all or none, when the limiter admits them, and returns the first one's key. Without "
           "Python's "
           "lock. Raises TroupeError, or TimeoutError saying for what it waits.")
      .def("sample", &Table::sample, "rows"_a, "timeout"_a,
           "Draws with replacement when the limiter admits it: a list of the columns, keys, probabilities, priorities, "
           "times sampled, and how many items there were. Without Python's lock. Raises as insert().")
      .def("update_priorities", &Table::update_priorities, "keys"_a, "priorities"_a,
           "Returns how many keys were unknown. Raises TroupeError, and nothing has changed.")
      .def("erase", &Table::erase, "keys"_a, "Returns how many keys were unknown.")
      .def("reset", &Table::reset)
      .def("insertable", &Table::insertable, "wanted"_a, "How many rows at most may be inserted at once now.")
      .def("sampleable", &Table::sampleable, "wanted"_a, "How many rows at most may be sampled at once now.")
      .def_prop_ro("info", &Table::info, "Items, bytes of them, inserts, samples, evictions.")
      .def("save", &Table::save, "One consistent image: chunks of bytes.")
      .def("restore", &Table::restore, "chunks"_a,
           "Takes an image of a table of the same kind. Raises TroupeError, and the table is as it was.");
}

}  // namespace troupe::python
