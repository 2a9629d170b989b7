#include <troupe/apps/cluster/cluster_spec.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>

#include <fmt/core.h>

#include <troupe/actors/d4pg_topology.hpp>
#include <troupe/core/text.hpp>

namespace troupe::apps {
namespace {

bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

}  // namespace

const NodeSpec* ClusterSpec::find(std::string_view node) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const NodeSpec& n) { return n.name == node; });
  return found == nodes.end() ? nullptr : &*found;
}

std::vector<RoleCount> role_counts(const actors::TrainOptions& options) {
  return {{actors::kReplayRole, options.replay.shards},
          {actors::kLearnerRole, 1},
          {actors::kParametersRole, options.parameters.shards},
          {actors::kEvaluatorRole, 1},
          {actors::kActorRole, options.actors.count}};
}

bool is_host(std::string_view text) {
  const bool ip_v6 = std::count(text.begin(), text.end(), ':') >= 2;
  return !text.empty() && text.size() <= 253 && (is_alnum(text[0]) || text[0] == ':') &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return is_alnum(c) || c == '-' || c == '.' || c == '_' || (ip_v6 && (c == ':' || c == '%'));
         });
}

Result<Address> parse_address(std::string_view text) {
  const auto bad = [&](std::string_view expected) {
    return Error{Code::kInvalidArgument, fmt::format("\"{}\": expected {}", printable(text), expected)};
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("HOST:PORT");
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!is_host(host)) return bad("a host name or an IP address before the last colon");
  if (!bracketed && host.find(':') != std::string_view::npos)
    return bad("an IPv6 address in brackets, as in [::1]:7600");
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0) return bad("a port in 1 .. 65535");
  return Address{std::string(host), port};
}

std::string to_string(const Address& address) {
  const bool ip_v6 = address.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", ip_v6 ? "[" : "", address.host, ip_v6 ? "]" : "", address.port);
}

}  // namespace troupe::apps
