#include <troupe/learner/optimizer.hpp>

namespace troupe::learner {

int slot_count(const OptimizerSpec& spec) {
  if (std::holds_alternative<Adam>(spec.rule)) return 2;
  return std::get<Sgd>(spec.rule).momentum != 0 ? 1 : 0;
}

}  // namespace troupe::learner
