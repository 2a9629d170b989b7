#pragma once
// Who a node is: the run it belongs to, the roles it may play, and its name, as the URI in its certificate:
// troupe://<run>/<roles joined by +>/<node>. Links, the listener and the authority use it; what a peer may send follows
// from its roles here and never from anything that it says about itself.
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::transport {

/// Longest name of a run, a role or a node, and most roles of one node: with them every URI is bounded.
inline constexpr std::size_t kNameBytesMax = 64;
inline constexpr std::size_t kRolesMax = 16;

struct Identity {
  std::string run;
  std::vector<std::string> roles;  ///< at least one, none twice
  std::string node;                ///< unique in the run; also the name of its folders

  bool operator==(const Identity&) const = default;
  bool has_role(std::string_view role) const;
};

/// 1 to kNameBytesMax characters of a-z 0-9 . _ - that begin with a letter or digit, so that a name is safe as a file
/// name ("." and ".." are none) and as an argument of a command.
bool is_name(std::string_view text);

/// "troupe://run-1/actor+evaluator/node-3". Errors: kInvalidArgument naming the part that is no name, missing or
/// repeated.
Result<std::string> to_uri(const Identity& identity);

/// The opposite of to_uri, which it matches byte for byte: every identity has one spelling. Errors: kInvalidArgument.
Result<Identity> parse_identity(std::string_view uri);

}  // namespace troupe::transport
