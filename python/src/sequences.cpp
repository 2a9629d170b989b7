// troupe._core.SequenceTables: tables over shared steps, for the threads of a process.
#include <algorithm>
#include <cstring>
#include <memory>

#include <troupe/replay/sequence_tables.hpp>

#include "binding.hpp"
#include "tables.hpp"

using namespace nanobind::literals;

namespace troupe::python {
namespace {

class SequenceTables {
 public:
  using Writer = replay::SequenceTables::Writer;

  SequenceTables(const std::vector<Column>& columns, const std::vector<TableDescription>& tables,
                 std::int64_t chunk_steps, std::uint64_t seed) {
    replay::SequenceOptions options{
        .step = signature_of(columns), .tables = {}, .chunk_steps = chunk_steps, .seed = seed};
    for (const TableDescription& table : tables) options.tables.push_back(table_options(table));
    tables_ = value_or_raise(replay::SequenceTables::make(std::move(options)));
  }

  Writer open(std::int64_t max_steps) {
    return value_or_raise(waiting_.at_once([&] { return tables_->open(max_steps); }));
  }
  void close(Writer writer) {
    do_at_once([&] { return tables_->close(writer); });
  }
  void append(Writer writer, const std::vector<Rows>& columns, std::int64_t rows) {
    const BatchView batch = batch_of(tables_->step(), columns, rows);
    do_at_once([&] { return tables_->append(writer, batch); });
  }
  void end_episode(Writer writer) {
    do_at_once([&] { return tables_->end_episode(writer); });
  }
  std::int64_t reach(Writer writer) const {
    const auto lock = waiting_.lock();
    return value_or_raise(tables_->reach(writer));
  }

  std::uint64_t insert(Writer writer, std::size_t table, std::int64_t steps, double priority, double timeout_s) {
    return value_or_raise(waiting_.when_admitted("create_item", timeout_s,
                                                 [&] { return tables_->insert(writer, table, steps, priority); }));
  }

  /// (columns, lengths, keys, probabilities, priorities, times sampled, items in the table), arrays of their own.
  nb::tuple sample(std::size_t table, std::int64_t rows, double timeout_s) {
    const auto drawn =
        value_or_raise(waiting_.when_admitted("sample", timeout_s, [&] { return tables_->sample(table, rows); }));
    const std::size_t count = drawn.items.size();
    nb::list columns;
    std::vector<std::pair<std::byte*, std::size_t>> memory;  // of each column, and bytes of a step
    try {
      for (const TensorSpec& column : tables_->step()) {
        std::vector<std::int64_t> dims = {drawn.longest};
        dims.insert(dims.end(), column.shape.dims().begin(), column.shape.dims().end());
        const auto [array, bytes] =
            tensor_array({column.name, column.dtype, Shape(std::span<const std::int64_t>(dims))}, count);
        memory.emplace_back(bytes, column.bytes());
        columns.append(array);
      }
    } catch (...) {  // no memory for arrays of this size
      waiting_.at_once([&] {
        tables_->release(drawn);
        return true;
      });
      throw;
    }
    waiting_.at_once([&] {
      for (std::size_t item = 0; item < count; ++item) copy(drawn, item, memory);
      tables_->release(drawn);
      return true;
    });
    const auto [lengths, length] = array<std::int64_t>(count);
    for (std::size_t i = 0; i < count; ++i) length[i] = drawn.ranges[i].count;
    return nb::tuple(nb::make_tuple(columns, lengths) + about(drawn.items));
  }

  std::int64_t update_priorities(std::size_t table, const Keys& keys, const Doubles& priorities) {
    return value_or_raise(waiting_.at_once([&] {
      return tables_->update_priorities(table, {keys.data(), keys.size()}, {priorities.data(), priorities.size()});
    }));
  }
  std::int64_t insertable(std::size_t table, std::int64_t wanted) const {
    const auto lock = waiting_.lock();
    return tables_->table(table).insertable(wanted);
  }
  std::int64_t sampleable(std::size_t table, std::int64_t wanted) const {
    const auto lock = waiting_.lock();
    return tables_->table(table).sampleable(wanted);
  }
  nb::tuple info() const {
    const auto lock = waiting_.lock();
    const replay::SequenceInfo info = tables_->info();
    nb::list tables;
    for (const replay::TableInfo& table : info.tables) {
      tables.append(nb::make_tuple(table.items, table.bytes, table.inserts, table.samples, table.evictions));
    }
    return nb::make_tuple(tables, info.steps, info.bytes, info.writers, info.episodes);
  }

