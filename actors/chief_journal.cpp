#include <troupe/actors/chief_journal.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <span>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/crc32c.hpp>

namespace troupe::actors {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
/// Names and numbers of a run with 100 000 instances fit many times.
constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;

std::uint32_t checksum(const Json& content) {
  const std::string text = content.dump();
  return crc32c(std::as_bytes(std::span(text)));
}

}  // namespace

Result<ChiefJournal> load_journal(const std::filesystem::path& file) {
  const auto corrupt = [&](const std::string& why) {
    return Error{Code::kCorrupt, fmt::format("{}: no chief's journal: {}", file.string(), why)};
  };
  auto bytes = read_file(file.string(), kMaxBytes);
  if (!bytes.ok() && bytes.error().code == Code::kNotFound) return ChiefJournal{};
  if (!bytes.ok()) return bytes.error();
  const auto* const begin = reinterpret_cast<const char*>(bytes->data());
  const Json json = Json::parse(begin, begin + bytes->size(), nullptr, false);
  ChiefJournal journal;
  try {
    if (json.at("version") != kVersion) {
      return corrupt(fmt::format("version {}, expected {}", json.at("version").dump(), kVersion));
    }
    const Json& content = json.at("journal");
    if (json.at("crc32c") != checksum(content)) return corrupt("its checksum is wrong");
    journal.term = content.at("term");
    journal.last_cut = content.at("last_cut");
    journal.cuts_begun = content.at("cuts_begun");
    journal.nodes = content.at("nodes").get<std::map<std::string, std::uint32_t>>();
    journal.instances = content.at("instances").get<std::map<std::string, std::uint32_t>>();
    journal.over = content.at("over");
    journal.joined = content.at("joined").get<std::map<std::string, std::uint32_t>>();
  } catch (const nlohmann::json::exception& exception) {
    return corrupt(exception.what());
  }
  return journal;
}

Status save_journal(const std::filesystem::path& file, const ChiefJournal& journal) {
  const Json content = {{"term", journal.term},   {"last_cut", journal.last_cut},   {"cuts_begun", journal.cuts_begun},
                        {"nodes", journal.nodes}, {"instances", journal.instances}, {"joined", journal.joined},
                        {"over", journal.over}};
  const Json json = {{"version", kVersion}, {"crc32c", checksum(content)}, {"journal", content}};
  return write_file_atomic(file.string(), json.dump(2) + "\n");
}

}  // namespace troupe::actors
