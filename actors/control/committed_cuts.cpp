#include <troupe/actors/control/committed_cuts.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/sha256.hpp>
#include <troupe/messages/checkpoint_files.hpp>

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 1;
constexpr const char* kNewestFile = "cut.json";
constexpr std::string_view kPrefix = "cut-";
constexpr std::string_view kSuffix = ".json";
constexpr std::string_view kAside = ".damaged.json";
/// Names of a run with 100 000 instances fit.
constexpr std::uint64_t kMaxCutBytes = std::uint64_t{64} << 20;

std::string file_name(std::uint64_t number, std::string_view suffix) {
  return fmt::format("{}{:09}{}", kPrefix, number, suffix);
}

/// The number in such a name.
std::optional<std::uint64_t> parse_file_name(std::string_view name, std::string_view suffix) {
  if (!name.starts_with(kPrefix) || !name.ends_with(suffix)) return {};
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number);
  return error == std::errc() && file_name(number, suffix) == name ? std::optional(number) : std::nullopt;
}

std::string encode(const CommittedCut& cut) {
  json parts = json::array();
  for (const CutPart& part : cut.parts) {
    parts.push_back({{"node", part.node}, {"sha256", part.id}, {"instances", part.instances}, {"here", part.here}});
  }
  const json body = {{"format", kFormat}, {"cut", cut.number}, {"parts", parts}};
  const std::string text = body.dump();
  return json{{"manifest", body}, {"sha256", sha256_hex(std::as_bytes(std::span(text)))}}.dump(1) + "\n";
}

/// Accepts only what encode() would write, so that no flipped byte goes unseen.
Result<CommittedCut> decode(std::string_view text) {
  const auto corrupt = [](const std::string& what) { return Error{Code::kCorrupt, what}; };
  const json file = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (file.is_discarded()) return corrupt("is not JSON");
  CommittedCut cut;
  try {
    if (!file.contains("manifest")) return corrupt("has no manifest of a cut");
    const json& body = file.at("manifest");
    if (body.at("format") != kFormat) {
      return corrupt(fmt::format("is of format {}, this program reads {}", body.at("format").dump(), kFormat));
    }
    cut.number = body.at("cut").get<std::uint64_t>();
    for (const json& part : body.at("parts")) {
      cut.parts.push_back({part.at("node").get<std::string>(), part.at("sha256").get<std::string>(),
                           part.at("instances").get<std::vector<std::string>>(), part.at("here").get<bool>()});
    }
    if (encode(cut) != text) return corrupt("does not match its own SHA-256 and form");
  } catch (const json::exception& exception) {
    return corrupt(fmt::format("is no manifest of a cut ({})", exception.what()));
  }
  for (const CutPart& part : cut.parts) {
    const bool inside = !part.node.empty() && part.node.find('/') == std::string::npos && part.node.front() != '.';
    if (!inside) return corrupt("names a part outside of its folder");
  }
  return cut;
}

/// A cut's file, good or not.
struct CutFile {
  std::string name;
  std::optional<std::uint64_t> number;  ///< none: of a cut.json that cannot be read
  Result<CommittedCut> cut = Error{};
};

Result<CommittedCut> read_cut(const fs::path& file, std::string* text = nullptr) {
  TROUPE_ASSIGN(const auto bytes, read_file(file.string(), kMaxCutBytes));
  const std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text != nullptr) *text = view;
  return decode(view);
}

/// Newest first; what cannot be read comes before what can.
std::vector<CutFile> cut_files(const fs::path& directory) {
  std::vector<CutFile> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    const auto number = parse_file_name(name, kSuffix);
    if (!number && name != kNewestFile) continue;
    CutFile file{name, number, read_cut(entry.path())};
    if (file.cut.ok() && number && file.cut->number != *number) {
      file.cut = Error{Code::kCorrupt, fmt::format("is of the cut {}", file.cut->number)};
    }
    if (file.cut.ok()) file.number = file.cut->number;
    files.push_back(std::move(file));
  }
  const auto key = [](const CutFile& file) { return std::pair(file.number.value_or(UINT64_MAX), file.cut.ok()); };
  std::ranges::sort(files, std::greater(), key);
  // A copy of what cut.json says still, made just before that was to be replaced.
  // Clang 14 does not compile std::ranges::unique.
  const auto same = [&](const CutFile& a, const CutFile& b) { return key(a) == key(b); };
  files.erase(std::unique(files.begin(), files.end(), same), files.end());
  return files;
}

