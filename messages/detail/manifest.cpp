#include <troupe/messages/detail/manifest.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include <troupe/core/sha256.hpp>

namespace troupe::messages {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;

json to_json(const Manifest& manifest) {
  json files = json::array();
  for (const ManifestFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  return {{"format", kFormat}, {"run_id", manifest.run_id}, {"learner_step", manifest.learner_step}, {"files", files}};
}

Error corrupt(std::string what) { return Error{Code::kCorrupt, std::move(what)}; }

}  // namespace

Status check_file_name(std::string_view name, std::string_view what) {
  constexpr std::size_t kMaxBytes = 120;
  const bool good = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
  if (good && !name.empty() && name.front() != '.' && name.size() <= kMaxBytes) return {};
  return Error{Code::kInvalidArgument, fmt::format("{}: the name \"{}\" is not 1..{} letters, digits, '.', '_' or '-' "
                                                   "without a '.' in front",
                                                   what, name.substr(0, kMaxBytes), kMaxBytes)};
}

std::string encode_manifest(const Manifest& manifest) {
  const json body = to_json(manifest);
  const std::string text = body.dump();
  return json{{"manifest", body}, {"sha256", sha256_hex(std::as_bytes(std::span(text)))}}.dump(2) + "\n";
}

Result<Manifest> parse_manifest(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const json file = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (file.is_discarded()) return corrupt("not JSON");
  Manifest manifest;
  try {
    const json& body = file.at("manifest");
    if (const int format = body.at("format").get<int>(); format != kFormat) {
      return corrupt(fmt::format("got format {}, this program reads {}", format, kFormat));
    }
    manifest.run_id = body.at("run_id").get<std::string>();
    manifest.learner_step = body.at("learner_step").get<std::int64_t>();
    for (const json& entry : body.at("files")) {
      manifest.files.push_back({entry.at("name").get<std::string>(), entry.at("bytes").get<std::uint64_t>(),
                                entry.at("sha256").get<std::string>()});
    }
    // The comparison finds the flips that leave valid JSON: in a value (the hash differs), a key, white space.
    if (encode_manifest(manifest) != text) return corrupt("content does not match its own SHA-256 and form");
  } catch (const json::exception& exception) {
    return corrupt(fmt::format("not a manifest ({})", exception.what()));
  }
  for (const ManifestFile& entry : manifest.files) {
    if (const Status good = check_file_name(entry.name, "file"); !good.ok()) return corrupt(good.error().message);
  }
  return manifest;
}

}  // namespace troupe::messages
