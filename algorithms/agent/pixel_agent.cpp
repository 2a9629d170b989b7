#include <troupe/algorithms/agent/pixel_agent.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include <troupe/envs/float_actions.hpp>
#include <troupe/replay/n_step_adder.hpp>

namespace troupe {

bool shows_images(const envs::EnvSpec& environment) {
  return std::ranges::find(environment.observation, DType::kU8, &TensorSpec::dtype) != environment.observation.end();
}

Result<Algorithm> pixel_agent(const envs::EnvSpec& environment, std::int64_t n_step, double discount,
                              std::string_view who) {
  TROUPE_ASSIGN(const envs::EnvSpec seen, envs::float_actions(environment));
  const bool pixels_alone = seen.observation.size() == 1 && seen.observation[0].name == "pixels" &&
                            seen.observation[0].dtype == DType::kU8 && seen.observation[0].shape.rank() == 3;
  if (!pixels_alone) {
    std::string got;
    for (const TensorSpec& column : seen.observation) got += (got.empty() ? "" : ", ") + column.to_string();
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: {} got the observation {}, expected pixels: uint8[height, width, channels] and "
                             "nothing else",
                             seen.name, who, got)};
  }
  Algorithm made;
  made.wrap = [](envs::MakeEnvironment make) { return envs::float_actions(std::move(make)); };
  made.columns = {seen.observation, {{"action", DType::kF32, Shape{seen.action_size()}}}};
  made.greedy = acting::no_exploration(made.columns.outputs.front());
  made.adder = replay::n_step_adders(n_step, discount);
  return made;
}

}  // namespace troupe
