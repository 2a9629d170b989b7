#include <troupe/apps/cluster/node_place.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <troupe/apps/cluster/cluster_file.hpp>
#include <troupe/apps/cluster/node_start.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/text.hpp>
#include <troupe/transport/join.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

constexpr Duration kChiefPatience = std::chrono::seconds(60);
constexpr Duration kJoinTimeout = std::chrono::seconds(10);
/// Others who join or ask for the status wait meanwhile.
constexpr Duration kAnswerTimeout = std::chrono::milliseconds(500);

transport::WallTime wall_now() { return std::chrono::system_clock::now(); }

std::string security_folder(const fs::path& run_dir) { return (run_dir / "security").string(); }
fs::path node_folder(const fs::path& run_dir, const std::string& node) { return run_dir / "nodes" / node; }

Error is_planned(const std::string& what, const std::string& name) {
  return Error{Code::kInvalidArgument,
               fmt::format("{}: {} is a node that the run has planned, expected a new name", what, name)};
}

/// The chief's part of a join.
std::function<void(std::unique_ptr<transport::Link>)> answer_joins(transport::Authority authority,
                                                                   const std::string& security,
                                                                   const std::vector<actors::PlacedNode>& planned) {
  struct Office {
    transport::Authority authority;
    std::set<std::string> planned;
    SteadyClock clock;
    transport::TokenLedger ledger;
    Office(transport::Authority a, const std::string& folder) : authority(std::move(a)), ledger(folder, clock) {}
  };
  const auto office = std::make_shared<Office>(std::move(authority), security);
  for (const actors::PlacedNode& node : planned) office->planned.insert(node.name);
  return [office](std::unique_ptr<transport::Link> link) {
    const auto may_be = [&](const transport::Identity& node) -> Status {
      return office->planned.contains(node.node) ? is_planned("join token", node.node) : Status();
    };
    const auto joined =
        transport::answer_join(*link, office->authority, office->ledger, wall_now(), kAnswerTimeout, may_be);
    if (joined.ok()) {
      log::info("node {} has traded its token for a certificate", joined->node);
    } else {
      log::warn("{}", joined.error().message);
    }
  };
}

/// What a token that is gone was traded for. Errors: kNotFound, kInvalidArgument (of several nodes).
Result<transport::Credentials> kept_credentials(const fs::path& run_dir) {
  std::error_code error;
  std::vector<std::string> names;
  transport::Credentials found;
  for (const auto& folder : fs::directory_iterator(run_dir / "nodes", error)) {
    auto kept = transport::load_credentials(folder.path().string(), wall_now());
    if (!kept.ok()) continue;
    names.push_back(folder.path().filename().string());
    found = std::move(kept).value();
  }
  if (names.empty()) return Error{Code::kNotFound, "no valid credentials are kept"};
  if (names.size() == 1) return found;
  return Error{Code::kInvalidArgument, fmt::format("{}: credentials of the nodes {} are kept, expected those of one",
                                                   run_dir.string(), fmt::join(names, ", "))};
}

/// The valid credentials that were kept of this token, or of an earlier one for the same node of the same run.
std::optional<transport::Credentials> kept_for(const transport::JoinToken& token, const fs::path& folder) {
  const auto kept = transport::load_credentials(folder.string(), wall_now());
  if (!kept.ok()) {
    if (kept.error().code != Code::kNotFound) log::warn("{}: not used", kept.error().message);
    return std::nullopt;
  }
  const auto certificate = transport::read_certificate(kept->certificate);
  if (kept->authority == token.join.authority && certificate.ok() && certificate->identity == token.node) return *kept;
  log::warn("{}: credentials of another run or authority are replaced", folder.string());
  return std::nullopt;
}

Result<transport::Credentials> trade(const std::string& file, const fs::path& run_dir) {
  // It may have expired since it was used.
  const auto token = transport::load_join_token(file, transport::WallTime::min());
  if (!token.ok() && token.error().code == Code::kNotFound) {
    auto kept = kept_credentials(run_dir);
    if (kept.ok() || kept.error().code != Code::kNotFound) return kept;
  }
  if (!token.ok()) return token.error();
  const std::string folder = node_folder(run_dir, token->node.node).string();
  std::optional<transport::Credentials> credentials = kept_for(*token, folder);
  if (!credentials) {
    TROUPE_TRY(transport::load_join_token(file, wall_now()));
    TROUPE_ASSIGN(credentials, transport::join(*token, kJoinTimeout));
    std::error_code error;
    fs::create_directories(run_dir / "nodes", error);
    TROUPE_TRY(transport::save_credentials(*credentials, folder));
  }
  TROUPE_TRY(
      write_file_atomic(RunDirectory{run_dir}.chief_address().string(), transport::to_string(token->chief) + "\n"));
  return *std::move(credentials);
}

}  // namespace

