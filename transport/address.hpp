#pragma once
// Where a node listens or is to be found: host and port as people write them.
#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>

namespace troupe::transport {

struct Address {
  std::string host;  ///< a name, or a numeric IPv4 or IPv6 address
  std::uint16_t port = 0;

  bool operator==(const Address&) const = default;
};

/// "10.0.0.2:7000", "learner.example:7000", "[::1]:7000". Errors: kInvalidArgument.
Result<Address> parse_address(std::string_view text);

/// The opposite.
std::string to_string(const Address& address);

}  // namespace troupe::transport