Error none_committed(const fs::path& directory) {
  return {Code::kNotFound, fmt::format("{}: there is no checkpoint of a run over nodes", directory.string())};
}

Error none_whole(const fs::path& directory, const std::vector<messages::RejectedCheckpoint>& rejected) {
  std::string message = fmt::format("{}: no checkpoint is whole", directory.string());
  for (const auto& one : rejected) message += fmt::format("; {}: {}", one.name, one.reason);
  return {Code::kCorrupt, std::move(message)};
}

messages::RejectedCheckpoint reject(const CutFile& file) {
  return {file.number ? cut_name(*file.number) : "the newest checkpoint",
          fmt::format("{} {}", file.name, file.cut.error().message)};
}

/// Whether it cannot be used for a part that is here, or should be; sets whether some part is not.
Status check_here(const fs::path& directory, const CommittedCut& cut, bool& all_here) {
  all_here = true;
  for (const CutPart& part : cut.parts) {
    const auto id = messages::checkpoint_id((directory / part.node).string(), cut_name(cut.number));
    if (!part.here && (!id.ok() || *id != part.id)) {
      all_here = false;
      continue;
    }
    const Status good = check_part(directory, part.node, cut.number, part.id);
    if (!good.ok()) {
      return Error{good.error().code, fmt::format("part of node {}: {}", part.node, good.error().message)};
    }
  }
  return {};
}

}  // namespace

bool CommittedCut::has(std::string_view instance) const {
  return std::ranges::any_of(
      parts, [&](const CutPart& part) { return std::ranges::find(part.instances, instance) != part.instances.end(); });
}

std::string cut_name(std::uint64_t number) { return messages::checkpoint_name(static_cast<std::int64_t>(number)); }

Status commit_cut(const fs::path& directory, CommittedCut cut, int keep) {
  for (CutPart& part : cut.parts) {
    const auto id = messages::checkpoint_id((directory / part.node).string(), cut_name(cut.number));
    part.here = id.ok() && *id == part.id;
  }
  const fs::path newest = directory / kNewestFile;
  std::string text;
  if (const auto before = read_cut(newest, &text); before.ok() && before->number != cut.number) {
    TROUPE_TRY(write_file_atomic((directory / file_name(before->number, kSuffix)).string(), text));
  } else if (!before.ok() && before.error().code != Code::kNotFound) {
    log::warn("checkpoint: {} {}; it is replaced", newest.string(), before.error().message);
  }
  TROUPE_TRY(write_file_atomic(newest.string(), encode(cut)));

  int left = keep;
  std::error_code error;
  for (const CutFile& file : cut_files(directory)) {
    if (left > 0) {
      left -= file.cut.ok() ? 1 : 0;
      continue;
    }
    fs::remove(directory / file.name, error);
  }
  // Nobody else does it for a node that has gone.
  const std::vector<std::uint64_t> kept = kept_cuts(directory);
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string node = entry.path().filename().string();
    if (!entry.is_directory(error) || std::ranges::find(cut.parts, node, &CutPart::node) != cut.parts.end()) continue;
    keep_parts(directory, node, kept);
  }
  return {};
}

Result<CommittedCut> newest_cut(const fs::path& directory) {
  const std::vector<CutFile> files = cut_files(directory);
  if (files.empty()) return none_committed(directory);
  std::vector<messages::RejectedCheckpoint> rejected;
  for (const CutFile& file : files) {
    if (file.cut.ok()) return file.cut;
    rejected.push_back(reject(file));
  }
  return none_whole(directory, rejected);
}

