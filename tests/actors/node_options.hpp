#pragma once
// What tests and benches tell the process of one node of several about its run.
#include <cstdint>
#include <utility>
#include <vector>

#include <troupe/actors/control/runtime_options.hpp>
#include <troupe/actors/network/node_network.hpp>

namespace troupe::actors::testing {

inline RuntimeOptions node_options(NodeNetwork& network, transport::Identity self, std::uint64_t birth,
                                   std::vector<PlacedNode> placement) {
  RuntimeOptions options;
  options.node.network = &network;
  options.node.address = {self.node, 0, network.address().host, network.address().port};
  options.node.self = std::move(self);
  options.node.birth = birth;
  options.chief.placement = std::move(placement);
  return options;
}

}  // namespace troupe::actors::testing
