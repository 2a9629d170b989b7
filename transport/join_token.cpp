#include <troupe/transport/join_token.hpp>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/check.hpp>
#include <troupe/core/json_nesting.hpp>
#include <troupe/core/sha256.hpp>
#include <troupe/core/text.hpp>
#include <troupe/transport/detail/private_files.hpp>

namespace troupe::transport {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kTokenBytesMax = 32 * 1024;
constexpr int kFormat = 1;
constexpr const char* kTokenKey = "troupe_join_token";
constexpr const char* kEntryKey = "troupe_token_entry";
constexpr Duration kFailureWindow = std::chrono::minutes(1);
/// A token that is over is remembered this long, so that its bearer hears why it does not work.
constexpr std::chrono::hours kRemembered{24};

Error refused(std::string_view why) {
  return Error{Code::kInvalidArgument, fmt::format("TRP-S712 join token {}", why)};
}

std::string random_digits(std::size_t bytes) {
  Sha256::Digest random;
  TROUPE_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), random.size()) == 1, "no random numbers");
  return to_hex(random).substr(0, 2 * bytes);
}

/// Hides the id: what the ledger stores, and, cut short, how it calls the file.
std::string digest_of(std::string_view id) { return sha256_hex(std::as_bytes(std::span(id))); }
std::string handle_of(const std::string& digest) { return digest.substr(0, 16); }

/// A JSON object of exactly these fields, all strings, and "troupe_...": the format's number.
using Fields = std::vector<std::pair<std::string, std::string*>>;

std::string write_fields(const char* format_key, const Fields& fields) {
  nlohmann::ordered_json object{{format_key, kFormat}};
  for (const auto& [key, value] : fields) object[key] = *value;
  return object.dump(2) + "\n";
}

Status read_fields(std::string_view text, std::string_view origin, const char* format_key, const Fields& fields) {
  const auto malformed = [&](std::string_view what) {
    return Error{Code::kInvalidArgument, fmt::format("{}: {}", origin, what)};
  };
  if (text.size() > kTokenBytesMax) {
    return malformed(fmt::format("{} bytes, expected at most {}", text.size(), kTokenBytesMax));
  }
  // Nothing in such an object nests; what does could end the process when it is quoted below.
  const Json object = json_nests_beyond(text, 1) ? Json() : Json::parse(text, nullptr, false);
  if (!object.is_object() || !object.contains(format_key)) {
    return malformed(fmt::format("expected a JSON object with \"{}\"", format_key));
  }
  if (object[format_key] != kFormat) {
    return malformed(
        fmt::format("\"{}\" is {}, expected {}", format_key, printable(object[format_key].dump(), 64), kFormat));
  }
  for (const auto& [key, value] : fields) {
    if (!object.contains(key) || !object[key].is_string()) return malformed(fmt::format("expected a text \"{}\"", key));
    *value = object[key].get<std::string>();
  }
  for (const auto& [key, value] : object.items()) {
    if (key == format_key || std::ranges::find(fields, key, &Fields::value_type::first) != fields.end()) continue;
    return malformed(fmt::format("unknown field \"{}\"", printable(key, 64)));
  }
  return {};
}

bool is_id(std::string_view text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// What the ledger stores about a token.
struct Entry {
  std::string digest;
  Identity node;
  WallTime expires;
};

Status write_entry(const std::string& path, const Entry& entry) {
  std::string digest = entry.digest, expires = format_time(entry.expires);
  TROUPE_ASSIGN(std::string node, to_uri(entry.node));
  return write_private_file(path,
                            write_fields(kEntryKey, {{"digest", &digest}, {"node", &node}, {"expires", &expires}}));
}

Result<Entry> read_entry(const std::string& path) {
  TROUPE_ASSIGN(const std::string text, read_private_file(path, kTokenBytesMax, GroupMay::kClose));
  Entry entry;
  std::string node, expires;
  TROUPE_TRY(read_fields(text, path, kEntryKey, {{"digest", &entry.digest}, {"node", &node}, {"expires", &expires}}));
  TROUPE_ASSIGN(entry.node, parse_identity(node));
  TROUPE_ASSIGN(entry.expires, parse_time(expires));
  return entry;
}

}  // namespace

Result<std::string> to_text(const JoinToken& token) {
  std::string chief = to_string(token.chief), id = token.id;
  TROUPE_ASSIGN(std::string node, to_uri(token.node));
  Credentials join = token.join;
  return write_fields(kTokenKey, {{"chief", &chief},
                                  {"node", &node},
                                  {"id", &id},
                                  {"authority", &join.authority},
                                  {"certificate", &join.certificate},
                                  {"key", &join.key}});
}

Status save_join_token(const JoinToken& token, const std::string& path) {
  TROUPE_ASSIGN(const std::string text, to_text(token));
  return write_private_file(path, text);
}

Result<JoinToken> load_join_token(const std::string& path, WallTime now) {
  TROUPE_ASSIGN(const std::string text, read_private_file(path, kTokenBytesMax, GroupMay::kRefuse));
  return parse_join_token(text, path, now);
}

