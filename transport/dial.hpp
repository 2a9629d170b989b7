#pragma once
// Connecting to a listener, for Link::open(). Blocks with a deadline: call it where that holds nobody up.
#include <memory>
#include <stop_token>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/transport/address.hpp>
#include <troupe/transport/link.hpp>

namespace troupe::transport {

/// A connected TCP socket, which the caller owns and gives to Link::open(). Tries all addresses of the host in turn,
/// each with its share of the time that is left. `stop` ends it within 50 ms. Errors: kInvalidArgument (no such host),
/// kDeadlineExceeded, kUnavailable (refused, no route, stopped).
Result<int> dial(const Address& address, Duration timeout, std::stop_token stop = {});

/// dial() within `timeout`, then Link::open(), without a moment between in which this node says nothing: a listener
/// that strangers crowd drops first who is silent. options.stop ends both. Errors: of both.
Result<std::unique_ptr<Link>> dial_link(const Address& address, const Credentials& credentials,
                                        const LinkOptions& options, Duration timeout);

}  // namespace troupe::transport
