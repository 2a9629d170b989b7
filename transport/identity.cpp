#include <troupe/transport/identity.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include <troupe/core/text.hpp>

namespace troupe::transport {
namespace {

constexpr std::string_view kScheme = "troupe://";
constexpr std::size_t kUriBytesMax = kScheme.size() + (kNameBytesMax + 1) * (kRolesMax + 2);

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Status check_name(std::string_view what, std::string_view name) {
  if (is_name(name)) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("identity: {} \"{}\", expected 1 to {} of a-z 0-9 . _ - beginning with a letter or digit",
                           what, printable(name, kNameBytesMax), kNameBytesMax)};
}

Status check(const Identity& identity) {
  TROUPE_TRY(check_name("run", identity.run));
  if (identity.roles.empty() || identity.roles.size() > kRolesMax) {
    return Error{Code::kInvalidArgument,
                 fmt::format("identity: {} roles, expected 1 to {}", identity.roles.size(), kRolesMax)};
  }
  for (auto role = identity.roles.begin(); role != identity.roles.end(); ++role) {
    TROUPE_TRY(check_name("role", *role));
    if (std::find(identity.roles.begin(), role, *role) != role) {
      return Error{Code::kInvalidArgument, fmt::format("identity: role \"{}\" is there twice", *role)};
    }
  }
  return check_name("node", identity.node);
}

}  // namespace

bool Identity::has_role(std::string_view role) const { return std::ranges::find(roles, role) != roles.end(); }

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kNameBytesMax && is_letter_or_digit(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; });
}

Result<std::string> to_uri(const Identity& identity) {
  TROUPE_TRY(check(identity));
  return fmt::format("{}{}/{}/{}", kScheme, identity.run, fmt::join(identity.roles, "+"), identity.node);
}

Result<Identity> parse_identity(std::string_view uri) {
  const auto malformed = [&] {
    return Error{Code::kInvalidArgument,
                 fmt::format("identity: got \"{}\", expected troupe://RUN/ROLE+ROLE/NODE", printable(uri))};
  };
  if (uri.size() > kUriBytesMax || !uri.starts_with(kScheme)) return malformed();
  std::vector<std::string> parts = split(uri.substr(kScheme.size()), '/');
  if (parts.size() != 3) return malformed();
  Identity identity{std::move(parts[0]), split(parts[1], '+'), std::move(parts[2])};
  TROUPE_TRY(check(identity));
  return identity;
}

}  // namespace troupe::transport
