#pragma once
// Runs a topology over processes of this host, for benches: a node in each, with certificates, links and shared memory,
// as `troupe train --processes` has them, without files and restarts. What roles measure goes back by memory that all
// processes share.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/network/node_network.hpp>
#include <troupe/bench/processes.hpp>
#include <troupe/core/check.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/log.hpp>
#include <troupe/tests/actors/node_options.hpp>
#include <troupe/transport/authority.hpp>

namespace troupe::actors {

/// Memory of this process that is resident, now ("VmRSS") or at most so far ("VmHWM"), in bytes.
inline std::int64_t resident_bytes(const std::string& which) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(which + ":")) return std::stoll(line.substr(which.size() + 1)) << 10;
  }
  TROUPE_CHECK(false, "no {} in /proc/self/status", which);
}

/// Runs `topology` until a role completes it; `placement` names the processes, the chief's first.
inline void run_in_processes(const Topology& topology, const std::vector<PlacedNode>& placement) {
  struct Meeting {
    std::atomic<int> port;
  };
  const InAllProcesses<Meeting> meeting;
  const auto now = std::chrono::system_clock::now();
  const auto authority = transport::Authority::create("bench", now).value();
  const auto node = [&](const PlacedNode& placed) {
    transport::Identity self{"bench", {}, placed.name};
    const bool leads = placed.name == kChiefNode;
    if (leads) self.roles.push_back("chief");
    for (const auto& share : placed.shares) self.roles.push_back(share.role);
    NodeNetworkOptions network_options;
    network_options.self = self;
    network_options.credentials = authority.issue(self, now, std::chrono::hours(1)).value();
    network_options.listen = {"127.0.0.1", 0};
    network_options.topology = &topology;
    while (!leads && meeting->port == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!leads) network_options.chief = {"127.0.0.1", static_cast<std::uint16_t>(meeting->port)};
    const auto network = NodeNetwork::make(std::move(network_options)).value();
    if (leads) meeting->port = network->address().port;

    const auto runtime = Runtime::make(topology, testing::node_options(*network, std::move(self),
                                                                       static_cast<std::uint64_t>(getpid()), placement))
                             .value();
    const auto ended = runtime->run([] { return false; });
    TROUPE_CHECK(ended.ok(), "{}: {}", placed.name, ended.error().message);
    runtime->stop();
  };
  in_processes(static_cast<int>(placement.size()), [&](int index) {
    log::set_level(log::Level::kWarn);
    node(placement[static_cast<std::size_t>(index)]);
  });
}

/// A process for each role, and one for the chief alone.
inline std::vector<PlacedNode> one_process_each(const Topology& topology) {
  std::vector<PlacedNode> placement = {{kChiefNode, {}}};
  for (const RoleSpec& role : topology.roles) {
    for (std::uint32_t index = 0; index < static_cast<std::uint32_t>(role.count); ++index) {
      placement.push_back({role.name + "-" + std::to_string(index), {{role.name, {index}}}});
    }
  }
  return placement;
}

template <typename Make>
RoleFactory factory(Make make) {
  return [make](const RoleIdentity&) -> Result<std::unique_ptr<Role>> { return {make()}; };
}

}  // namespace troupe::actors
