#include <troupe/apps/cluster/node_place.hpp>

#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/core.h>

#include <troupe/actors/d4pg_topology.hpp>
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
constexpr Duration kAnswerTimeout = std::chrono::seconds(2);

transport::WallTime now() { return std::chrono::system_clock::now(); }

std::string security_folder(const fs::path& run_dir) { return (run_dir / "security").string(); }
fs::path node_folder(const fs::path& run_dir, const std::string& node) { return run_dir / "nodes" / node; }

/// The chief's part of a join.
std::function<void(std::unique_ptr<transport::Link>)> answer_joins(transport::Authority authority,
                                                                   const std::string& security) {
  struct Office {
    transport::Authority authority;
    SteadyClock clock;
    transport::TokenLedger ledger;
    Office(transport::Authority a, const std::string& folder) : authority(std::move(a)), ledger(folder, clock) {}
  };
  const auto office = std::make_shared<Office>(std::move(authority), security);
  return [office](std::unique_ptr<transport::Link> link) {
    const auto joined = transport::answer_join(*link, office->authority, office->ledger, now(), kAnswerTimeout);
    if (joined.ok()) {
      log::info("node {} has traded its token for a certificate", joined->node);
    } else {
      log::warn("{}", joined.error().message);
    }
  };
}

/// What an earlier start with a token left in `run_dir`.
Result<transport::Credentials> kept_credentials(const fs::path& run_dir) {
  std::error_code error;
  for (const auto& folder : fs::directory_iterator(run_dir / "nodes", error)) {
    const auto kept = transport::load_credentials(folder.path().string(), now());
    if (kept.ok() || kept.error().code != Code::kNotFound) return kept;
  }
  return Error{Code::kNotFound, "no credentials"};
}

Result<transport::Credentials> trade(const std::string& file, const fs::path& run_dir) {
  const auto kept = kept_credentials(run_dir);
  if (kept.ok() || kept.error().code != Code::kNotFound) return kept;
  TROUPE_ASSIGN(const transport::JoinToken token, transport::load_join_token(file, now()));
  TROUPE_ASSIGN(const transport::Credentials credentials, transport::join(token, kJoinTimeout));
  std::error_code error;
  fs::create_directories(run_dir / "nodes", error);
  TROUPE_TRY(transport::save_credentials(credentials, node_folder(run_dir, token.node.node).string()));
  TROUPE_TRY(write_file_atomic((run_dir / "chief.address").string(), transport::to_string(token.chief) + "\n"));
  return credentials;
}

}  // namespace

actors::NodePlace place_in(const ClusterSpec& cluster, const NodeSpec& node, const RunDirectory& directory) {
  actors::NodePlace place;
  place.run_dir = directory.path;
  place.self = identity_of(cluster, node);
  place.listen = node.address;
  place.advertised_host = node.address.host;  // as the others know it, whatever it is on this host
  place.chief = cluster.nodes.front().address;
  if (node.name != kChiefName) return place;
  for (const NodeSpec& each : cluster.nodes) {
    actors::PlacedNode& placed = place.placement.emplace_back();
    placed.name = each.name;
    for (const HostedRole& role : each.roles) {
      placed.shares.push_back({role.role, {role.instances.begin(), role.instances.end()}});
    }
  }
  return place;
}

Status complete(actors::NodePlace& place) {
  const std::string security = security_folder(place.run_dir);
  if (place.self.node == kChiefName) {
    TROUPE_ASSIGN(transport::Authority authority, open_authority(security, place.self.run));
    place.on_join = answer_joins(std::move(authority), security);
    return {};
  }
  if (place.chief.port != 0) return {};
  TROUPE_ASSIGN(place.chief, actors::wait_for_chief(place.run_dir, kChiefPatience));
  return {};
}

Result<actors::NodePlace> join_run(const Joining& joining, const RunDirectory& directory) {
  actors::NodePlace place;
  place.run_dir = directory.path;
  place.listen = joining.listen;
  if (!joining.token.empty()) {
    TROUPE_ASSIGN(place.credentials, trade(joining.token, place.run_dir));
    TROUPE_ASSIGN(const transport::CertificateInfo certificate,
                  transport::read_certificate(place.credentials.certificate));
    place.self = certificate.identity;
  } else {
    if (!transport::is_name(joining.name) || joining.name == kChiefName) {
      return Error{Code::kInvalidArgument, fmt::format("--name \"{}\": expected a new name for this node, 1 .. {} "
                                                       "characters of a-z 0-9 . _ -, a letter or digit first",
                                                       printable(joining.name), transport::kNameBytesMax)};
    }
    TROUPE_ASSIGN(const transport::Authority authority, await_authority(security_folder(place.run_dir)));
    place.self = {authority.run(), {actors::kActorRole}, joining.name};
    TROUPE_ASSIGN(place.credentials, authority.issue(place.self, now()));
  }
  TROUPE_ASSIGN(place.chief, actors::wait_for_chief(place.run_dir, kChiefPatience));
  return place;
}

}  // namespace troupe::apps
