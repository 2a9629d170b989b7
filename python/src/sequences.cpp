// troupe._core.SequenceTables: tables over shared steps, for the threads of a process.
#include <algorithm>
#include <cstring>
#include <memory>

#include <troupe/actors/roles/sequence_writer.hpp>
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
                 const PatternDescriptions& patterns, std::int64_t chunk_steps, std::uint64_t seed) {
    replay::SequenceOptions options = sequence_options(columns, tables, patterns, chunk_steps);
    options.seed = seed;
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

  std::uint64_t insert(Writer writer, std::size_t table, std::int64_t steps, double priority, double timeout_s) {
    return value_or_raise(waiting_.when_admitted("create_item", timeout_s,
                                                 [&] { return tables_->insert(writer, table, steps, priority); }));
  }

  /// (columns, lengths, keys, probabilities, priorities, times sampled, items in the table), arrays of their own.
  nb::tuple sample(std::size_t table, std::int64_t rows, double timeout_s) {
    if (rows < 1) raise({Code::kInvalidArgument, "sample of " + std::to_string(rows) + " items, expected at least 1"});
    const auto drawn =
        value_or_raise(waiting_.when_admitted("sample", timeout_s, [&] { return tables_->sample(table, rows); }));
    const std::size_t count = drawn.items.size();
    nb::list columns;
    const Signature signature = tables_->batch_signature(drawn);
    MutableBatchView out{.signature = &signature, .rows = rows, .columns = {}};
    const auto release = [&] {
      tables_->release(drawn);
      return true;
    };
    try {
      for (const TensorSpec& column : signature) {
        const auto [array, memory] = tensor_array(column, count);
        out.columns.emplace_back(memory, column.bytes() * count);
        columns.append(array);
      }
    } catch (...) {  // no memory for arrays of this size
      waiting_.at_once(release);
      throw;
    }
    waiting_.at_once([&] {
      tables_->read(drawn, out);
      return release();
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
  std::int64_t erase(std::size_t table, const Keys& keys) {
    return value_or_raise(waiting_.at_once([&] { return tables_->erase(table, {keys.data(), keys.size()}); }));
  }
  void reset(std::size_t table) {
    do_at_once([&] { return tables_->reset(table); });
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
    for (const replay::TableInfo& table : info.tables) tables.append(dict_of(table));
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

  mutable Waiting waiting_;
  std::unique_ptr<replay::SequenceTables> tables_;
};

void append_steps(actors::SequenceWriter& writer, const std::vector<Rows>& columns, std::int64_t rows) {
  or_raise(writer.append(batch_of(writer.step(), columns, rows)));
}

}  // namespace

void bind_sequences(nb::module_& m) {
  nb::class_<actors::SequenceWriter>(m, "StepsWriter",
                                     "Gathers steps for a role; troupe.StepsWriter is what users have of it.")
      .def(
          "__init__",
          [](actors::SequenceWriter* self, const std::vector<Column>& columns, std::int64_t max_steps,
             std::uint64_t number) {
            if (max_steps < 1) {
              raise({Code::kInvalidArgument,
                     "writer: max_steps: got " + std::to_string(max_steps) + ", expected at least 1"});
            }
            new (self) actors::SequenceWriter(signature_of(columns), max_steps, number);
          },
          "columns"_a, "max_steps"_a, "number"_a, "Raises TroupeError.")
      .def("append", &append_steps, "columns"_a, "rows"_a, "Raises TroupeError.")
      .def(
          "create_item",
          [](actors::SequenceWriter& self, std::string table, std::int64_t steps, double priority) {
            or_raise(self.create_item(std::move(table), steps, priority));
          },
          "table"_a, "steps"_a, "priority"_a, "Raises TroupeError.")
      .def("end_episode", &actors::SequenceWriter::end_episode)
      .def("close", &actors::SequenceWriter::close);
  nb::class_<SequenceTables>(m, "SequenceTables",
                             "Tables over shared steps; troupe.SequenceReplay is what users have of them. Tables go by "
                             "their number.")
      .def(nb::init<const std::vector<Column>&, const std::vector<TableDescription>&, const PatternDescriptions&,
                    std::int64_t, std::uint64_t>(),
           "columns"_a, "tables"_a, "patterns"_a, "chunk_steps"_a, "seed"_a, "Raises TroupeError naming the option.")
      .def("open", &SequenceTables::open, "max_steps"_a, "A new writer's number.")
      .def("close", &SequenceTables::close, "writer"_a)
      .def("append", &SequenceTables::append, "writer"_a, "columns"_a, "rows"_a, "Raises TroupeError.")
      .def("end_episode", &SequenceTables::end_episode, "writer"_a)
      .def("insert", &SequenceTables::insert, "writer"_a, "table"_a, "steps"_a, "priority"_a, "timeout"_a,
           "An item of the last steps; its key. Raises TroupeError, or TimeoutError saying for what it waits.")
      .def(
          "sample", &SequenceTables::sample, "table"_a, "rows"_a, "timeout"_a,
          "Columns [rows, steps, ...] of the table's pattern, lengths, keys, probabilities, priorities, times sampled, "
          "items there were.")
      .def("update_priorities", &SequenceTables::update_priorities, "table"_a, "keys"_a, "priorities"_a)
      .def("erase", &SequenceTables::erase, "table"_a, "keys"_a)
      .def("reset", &SequenceTables::reset, "table"_a)
      .def("insertable", &SequenceTables::insertable, "table"_a, "wanted"_a)
      .def("sampleable", &SequenceTables::sampleable, "table"_a, "wanted"_a)
      .def_prop_ro("info", &SequenceTables::info,
                   "Of each table items, bytes, inserts, samples, evictions; steps, bytes of all, writers, episodes.")
      .def("save", &SequenceTables::save, "tables"_a, "One consistent image of these tables: chunks of bytes.")
      .def("restore", &SequenceTables::restore, "tables"_a, "chunks"_a,
           "Raises TroupeError, and everything is as it was.");
}

}  // namespace troupe::python
