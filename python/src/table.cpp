// troupe._core.Table: a replay table that threads share. The table of the C++ library never waits; here whoever is not
// admitted sleeps until somebody has changed something.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include <troupe/replay/table.hpp>

#include "binding.hpp"

using namespace nanobind::literals;

namespace troupe::python {
namespace {

using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Keys = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Chunk = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Clock = std::chrono::steady_clock;

/// (samples per insert, least size to sample, least and greatest difference), see replay::RateLimiterOptions.
using Limits = std::tuple<double, std::int64_t, double, double>;

DType dtype_of(const std::string& name) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU8}) {
    if (to_string(dtype) == name) return dtype;
  }
  raise({Code::kInvalidArgument, "a column has type " + name + ", expected float32, float64, int32, int64 or uint8"});
}

replay::SelectorOptions selector_of(const char* what, const std::string& name, double exponent) {
  if (const auto kind = replay::selector_kind(name)) return {*kind, exponent};
  std::string known;
  for (const replay::SelectorKind kind : replay::kSelectorKinds) {
    known += (known.empty() ? "" : ", ") + std::string(to_string(kind));
  }
  raise({Code::kInvalidArgument, std::string(what) + " is " + name + ", expected one of " + known});
}

class Table {
 private:
  const Signature& signature() const { return table_->options().signature; }

  /// What `work` gives, without Python's lock; others see the change.
  template <typename F>
  auto at_once(F work) {
    auto result = [&] {
      const nb::gil_scoped_release others_run;
      const std::lock_guard lock(mutex_);
      return work();
    }();
    changed_.notify_all();
    return value_or_raise(std::move(result));
  }

  /// The same of work that is kUnavailable until the limiter admits it. Raises TimeoutError, saying for what it waits.
  template <typename F>
  auto when_admitted(const char* what, double timeout_s, F work) {
    constexpr auto kLook = std::chrono::milliseconds(100);  // whether Ctrl-C was pressed meanwhile
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(std::min(std::max(timeout_s, 0.0), 1e6)));
    while (true) {
      auto result = [&] {
        const nb::gil_scoped_release others_run;
        std::unique_lock lock(mutex_);
        auto tried = work();
        const auto until = std::min(deadline, Clock::now() + kLook);
        while (!tried.ok() && tried.error().code == Code::kUnavailable && Clock::now() < until) {
          changed_.wait_until(lock, until);
          tried = work();
        }
        return tried;
      }();
      if (result.ok() || result.error().code != Code::kUnavailable) {
        changed_.notify_all();
        return value_or_raise(std::move(result));
      }
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (Clock::now() < deadline) continue;
      PyErr_SetString(PyExc_TimeoutError, (std::string(what) + ": " + result.error().message).c_str());
      throw nb::python_error();
    }
  }

 public:
  Table(const std::string& name, const std::vector<Column>& columns, std::int64_t max_items, const std::string& sampler,
        const std::string& remover, double priority_exponent, std::int64_t max_times_sampled, const Limits& limits,
        std::uint64_t seed) {
    replay::TableOptions options{.name = name, .signature = {}, .max_items = max_items};
    for (const auto& [column, dtype, shape] : columns) {
      if (shape.size() > Shape::kMaxRank || std::ranges::any_of(shape, [](std::int64_t size) { return size < 1; })) {
        raise({Code::kInvalidArgument, "column " + column + ": a size below 1, or more than " +
                                           std::to_string(Shape::kMaxRank) + " dimensions"});
      }
      options.signature.push_back({column, dtype_of(dtype), Shape(std::span(shape))});
    }
    options.sampler = selector_of("sampler", sampler, priority_exponent);
    options.remover = selector_of("remover", remover, priority_exponent);
    options.max_times_sampled = max_times_sampled;
    const auto& [per_insert, least, min_diff, max_diff] = limits;
    options.limiter = {
        .samples_per_insert = per_insert, .min_size_to_sample = least, .min_diff = min_diff, .max_diff = max_diff};
    options.seed = seed;
    table_ = value_or_raise(replay::Table::make(std::move(options)));
  }

  std::uint64_t insert(const std::vector<Rows>& columns, std::int64_t rows, const std::optional<Doubles>& priorities,
                       double timeout_s) {
    BatchView batch{.signature = &signature(), .rows = rows, .columns = {}};
    for (const Rows& column : columns) {
      batch.columns.emplace_back(static_cast<const std::byte*>(column.data()), column.nbytes());
    }
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
    const auto [keys, key] = array<std::uint64_t>(count);
    const auto [probabilities, probability] = array<double>(count);
    const auto [priorities, priority] = array<double>(count);
    const auto [times, time] = array<std::int32_t>(count);
    for (std::size_t i = 0; i < count; ++i) {
      key[i] = items[i].key;
      probability[i] = items[i].probability;
      priority[i] = items[i].priority;
      time[i] = items[i].times_sampled;
    }
    return nb::make_tuple(columns, keys, probabilities, priorities, times, items.front().table_items);
  }

  std::int64_t update_priorities(const Keys& keys, const Doubles& priorities) {
    return at_once([&] {
      return table_->update_priorities({keys.data(), keys.size()}, {priorities.data(), priorities.size()});
    });
  }

  std::int64_t insertable(std::int64_t wanted) const {
    const std::lock_guard lock(mutex_);
    return table_->insertable(wanted);
  }
  std::int64_t sampleable(std::int64_t wanted) const {
    const std::lock_guard lock(mutex_);
    return table_->sampleable(wanted);
  }
  replay::TableInfo info() const {
    const std::lock_guard lock(mutex_);
    return table_->info();
  }

  nb::list save() const {
    std::vector<std::vector<std::byte>> chunks;
    {
      const nb::gil_scoped_release others_run;
      const std::lock_guard lock(mutex_);
      chunks = table_->save();
    }
    nb::list made;
    for (const auto& chunk : chunks) made.append(nb::bytes(chunk.data(), chunk.size()));
    return made;
  }
  void restore(const std::vector<Chunk>& chunks) {
    std::vector<std::vector<std::byte>> copied;
    for (const Chunk& chunk : chunks) {
      const auto* const begin = reinterpret_cast<const std::byte*>(chunk.data());
      copied.emplace_back(begin, begin + chunk.size());
    }
    at_once([&]() -> Result<bool> {
      TROUPE_TRY(table_->restore(copied));
      return true;
    });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<replay::Table> table_;
};

}  // namespace