  nb::list save(const std::vector<std::size_t>& tables) const {
    for (const std::size_t table : tables) {
      if (table >= tables_->count()) raise({Code::kInvalidArgument, "save: no table " + std::to_string(table)});
    }
    return list_of(waiting_.at_once([&] { return tables_->save(tables); }));
  }
  void restore(const std::vector<std::size_t>& tables, const std::vector<Chunk>& chunks) {
    const std::vector<std::vector<std::byte>> copied = copies_of(chunks);
    do_at_once([&] { return tables_->restore(tables, copied); });
  }

 private:
  template <typename F>
  void do_at_once(F work) {
    or_raise(waiting_.at_once(std::move(work)));
  }

  /// An item's steps into its part of the arrays, [items, longest, ...], and zeros behind them.
  void copy(const replay::Sequences& drawn, std::size_t item,
            const std::vector<std::pair<std::byte*, std::size_t>>& memory) const {
    const auto longest = static_cast<std::size_t>(drawn.longest);
    const auto steps = static_cast<std::size_t>(drawn.ranges[item].count);
    MutableBatchView out{.signature = &tables_->step(), .rows = drawn.longest, .columns = {}};
    for (const auto& [begin, bytes] : memory) {
      std::byte* const to = begin + item * longest * bytes;
      std::memset(to + steps * bytes, 0, (longest - steps) * bytes);
      out.columns.emplace_back(to, longest * bytes);
    }
    tables_->read(drawn, item, out, 0);
  }

  mutable Waiting waiting_;
  std::unique_ptr<replay::SequenceTables> tables_;
};

}  // namespace

void bind_sequences(nb::module_& m) {
  nb::class_<SequenceTables>(m, "SequenceTables",
                             "Tables over shared steps; troupe.SequenceReplay is what users have of them. Tables go by "
                             "their number.")
      .def(nb::init<const std::vector<Column>&, const std::vector<TableDescription>&, std::int64_t, std::uint64_t>(),
           "columns"_a, "tables"_a, "chunk_steps"_a, "seed"_a, "Raises TroupeError naming the option.")
      .def("open", &SequenceTables::open, "max_steps"_a, "A new writer's number.")
      .def("close", &SequenceTables::close, "writer"_a)
      .def("append", &SequenceTables::append, "writer"_a, "columns"_a, "rows"_a, "Raises TroupeError.")
      .def("end_episode", &SequenceTables::end_episode, "writer"_a)
      .def("reach", &SequenceTables::reach, "writer"_a, "How many steps an item may have now.")
      .def("insert", &SequenceTables::insert, "writer"_a, "table"_a, "steps"_a, "priority"_a, "timeout"_a,
           "An item of the last steps; its key. Raises TroupeError, or TimeoutError saying for what it waits.")
      .def("sample", &SequenceTables::sample, "table"_a, "rows"_a, "timeout"_a,
           "Columns [rows, longest, ...], lengths, keys, probabilities, priorities, times sampled, items there were.")
      .def("update_priorities", &SequenceTables::update_priorities, "table"_a, "keys"_a, "priorities"_a)
      .def("insertable", &SequenceTables::insertable, "table"_a, "wanted"_a)
      .def("sampleable", &SequenceTables::sampleable, "table"_a, "wanted"_a)
      .def_prop_ro("info", &SequenceTables::info,
                   "Of each table items, bytes, inserts, samples, evictions; steps, bytes of all, writers, episodes.")
      .def("save", &SequenceTables::save, "tables"_a, "One consistent image of these tables: chunks of bytes.")
      .def("restore", &SequenceTables::restore, "tables"_a, "chunks"_a,
           "Raises TroupeError, and everything is as it was.");
}

}  // namespace troupe::python
