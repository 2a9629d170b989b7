#pragma once
// What happens to the hosts of a simulated run, drawn from a seed. The faults of hosts and their network alone: what
// roles do wrong is for whoever knows them.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <troupe/core/rng.hpp>
#include <troupe/tests/actors/simulation.hpp>

namespace troupe::actors::testing {

class RandomFaults {
 public:
  RandomFaults(Rng& rng, Simulation& simulation) : rng_(rng), simulation_(simulation) {}

  static constexpr std::uint64_t kKinds = 9;
  /// Does one of them; says what, in words.
  std::string happen() {
    using std::chrono::milliseconds;
    const std::vector<std::string> nodes = simulation_.nodes();
    const std::string node = nodes[rng_.below(nodes.size())];
    const std::string other = nodes[rng_.below(nodes.size())];
    switch (rng_.below(kKinds)) {
      case 0:
      case 1:
        return kill(node, between(milliseconds(20), milliseconds(1500)));
      case 2:
        return kill(kChiefNode, between(milliseconds(20), milliseconds(2500)));
      case 3:  // away while several cuts are taken
        return kill(node, between(milliseconds(2500), milliseconds(4500)));
      case 4: {
        const Duration pause = between(milliseconds(50), milliseconds(3000));
        simulation_.stop(node);
        simulation_.at(simulation_.now() + pause, [this, node] { simulation_.resume_process(node); });
        return fmt::format("stop {} for {:.3f} s", node, seconds(pause));
      }
      case 5: {
        const bool both = rng_.below(2) == 0;
        const Duration pause = between(milliseconds(50), milliseconds(4000));
        simulation_.block(node, other, true);
        if (both) simulation_.block(other, node, true);
        simulation_.at(simulation_.now() + pause, [this, node, other] {
          simulation_.block(node, other, false);
          simulation_.block(other, node, false);
        });
        return fmt::format("cut {} {} {} for {:.3f} s", node, both ? "<->" : "-->", other, seconds(pause));
      }
      case 6:
        simulation_.reset(node);
        return fmt::format("reset {}", node);
      case 7:
        simulation_.fail_writes(node, true);
        simulation_.at(simulation_.now() + between(milliseconds(500), milliseconds(3000)),
                       [this, node] { simulation_.fail_writes(node, false); });
        return fmt::format("disk of {} full", node);
      default: {
        const Duration pause = between(milliseconds(20), milliseconds(1500));
        simulation_.kill_in_write(node, pause);
        return fmt::format("{} dies while it writes its next part, for {:.3f} s", node, seconds(pause));
      }
    }
  }

 private:
  Duration between(Duration least, Duration most) {
    return least + Duration(rng_.below(static_cast<std::uint64_t>((most - least).count())));
  }
  std::string kill(const std::string& node, Duration pause) {
    simulation_.kill(node, pause);
    return fmt::format("kill {} for {:.3f} s", node, seconds(pause));
  }

  Rng& rng_;
  Simulation& simulation_;
};

}  // namespace troupe::actors::testing