actors::NodePlace place_in(const ClusterSpec& cluster, const NodeSpec& node, const RunDirectory& directory) {
  actors::NodePlace place;
  place.run_dir = directory.path;
  place.network.self = identity_of(cluster, node);
  place.network.listen = node.address;
  place.advertised_host = node.address.host;  // as the others know it, whatever it is on this host
  if (node.name != kChiefName) {
    place.network.chief = cluster.nodes.front().address;
    return place;
  }
  for (const NodeSpec& each : cluster.nodes) {
    actors::PlacedNode& placed = place.runtime.chief.placement.emplace_back();
    placed.name = each.name;
    for (const HostedRole& role : each.roles) {
      placed.shares.push_back({role.role, {role.instances.begin(), role.instances.end()}});
    }
  }
  return place;
}

Status complete(actors::NodePlace& place) {
  const std::string security = security_folder(place.run_dir);
  if (place.network.self.node == kChiefName) {
    TROUPE_ASSIGN(transport::Authority authority, open_authority(security, place.network.self.run));
    place.network.on_join = answer_joins(std::move(authority), security, place.runtime.chief.placement);
    return {};
  }
  if (place.network.chief->port != 0) return {};
  TROUPE_ASSIGN(place.network.chief, actors::wait_for_chief(place.run_dir, kChiefPatience));
  return {};
}

Status check_joining_name(const fs::path& run_dir, const std::string& name) {
  TROUPE_ASSIGN(const auto planned, planned_names(run_dir / "cluster.toml"));
  return std::ranges::find(planned, name) == planned.end() ? Status() : is_planned("--name", name);
}

Result<std::string> elastic_role(const std::vector<std::string>& roles, const std::string& wanted) {
  if (wanted.empty() && roles.size() == 1) return roles.front();
  if (std::ranges::find(roles, wanted) != roles.end()) return wanted;
  if (roles.empty()) {
    return Error{Code::kInvalidArgument, "--role: no role of this run may be hosted by nodes that join it"};
  }
  return Error{Code::kInvalidArgument,
               fmt::format("--role: got \"{}\", expected {}: only {} may be hosted by nodes that "
                           "join a run",
                           printable(wanted), fmt::join(roles, " or "), roles.size() == 1 ? "it" : "these")};
}

Result<actors::NodePlace> join_run(const Joining& joining, const RunDirectory& directory) {
  actors::NodePlace place;
  place.run_dir = directory.path;
  place.network.listen = joining.listen;
  place.runtime.node.elastic_instances = joining.instances;
  if (!joining.token.empty()) {
    TROUPE_ASSIGN(place.network.credentials, trade(joining.token, place.run_dir));
    TROUPE_ASSIGN(const transport::CertificateInfo certificate,
                  transport::read_certificate(place.network.credentials.certificate));
    place.network.self = certificate.identity;
  } else {
    if (!transport::is_name(joining.name) || joining.name == kChiefName) {
      return Error{Code::kInvalidArgument, fmt::format("--name \"{}\": expected a new name for this node, 1 .. {} "
                                                       "characters of a-z 0-9 . _ -, a letter or digit first",
                                                       printable(joining.name), transport::kNameBytesMax)};
    }
    TROUPE_TRY(check_joining_name(place.run_dir, joining.name));
    TROUPE_ASSIGN(const transport::Authority authority, await_authority(security_folder(place.run_dir)));
    place.network.self = {authority.run(), {joining.role}, joining.name};
    TROUPE_ASSIGN(place.network.credentials, authority.issue(place.network.self, wall_now()));
  }
  TROUPE_ASSIGN(place.network.chief, actors::wait_for_chief(place.run_dir, kChiefPatience));
  return place;
}

}  // namespace troupe::apps
