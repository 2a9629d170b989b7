#include <troupe/run/queue_role.hpp>

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

namespace troupe {
namespace {

constexpr std::array<std::pair<const char*, actors::QueueOrder>, 4> kOrders = {
    {{"fifo", actors::QueueOrder::kFifo},
     {"lifo", actors::QueueOrder::kLifo},
     {"shuffle", actors::QueueOrder::kShuffle},
     {"priority", actors::QueueOrder::kPriority}}};
constexpr double kCapacityMax = 1e6;

}  // namespace

RoleKind queue_of(std::string type, actors::FramePriority priority) {
  const actors::FrameQueueOptions defaults;
  RoleKind kind;
  kind.doc = fmt::format("Holds frames of type {} in an order of its own", type);
  kind.inlets = {{"in", type}};
  kind.outlets = {{"out", type}};
  std::vector<std::string> orders;
  for (const auto& [name, order] : kOrders) {
    if (order != actors::QueueOrder::kPriority || priority != nullptr) orders.emplace_back(name);
  }
  kind.keys = {{.path = "order",
                .default_value = std::string(kOrders[0].first),
                .doc = "Who leaves first; priority: the lowest, and of equal ones the oldest",
                .choices = std::move(orders)},
               {.path = "capacity",
                .default_value = defaults.capacity,
                .doc = "Producers wait while as many are there",
                .unit = "frames",
                .min = 1,
                .max = kCapacityMax},
               {.path = "min_after_dequeue",
                .default_value = defaults.min_after_dequeue,
                .doc = "So many stay behind: what is drawn by chance is then well mixed",
                .unit = "frames",
                .min = 0,
                .max = kCapacityMax}};
  kind.make = [priority = std::move(priority)](const ConfigSection& keys) -> Result<actors::RoleFactory> {
    actors::FrameQueueOptions options{.capacity = keys.get_int("capacity"),
                                      .min_after_dequeue = keys.get_int("min_after_dequeue"),
                                      .priority = priority};
    if (options.min_after_dequeue >= options.capacity) {
      return Error{Code::kInvalidArgument, fmt::format("min_after_dequeue: got {}, expected less than capacity, {}",
                                                       options.min_after_dequeue, options.capacity)};
    }
    for (const auto& [name, order] : kOrders) {
      if (keys.get_string("order") == name) options.order = order;
    }
    return actors::RoleFactory(
        [options](const actors::RoleIdentity& identity) -> Result<std::unique_ptr<actors::Role>> {
          return {std::make_unique<actors::FrameQueue>(options, identity.seed)};
        });
  };
  kind.restart_from = actors::RestartFrom::kLastCut;
  return kind;
}

}  // namespace troupe