void bind_table(nb::module_& m) {
  nb::class_<Table>(m, "Table", "A replay table for the threads of a process; troupe.Table is what users have of it.")
      .def(nb::init<const std::string&, const std::vector<Column>&, std::int64_t, const std::string&,
                    const std::string&, double, std::int64_t, const Limits&, std::uint64_t>(),
           "name"_a, "columns"_a, "max_items"_a, "sampler"_a, "remover"_a, "priority_exponent"_a, "max_times_sampled"_a,
           "limits"_a, "seed"_a, "Raises TroupeError naming the option.")
      .def("insert", &Table::insert, "columns"_a, "rows"_a, "priorities"_a.none(), "timeout"_a,
           "Copies rows in, all or none, when the limiter admits them, and returns the first one's key. Without "
           "Python's "
           "lock. Raises TroupeError, or TimeoutError saying for what it waits.")
      .def("sample", &Table::sample, "rows"_a, "timeout"_a,
           "Draws with replacement when the limiter admits it: a list of the columns, keys, probabilities, priorities, "
           "times sampled, and how many items there were. Without Python's lock. Raises as insert().")
      .def("update_priorities", &Table::update_priorities, "keys"_a, "priorities"_a,
           "Returns how many keys were unknown. Raises TroupeError, and nothing has changed.")
      .def("insertable", &Table::insertable, "wanted"_a, "How many rows at most may be inserted at once now.")
      .def("sampleable", &Table::sampleable, "wanted"_a, "How many rows at most may be sampled at once now.")
      .def_prop_ro(
          "info",
          [](const Table& self) {
            const replay::TableInfo info = self.info();
            return std::tuple(info.items, info.bytes, info.inserts, info.samples, info.evictions);
          },
          "Items, bytes of them, inserts, samples, evictions.")
      .def("save", &Table::save, "One consistent image: chunks of bytes.")
      .def("restore", &Table::restore, "chunks"_a,
           "Takes an image of a table of the same kind. Raises TroupeError, and the table is as it was.");
}

}  // namespace troupe::python
