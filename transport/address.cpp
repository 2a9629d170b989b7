#include <troupe/transport/address.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include <troupe/core/text.hpp>

namespace troupe::transport {
namespace {

/// The longest name that the domain name system knows.
constexpr std::size_t kHostBytesMax = 253;

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

}  // namespace

Result<Address> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const std::string_view digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  std::string_view host = text.substr(0, colon);
  // Only an IPv6 address has colons, and only in brackets it is told apart from its port.
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']' && host.find(':') != host.npos;
  if (brackets) host = host.substr(1, host.size() - 2);
  const bool host_ok = !host.empty() && host.size() <= kHostBytesMax && std::ranges::all_of(host, [&](char c) {
    return is_host_character(c) || (brackets && (c == ':' || c == '%'));
  });
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (!host_ok || digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    return Error{Code::kInvalidArgument, fmt::format("address: got \"{}\", expected HOST:PORT or [IPV6]:PORT with a "
                                                     "port up to 65535",
                                                     printable(text))};
  }
  return Address{std::string(host), port};
}

std::string to_string(const Address& address) {
  return address.host.find(':') == std::string::npos ? fmt::format("{}:{}", address.host, address.port)
                                                     : fmt::format("[{}]:{}", address.host, address.port);
}

}  // namespace troupe::transport
