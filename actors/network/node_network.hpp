#pragma once
// The real network between nodes: TLS 1.3 links with certificates on both sides (transport/), and nothing else that
// listens. Between two nodes there are up to four lanes in each direction, each a stream of its own, so that none
// waits for another: "control" (chief and nodes: small messages, heartbeats), "urgent" (credits), "bulk" (frames,
// calls, answers, markers) and "group" (collectives). Frames of 64 KiB and more are read where they were made when both
// nodes are on one host.
//
// Who a peer is comes from its certificate, and what it may send from authorization.hpp. A message that it may not send
// is dropped and counted, and its connections stay; who sends 100 messages within 10 s that make no sense at all is
// shut out for 10 s. The name of a node that lives is nobody else's: a second process with it is told so (TRP-E161)
// until the first has been silent for a second; the first, when it wakes after that, is told that it must end. Lanes
// other than control lead to the process that the chief has let in: one that answers in its place refuses them.
// Each lane has a thread at each end, so a peer that is slow, stopped or hostile holds up no other.
//
// Used by the runtime of a node; see docs/decisions/0001-control-on-the-links.md for why control does not go through
// CAF's own network layer.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/runtime/remote.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/error.hpp>
#include <troupe/transport/address.hpp>
#include <troupe/transport/credentials.hpp>
#include <troupe/transport/identity.hpp>
#include <troupe/transport/link.hpp>

namespace troupe::actors {

struct NodeNetworkOptions {
  transport::Identity self;
  transport::Credentials credentials;
  transport::Address listen;                ///< port 0: any free one
  std::optional<transport::Address> chief;  ///< where the chief listens; empty: this is the chief
  const Topology* topology = nullptr;       ///< outlives the network
  /// Serves a link whose peer shows the certificate of a join token, and has said something; on the chief. Called on a
  /// thread that it may hold up for a second: only operators and other bearers wait meanwhile.
  std::function<void(std::unique_ptr<transport::Link>)> on_join;
};

class NodeNetwork final : public Network {
 public:
  /// Listens from now on; what comes before start() waits. Errors: those of Listener::start.
  static Result<std::unique_ptr<NodeNetwork>> make(NodeNetworkOptions options);
  ~NodeNetwork() override;

  const transport::Address& address() const;

  void start(std::uint64_t birth, NetworkEvents events) override;
  void send(const std::string& node, RemoteMessage message) override;
  void know(const std::vector<messages::ControlNode>& nodes) override;
  void know_more(const std::vector<messages::ControlNode>& nodes, const std::vector<std::string>& gone) override;
  std::shared_ptr<LendableMemory> frame_memory() const override;
  /// Nodes of this machine whose large frames go over TLS, and why.
  std::vector<std::string> trouble() const override;
  void stop() override;

  /// Messages that were refused since the start, by the code of the reason.
  std::map<std::string, std::uint64_t> refused() const;
  /// Frames that other nodes were lent since the start.
  std::uint64_t shared() const;

 private:
  struct Impl;
  explicit NodeNetwork(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Asks the chief one thing as an operator and waits for the answer: kAskStatus (answered with kStatus) or kEnd
/// (answered with kEnd). Errors: those of dialling and of the link; kDeadlineExceeded.
Result<messages::Control> ask_chief(const transport::Address& chief, const transport::Identity& self,
                                    const transport::Credentials& credentials, const messages::Control& question,
                                    Duration timeout);

}  // namespace troupe::actors