Result<JoinToken> parse_join_token(std::string_view text, std::string_view origin, WallTime now) {
  JoinToken token;
  std::string chief, node;
  TROUPE_TRY(read_fields(text, origin, kTokenKey,
                         {{"chief", &chief},
                          {"node", &node},
                          {"id", &token.id},
                          {"authority", &token.join.authority},
                          {"certificate", &token.join.certificate},
                          {"key", &token.join.key}}));
  const auto malformed = [&](std::string_view field, std::string_view why) {
    return Error{Code::kInvalidArgument, fmt::format("{}: {}: {}", origin, field, why)};
  };
  auto address = parse_address(chief);
  if (!address.ok()) return malformed("chief", address.error().message);
  token.chief = std::move(*address);
  auto identity = parse_identity(node);
  if (!identity.ok()) return malformed("node", identity.error().message);
  token.node = std::move(*identity);
  if (!is_id(token.id)) return malformed("id", "expected 64 hexadecimal digits");
  const auto certificate = check(token.join);
  if (!certificate.ok()) return malformed("certificate", certificate.error().message);
  if (certificate->identity.run != token.node.run || !certificate->identity.has_role(kJoinRole)) {
    return malformed("certificate", fmt::format("is of {}, expected the role {} in the run {}",
                                                to_uri(certificate->identity).value(), kJoinRole, token.node.run));
  }
  token.expires = certificate->valid_until;
  if (now >= token.expires) return refused("expired at " + format_time(token.expires));
  return token;
}

TokenLedger::TokenLedger(const std::string& security_folder, const Clock& clock)
    : folder_(security_folder + "/tokens"), clock_(clock) {}

Result<JoinToken> TokenLedger::issue(const Authority& authority, Identity node, const Address& chief, WallTime now,
                                     std::chrono::seconds lifetime) {
  if (lifetime <= std::chrono::seconds::zero() || lifetime > kTokenLifetimeMax) {
    return refused(fmt::format("lifetime of {} s, expected 1 to {}", lifetime.count(),
                               std::chrono::seconds(kTokenLifetimeMax).count()));
  }
  if (node.node.empty() && !node.roles.empty()) node.node = node.roles.front() + "-" + random_digits(4);
  TROUPE_TRY(to_uri(node));
  if (node.has_role(kJoinRole)) return refused(fmt::format("for the role {}, which no node has", kJoinRole));
  TROUPE_TRY(make_private_folder(folder_));
  TROUPE_TRY(make_room(now));
  JoinToken token{.chief = chief, .node = std::move(node), .id = random_digits(32)};
  const std::string digest = digest_of(token.id);
  // Named after the token, so that a log says which one came.
  const Identity bearer{authority.run(), {std::string(kJoinRole)}, "token-" + handle_of(digest)};
  TROUPE_ASSIGN(token.join, authority.issue(bearer, now, lifetime));
  TROUPE_ASSIGN(const CertificateInfo certificate, read_certificate(token.join.certificate));
  token.expires = certificate.valid_until;
  TROUPE_TRY(write_entry(open_file(handle_of(digest)), {digest, token.node, token.expires}));
  return token;
}

Result<Identity> TokenLedger::redeem(std::string_view id, std::string_view bearer, WallTime now) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, times] : failures_) {
    while (!times.empty() && clock_.now() >= times.front() + kFailureWindow) times.pop_front();
  }
  std::erase_if(failures_, [](const auto& entry) { return entry.second.empty(); });
  const auto known = failures_.find(bearer);
  if (known != failures_.end() && known->second.size() >= kFailuresMax) {
    const Duration left = known->second.front() + kFailureWindow - clock_.now();
    return Error{Code::kUnavailable,
                 fmt::format("TRP-S712 join token not looked at: {} wrong ones in a minute, try again in {:.0f} s",
                             kFailuresMax, std::ceil(seconds(left)))};
  }
  auto node = look_up(id, now);
  if (!node.ok() && node.error().code == Code::kInvalidArgument) {
    failures_[std::string(bearer)].push_back(clock_.now());
  }
  return node;
}

Result<Identity> TokenLedger::look_up(std::string_view id, WallTime now) const {
  if (!is_id(id)) return refused("is not one of this run");
  const std::string digest = digest_of(id);
  const std::string open = open_file(handle_of(digest)), used = used_file(handle_of(digest));
  auto entry = read_entry(open);
  const bool was_used = !entry.ok() && entry.error().code == Code::kNotFound;
  if (was_used) entry = read_entry(used);
  if (!entry.ok() && entry.error().code == Code::kNotFound) return refused("is not one of this run");
  if (!entry.ok()) return Error{Code::kIo, "TRP-S712 join token: the ledger is damaged: " + entry.error().message};
  if (entry->digest.size() != digest.size() || CRYPTO_memcmp(entry->digest.data(), digest.data(), digest.size()) != 0) {
    return refused("is not one of this run");
  }
  if (now >= entry->expires) return refused("expired at " + format_time(entry->expires));
  // The rename is what makes it once: of several, in whatever processes, one finds the file.
  if (was_used || std::rename(open.c_str(), used.c_str()) != 0) {
    if (was_used || errno == ENOENT) return refused("was used already");
    return Error{Code::kIo, fmt::format("TRP-S712 join token: rename {}: {}", open, std::strerror(errno))};
  }
  TROUPE_TRY(fsync_directory(folder_));
  return entry->node;
}

/// Looks through the files only when there are many of them.
Status TokenLedger::make_room(WallTime now) const {
  std::error_code error;
  std::vector<std::string> files;
  for (const auto& file : fs::directory_iterator(folder_, error)) files.push_back(file.path().string());
  std::size_t left = files.size();
  for (const std::string& file : files) {
    if (files.size() < kTokensMax) break;
    const auto entry = read_entry(file);
    // What cannot be read is left for a person to look at.
    if (entry.ok() && now >= entry->expires + kRemembered) left -= fs::remove(file, error) ? 1 : 0;
  }
  if (error) return Error{Code::kIo, fmt::format("clear {}: {}", folder_, error.message())};
  if (left < kTokensMax) return {};
  return Error{Code::kUnavailable, fmt::format("TRP-S712 join token not made: {} others are known", left)};
}

std::string TokenLedger::open_file(const std::string& handle) const { return folder_ + "/" + handle + ".open"; }
std::string TokenLedger::used_file(const std::string& handle) const { return folder_ + "/" + handle + ".used"; }

}  // namespace troupe::transport
