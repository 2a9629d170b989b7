#pragma once
// Trading a token for a certificate (join_token.hpp), over a link of its own that carries this one request and answer.
// The node calls join() before it does anything else; the chief calls answer_join() for every peer of the role "join"
// that its listener hands out, on a thread that may wait.
#include <stop_token>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/transport/join_token.hpp>
#include <troupe/transport/link.hpp>

namespace troupe::transport {

/// The role in the chief's certificate; who does not have it is given no token.
inline constexpr std::string_view kChiefRole = "chief";

/// Makes a key, dials the chief and returns what the node is from now on; save_credentials() keeps it. The token is
/// used up even when the answer does not arrive. Errors: kDeadlineExceeded, kUnavailable (no chief there, refused: with
/// the chief's reason, stopped).
Result<Credentials> join(const JoinToken& token, Duration timeout, std::stop_token stop = {});

/// Takes the request from `peer`, a link of the role "join", uses up its token and answers with a certificate, or with
/// why not, which may also be the error of `may_be`: whether a node like this one may join. Returns who was certified.
/// Errors, which the peer was told as far as it listens: kInvalidArgument (token, request), kDeadlineExceeded,
/// kUnavailable, kIo.
Result<Identity> answer_join(Link& peer, const Authority& authority, TokenLedger& tokens, WallTime now,
                             Duration timeout, const Admit& may_be = {});

}  // namespace troupe::transport
