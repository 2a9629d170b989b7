#pragma once
// What a chief must not forget when its process dies: kept as JSON in the run's directory, written atomically before
// anybody is told of what it records, so that no incarnation or term is ever given twice.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include <troupe/core/error.hpp>

namespace troupe::actors {

struct ChiefJournal {
  std::uint64_t term = 0;                          ///< of the newest chief
  std::uint64_t last_cut = 0;                      ///< committed: on every node's disk
  std::uint64_t cuts_begun = 0;                    ///< numbers up to here have been used
  std::string over;                                ///< how the run has ended; empty: it goes on
  std::map<std::string, std::uint32_t> nodes;      ///< incarnations, by name
  std::map<std::string, std::uint32_t> instances;  ///< incarnations, by name
  std::map<std::string, std::string> joined;       ///< elastic instances: the node, which was not planned
};

/// A journal that does not exist is an empty one. Errors: kCorrupt, kIo.
Result<ChiefJournal> load_journal(const std::filesystem::path& file);
/// Errors: kIo.
Status save_journal(const std::filesystem::path& file, const ChiefJournal& journal);

/// Where a chief keeps its journal. It loads it again now and then: a later term there means that another chief leads
/// the run. Empty: there is none.
struct JournalStore {
  std::function<Result<ChiefJournal>()> load;
  std::function<Status(const ChiefJournal& journal)> save;
};
JournalStore journal_in(const std::filesystem::path& file);

}  // namespace troupe::actors
