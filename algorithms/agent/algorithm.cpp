#include <troupe/algorithms/agent/algorithm.hpp>

#include <utility>

namespace troupe {

Result<Signature> item_signature(const Algorithm& algorithm, const envs::EnvSpec& wrapped) {
  TROUPE_ASSIGN(const auto exploration, algorithm.explores({}));
  TROUPE_ASSIGN(const auto adder, algorithm.adder(wrapped.observation, exploration->acted()));
  return adder->signature();
}

Signature batch_signature(Signature item, const AlgorithmContext& context) {
  if (context.importance_weights) item.push_back({"weight", DType::kF32, Shape{}});
  return item;
}

}  // namespace troupe