Result<CommittedCut> find_cut(const fs::path& directory, std::uint64_t number) {
  for (const CutFile& file : cut_files(directory)) {
    if (file.cut.ok() && file.number == number) return file.cut;
  }
  return Error{Code::kNotFound,
               fmt::format("{}: there is no file of checkpoint {}", directory.string(), cut_name(number))};
}

Result<WholeCuts> whole_cuts(const fs::path& directory) {
  const std::vector<CutFile> files = cut_files(directory);
  if (files.empty()) return none_committed(directory);
  WholeCuts whole;
  for (const CutFile& file : files) {
    if (!file.cut.ok()) {
      whole.rejected.push_back(reject(file));
      continue;
    }
    bool all_here = false;
    if (const Status good = check_here(directory, *file.cut, all_here); !good.ok()) {
      whole.rejected.push_back({cut_name(file.cut->number), good.error().message});
      continue;
    }
    whole.cuts.push_back(*file.cut);
    if (all_here) break;
  }
  if (whole.cuts.empty()) return none_whole(directory, whole.rejected);
  return whole;
}

Status set_aside_newer(const fs::path& directory, std::uint64_t number) {
  for (bool any = false;; any = true) {
    const std::vector<CutFile> files = cut_files(directory);  // of two copies only one at a time
    const auto newer =
        std::ranges::find_if(files, [&](const CutFile& file) { return file.number.value_or(UINT64_MAX) > number; });
    if (newer == files.end()) return any ? fsync_directory(directory.string()) : Status{};
    const std::string name = newer->number ? file_name(*newer->number, kAside) : "cut" + std::string(kAside);
    std::error_code error;
    fs::rename(directory / newer->name, directory / name, error);
    if (error) return Error{Code::kIo, fmt::format("rename to {}: {}", (directory / name).string(), error.message())};
  }
}

std::vector<std::uint64_t> kept_cuts(const fs::path& directory) {
  std::vector<std::uint64_t> numbers;
  for (const CutFile& file : cut_files(directory)) {
    if (file.number) numbers.push_back(*file.number);
  }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    if (const auto number = parse_file_name(entry.path().filename().string(), kAside)) numbers.push_back(*number);
  }
  return numbers;
}

void keep_parts(const fs::path& directory, const std::string& node, const std::vector<std::uint64_t>& numbers) {
  std::error_code ignored;
  if (!fs::is_directory(directory / node, ignored)) return;
  std::vector<std::int64_t> steps(numbers.begin(), numbers.end());
  if (steps.empty()) return;
  const std::string newest = cut_name(std::ranges::max(numbers));
  for (const auto& entry : fs::directory_iterator(directory / node, ignored)) {
    const std::string name = entry.path().filename().string();
    std::int64_t step = 0;
    const auto [stop, error] =
        std::from_chars(name.data() + std::min<std::size_t>(5, name.size()), name.data() + name.size(), step);
    if (error == std::errc() && messages::checkpoint_name(step) == name && name > newest) steps.push_back(step);
  }
  messages::keep_checkpoints((directory / node).string(), steps);
}

namespace {

Status check_id(const std::string& id, const std::string& expected) {
  if (expected.empty() || id == expected) return {};
  return Error{Code::kCorrupt, fmt::format("is not the part that was committed: its manifest has the SHA-256 {}, the "
                                           "cut's file says {}",
                                           id, expected)};
}

}  // namespace

Status check_part(const fs::path& directory, const std::string& node, std::uint64_t number, const std::string& id) {
  TROUPE_ASSIGN(const std::string got, messages::verify_checkpoint((directory / node).string(), cut_name(number)));
  return check_id(got, id);
}

Result<messages::OpenCheckpoint> open_part(const fs::path& directory, const std::string& node, std::uint64_t number,
                                           const std::string& id) {
  const std::string folder = (directory / node).string();
  if (const auto got = messages::checkpoint_id(folder, cut_name(number)); got.ok()) TROUPE_TRY(check_id(*got, id));
  return messages::open_checkpoint(folder, cut_name(number));
}

}  // namespace troupe::actors
