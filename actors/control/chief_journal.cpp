#include <troupe/actors/control/chief_journal.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <span>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/crc32c.hpp>
#include <troupe/core/json_nesting.hpp>

namespace troupe::actors {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
/// Names and numbers of a run with 100 000 instances fit many times.
constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;

Json to_json(const ChiefJournal& journal) {
  return {{"term", journal.term},   {"last_cut", journal.last_cut},   {"cuts_begun", journal.cuts_begun},
          {"nodes", journal.nodes}, {"instances", journal.instances}, {"joined", journal.joined},
          {"over", journal.over}};
}

std::uint32_t checksum(const Json& content) {
  const std::string text = content.dump();
  return crc32c(std::as_bytes(std::span(text)));
}

/// The file, then what it holds, then nodes and instances.
constexpr std::size_t kJournalLevels = 3;

/// Null for what is no JSON of ours: what nests deeper, and numbers that are none of a journal's, which would be
/// converted to one that is.
Json parse_journal(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (json_nests_beyond(text, kJournalLevels)) return {};
  bool whole = true;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::value && value.is_number() && !value.is_number_unsigned()) whole = false;
    return true;
  };
  Json json = Json::parse(text, watch, false);
  return whole ? json : Json();
}

}  // namespace

Result<ChiefJournal> load_journal(const std::filesystem::path& file) {
  const auto corrupt = [&](const std::string& why) {
    return Error{Code::kCorrupt, fmt::format("{}: no chief's journal: {}", file.string(), why)};
  };
  auto bytes = read_file(file.string(), kMaxBytes);
  if (!bytes.ok() && bytes.error().code == Code::kNotFound) return ChiefJournal{};
  if (!bytes.ok()) return bytes.error();
  const Json json = parse_journal(*bytes);
  if (!json.is_object()) return corrupt("is none that this program has written");
  ChiefJournal journal;
  try {
    if (json.at("version") != kVersion) {
      return corrupt(fmt::format("version {}, expected {}", json.at("version").dump(), kVersion));
    }
    const Json& content = json.at("journal");
    journal.term = content.at("term");
    journal.last_cut = content.at("last_cut");
    journal.cuts_begun = content.at("cuts_begun");
    journal.nodes = content.at("nodes").get<std::map<std::string, std::uint32_t>>();
    journal.instances = content.at("instances").get<std::map<std::string, std::uint32_t>>();
    journal.over = content.at("over");
    journal.joined = content.at("joined").get<std::map<std::string, std::string>>();
    if (to_json(journal) != content || json.at("crc32c") != checksum(content)) return corrupt("its checksum is wrong");
  } catch (const nlohmann::json::exception&) {
    return corrupt("a value is missing, or of another type");
  }
  return journal;
}

Status save_journal(const std::filesystem::path& file, const ChiefJournal& journal) {
  const Json content = to_json(journal);
  const Json json = {{"version", kVersion}, {"crc32c", checksum(content)}, {"journal", content}};
  return write_file_atomic(file.string(), json.dump(2) + "\n");
}

JournalStore journal_in(const std::filesystem::path& file) {
  return {[file] { return load_journal(file); },
          [file](const ChiefJournal& journal) { return save_journal(file, journal); }};
}

}  // namespace troupe::actors
