#pragma once
// Several tables whose items are sequences of time steps, which they share: fixed lengths, overlapping ones, whole
// trajectories. Each step is in memory once, however many items of however many tables have it. What Reverb's server
// and its TrajectoryWriter are together (reverb/cc/trajectory_writer.h; Cassirer et al. 2021, arXiv 2102.04736), but
// passive and within a process, like Table, of which each of these is one: samplers, removers and limiters are its own.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/replay/step_store.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::replay {

/// A column of a table's batches: some steps of its items, from one column of these, as Python slices a sequence. A
/// transition without copies is {"observation", "", 0, -1}, {"next_observation", "observation", 1}.
struct SequenceColumn {
  std::string name;
  std::string of;          ///< column of a step; empty: the one of this name
  std::int64_t begin = 0;  ///< first step; below 0 from the item's end
  std::int64_t end = 0;    ///< behind the last step; 0 or below from the item's end
  bool single = false;     ///< it is the step `begin` alone, without a dimension of time; `end` is not looked at
};

struct SequenceOptions {
  Signature step;                    ///< columns of a time step
  std::vector<TableOptions> tables;  ///< names differ; `signature` is theirs to fill, max_bytes 0
  /// What batches of a table have, by its name (Reverb's patterns, reverb/structured_writer.py). A table that is not
  /// here gives every column whole.
  std::map<std::string, std::vector<SequenceColumn>> patterns;
  std::int64_t chunk_steps = 16;  ///< > 0, see StepStore
  std::uint64_t seed = 0;         ///< of writers' numbers, which must differ between all processes whose images meet
};

/// Items that were drawn, and whose steps are kept until Sequences goes to SequenceTables::release().
struct Sequences {
  std::vector<SampledItem> items;
  std::vector<StepRange> ranges;  ///< of each item
  std::int64_t longest = 0;
  std::size_t table = 0;  ///< that they are from
};

struct SequenceInfo {
  std::vector<TableInfo> tables;  ///< bytes: of the items without their steps
  std::int64_t steps = 0;         ///< in memory, each once
  std::int64_t bytes = 0;         ///< of all steps and items
  std::int64_t writers = 0;       ///< open
  std::int64_t episodes = 0;      ///< ended, of all writers
};

/// Not thread-safe. Errors say table or writer, and leave everything as it was.
class SequenceTables {
 public:
  using Writer = std::uint64_t;

  /// Errors: kInvalidArgument naming the option.
  static Result<std::unique_ptr<SequenceTables>> make(SequenceOptions options);
  ~SequenceTables();

  std::size_t count() const { return tables_.size(); }
  const Table& table(std::size_t number) const { return *tables_[number]; }
  const Signature& step() const { return options_.step; }

  /// A new writer, whose items reach back at most max_steps > 0 (Reverb's num_keep_alive_refs). Errors:
  /// kInvalidArgument.
  Result<Writer> open(std::int64_t max_steps);
  /// Its steps stay in its items alone. Errors: kNotFound.
  Status close(Writer writer);
  /// Takes steps of a writer, [rows, ...] by column, which go on its episode. Errors: kNotFound, kShapeMismatch.
  Status append(Writer writer, const BatchView& steps);
  /// No item reaches over it. Errors: kNotFound.
  Status end_episode(Writer writer);
  /// Steps of the writer's episode that an item may still have: at most max_steps. Errors: kNotFound.
  Result<std::int64_t> reach(Writer writer) const;
  /// Makes an item of the writer's last `steps` steps. Errors: kNotFound; kInvalidArgument (no such table, more steps
  /// than reach(), fewer than its pattern names, a priority); kUnavailable (the table's insert_blocker).
  Result<Key> insert(Writer writer, std::size_t table, std::int64_t steps, double priority);

  /// Draws items of a table, all or none; rows 0: none, for a batch as long as the shortest item there may be. Errors:
  /// kInvalidArgument; kUnavailable (the table's sample_blocker).
  Result<Sequences> sample(std::size_t table, std::int64_t rows);
  /// Columns of a batch of drawn items, those of the table's pattern: [steps of the longest, ...] each.
  Signature batch_signature(const Sequences& drawn) const;
  /// Copies their steps into a batch of these columns, with zeros behind what is shorter than the longest.
  void read(const Sequences& drawn, const MutableBatchView& out) const;
  void release(const Sequences& drawn);
  /// Errors: those of Table::update_priorities(), kInvalidArgument (no such table).
  Result<std::int64_t> update_priorities(std::size_t table, std::span<const Key> keys,
                                         std::span<const double> priorities);

  /// Items of a table leave, and with them the steps that no other has. Errors: those of Table::erase(),
  /// kInvalidArgument (no such table).
  Result<std::int64_t> erase(std::size_t table, std::span<const Key> keys);
  /// All items of a table leave, and its limiter begins anew. Errors: kInvalidArgument (no such table).
  Status reset(std::size_t table);

  SequenceInfo info() const;

  /// Some of the tables, with the steps that their items need and no others, as chunks of bytes; whoever stores them
  /// adds checksums. Writers are not in it.
  std::vector<std::vector<std::byte>> save(std::span<const std::size_t> tables) const;
  /// Takes an image of tables of the same columns and options, by their number: those of the image go on bit for bit,
  /// and the others are as they were. Errors: kCorrupt, kShapeMismatch.
  Status restore(std::span<const std::size_t> tables, std::span<const std::vector<std::byte>> chunks);
  /// The open writers with the steps that their next items may need, and what their numbers come from: for who goes on
  /// with all of it. Restored after the tables, into one that has no writers. Errors: kCorrupt.
  std::vector<std::vector<std::byte>> save_writers() const;
  Status restore_writers(std::span<const std::vector<std::byte>> chunks);

 private:
  class References;
  /// What a table's batches have, with the numbers of columns, and how many steps an item needs for it.
  struct Pattern {
    std::vector<SequenceColumn> columns;
    std::vector<std::size_t> of;
    std::int64_t least = 1;
  };
  struct Open {
    std::int64_t max_steps = 0;
    std::int64_t next = 0;        ///< number of the step that comes
    std::int64_t begin = 0;       ///< of its episode
    std::int64_t kept_chunk = 0;  ///< the first that it refers to itself
  };
  explicit SequenceTables(SequenceOptions options);
  /// Errors: kInvalidArgument naming table and column.
  Result<Pattern> pattern_of(const std::string& table) const;
  Status check(std::size_t table) const;
  Status check_writer(Writer writer) const;
  Status check_steps(const BatchView& steps) const;
  std::int64_t chunks_of(const Open& writer) const;
  void drop_before(Writer number, Open& writer, std::int64_t chunk);
  void drop_old(Writer number, Open& writer);
  /// The steps of its chunks.
  StepRange kept_by(Writer number, const Open& writer) const;
  /// Takes chunks of an image. Errors: kCorrupt.
  Status put(std::span<const StepChunk> steps);

  SequenceOptions options_;
  StepStore store_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<Pattern> patterns_;  ///< by table
  std::map<Writer, Open> writers_;
  Rng rng_;
  std::int64_t episodes_ = 0;
};

}  // namespace troupe::replay
