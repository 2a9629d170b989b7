#include <troupe/actors/chief_journal.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>

#include <troupe/core/atomic_file.hpp>

namespace troupe::actors {

Result<ChiefJournal> load_journal(const std::filesystem::path& file) {
  ChiefJournal journal;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return journal;
  std::ifstream stream(file);
  if (!stream) return Error{Code::kIo, fmt::format("{}: cannot be read", file.string())};
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto json = nlohmann::json::parse(text, nullptr, false);
  try {
    journal.term = json.at("term");
    journal.last_cut = json.at("last_cut");
    journal.cuts_begun = json.at("cuts_begun");
    journal.nodes = json.at("nodes").get<std::map<std::string, std::uint32_t>>();
    journal.instances = json.at("instances").get<std::map<std::string, std::uint32_t>>();
  } catch (const nlohmann::json::exception& exception) {
    return Error{Code::kCorrupt, fmt::format("{}: no chief's journal: {}", file.string(), exception.what())};
  }
  return journal;
}

Status save_journal(const std::filesystem::path& file, const ChiefJournal& journal) {
  const nlohmann::ordered_json json = {{"term", journal.term},
                                       {"last_cut", journal.last_cut},
                                       {"cuts_begun", journal.cuts_begun},
                                       {"nodes", journal.nodes},
                                       {"instances", journal.instances}};
  return write_file_atomic(file.string(), json.dump(2) + "\n");
}

}  // namespace troupe::actors
