#include <troupe/algorithms/agent/vector_agent.hpp>

#include <utility>

#include <troupe/envs/flattened.hpp>
#include <troupe/replay/n_step_adder.hpp>

namespace troupe {

Algorithm vector_agent(const envs::EnvSpec& flattened, std::int64_t n_step, double discount,
                       const std::vector<std::string>& more) {
  const TensorSpec action{"action", DType::kF32, Shape{flattened.action_size()}};
  Algorithm made;
  made.wrap = [](envs::MakeEnvironment make) { return envs::flattened(std::move(make)); };
  made.columns = {{{"observation", DType::kF32, Shape{flattened.observation_size()}}}, {action}};
  for (const std::string& name : more) made.columns.outputs.push_back({name, action.dtype, action.shape});
  made.greedy = acting::no_exploration(action);
  made.adder = replay::n_step_adders(n_step, discount);
  return made;
}

}  // namespace troupe
