#pragma once
// Reads a journal's folder from its oldest row to its newest and verifies every byte that counts. Used by
// replay/journal and nobody else.
#include <optional>
#include <string>
#include <vector>

#include <troupe/replay/detail/journal_format.hpp>
#include <troupe/replay/journal.hpp>

namespace troupe::replay::detail {

/// Names of ours in a folder.
struct JournalNames {
  std::vector<SegmentId> segments;      ///< oldest first
  std::vector<std::string> unfinished;  ///< segments that never got their name
  std::uint64_t newest_generation = 0;
};
Result<JournalNames> list_journal(JournalFolder& folder);

struct ReadSegment {
  std::string name;
  std::uint64_t first_row = 0;
  std::uint64_t end_row = 0;  ///< behind its last row that counts; > first_row
  std::uint64_t bytes = 0;
};

/// A row that was read but may not be on disk: as it was encoded, to be written again.
struct DoubtfulRecord {
  std::vector<std::byte> bytes;
  std::uint64_t end_row = 0;
  std::optional<ProducerSequence> producer;
};

struct ReadJournal {
  Recovery recovery;
  std::vector<ReadSegment> segments;     ///< with rows that count, oldest first
  std::vector<std::string> useless;      ///< names of the others
  std::vector<std::string> abandoned;    ///< names that `until` leaves behind, oldest first
  std::vector<JournalPosition> lineage;  ///< of the generation that goes on from here
  std::uint64_t first_row = 0;
  Key first_key = 0;             ///< of first_row
  std::uint64_t synced_row = 0;  ///< rows from here on are doubtful
  std::uint64_t end_row = 0;     ///< behind the newest row
  SeenProducers producers;       ///< as of synced_row
  std::vector<DoubtfulRecord> doubtful;
};

/// Hands the rows to `sink`. Errors: those of Journal::recover().
Result<ReadJournal> read_journal(JournalFolder& folder, const std::vector<SegmentId>& ids,
                                 const JournalOptions& options, const RecordSink& sink,
                                 std::optional<JournalPosition> until);

}  // namespace troupe::replay::detail
