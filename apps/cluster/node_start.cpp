#include <troupe/apps/cluster/node_start.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/text.hpp>

namespace troupe::apps {
namespace {

using Json = nlohmann::json;

constexpr Duration kAuthorityPatience = std::chrono::seconds(60);
constexpr Duration kAuthoritySaidAfter = std::chrono::seconds(5);
constexpr std::string_view kAnnouncement = "troupe.chief listens on ";

transport::WallTime now() { return std::chrono::system_clock::now(); }

}  // namespace

std::string to_text(const NodeStart& start) {
  const Json json = {{"program", start.program},
                     {"node", start.node},
                     {"cluster", start.cluster},
                     {"config", start.config},
                     {"authority", start.credentials.authority},
                     {"certificate", start.credentials.certificate},
                     {"key", start.credentials.key},
                     {"authority_key", start.authority_key},
                     {"resume", start.resume},
                     {"chief", start.chief},
                     {"announces", start.announces},
                     {"begun", start.begun},
                     {"locked", start.locked},
                     {"before", start.before}};
  return json.dump();
}

Result<NodeStart> parse_node_start(std::string_view text, std::string_view program) {
  try {
    const Json json = Json::parse(text);
    if (const std::string other = json.at("program"); other != program) {
      return Error{Code::kInvalidArgument, fmt::format("TRP-E160 the launcher is troupe {}, this host has troupe {}: "
                                                       "build the same commit on both",
                                                       printable(other), program)};
    }
    NodeStart start;
    start.program = program;
    json.at("node").get_to(start.node);
    json.at("cluster").get_to(start.cluster);
    json.at("config").get_to(start.config);
    json.at("authority").get_to(start.credentials.authority);
    json.at("certificate").get_to(start.credentials.certificate);
    json.at("key").get_to(start.credentials.key);
    json.at("authority_key").get_to(start.authority_key);
    json.at("resume").get_to(start.resume);
    json.at("chief").get_to(start.chief);
    json.at("announces").get_to(start.announces);
    json.at("begun").get_to(start.begun);
    json.at("locked").get_to(start.locked);
    json.at("before").get_to(start.before);
    return start;
  } catch (const Json::exception&) {  // its text could quote a key
    return Error{
        Code::kInvalidArgument,
        fmt::format("node: {} bytes in the standard input, expected what the launcher of the same version writes",
                    text.size())};
  }
}

std::string announcement(const transport::Address& address) {
  return fmt::format("{}{}", kAnnouncement, transport::to_string(address));
}

std::optional<transport::Address> announced(std::string_view line) {
  if (!line.starts_with(kAnnouncement)) return std::nullopt;
  const auto address = transport::parse_address(line.substr(kAnnouncement.size()));
  return address.ok() ? std::optional(*address) : std::nullopt;
}

transport::Identity identity_of(const ClusterSpec& cluster, const NodeSpec& node) {
  transport::Identity identity{cluster.run, {}, node.name};
  if (node.name == kChiefName) identity.roles.push_back(kChiefName);
  for (const HostedRole& role : node.roles) identity.roles.push_back(role.role);
  return identity;
}

Result<transport::Authority> open_authority(const std::string& security, const std::string& run) {
  Result<transport::Authority> found = transport::Authority::load(security, now());
  if (found.ok() || found.error().code != Code::kNotFound) return found;
  TROUPE_ASSIGN(transport::Authority made, transport::Authority::create(run, now()));
  TROUPE_TRY(made.save(security));
  return made;
}

Result<transport::Authority> await_authority(const std::string& security) {
  const SteadyClock clock;
  const Duration begun = clock.now(), end = begun + kAuthorityPatience;
  for (bool said = false;;) {
    Result<transport::Authority> found = transport::Authority::load(security, now());
    if (found.ok() || found.error().code != Code::kNotFound) return found;
    if (!std::exchange(said, clock.now() - begun > kAuthoritySaidAfter)) {
      if (said) log::info("{}: not there yet; the chief makes it, and this node waits for it", security);
    }
    if (clock.now() > end) {
      return Error{Code::kDeadlineExceeded,
                   fmt::format("{}: no authority appeared in {:g} s: does this node share the run directory with the "
                               "chief, and has the chief started?",
                               security, seconds(kAuthorityPatience))};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

Status keep_authority(const std::string& security, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(security).parent_path(), error);
  if (mkdir(security.c_str(), 0700) != 0 && errno != EEXIST) {
    return Error{Code::kIo, fmt::format("{}: {}", security, std::strerror(errno))};
  }
  const std::string file = security + "/authority.key";
  if (std::filesystem::exists(file, error)) {
    TROUPE_ASSIGN(const auto there, read_file(file, 1 << 16));
    if (std::equal(there.begin(), there.end(), text.begin(), text.end(),
                   [](std::byte a, char b) { return a == static_cast<std::byte>(b); })) {
      return {};
    }
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: another authority than the launcher's: one of the two belongs to another run, or was "
                             "deleted and made anew; delete this one to go on with the launcher's",
                             file)};
  }
  TROUPE_TRY(write_file_atomic(file, text, 0600));
  const Result<transport::Authority> good = transport::Authority::load(security, now());
  return good.ok() ? Status() : good.error();
}

}  // namespace troupe::apps
