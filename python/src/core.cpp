// troupe._core: environments, policies, replay tables (table.cpp) and the whole program (program.cpp) for Python. Thin:
// what it holds are the C++ objects and NumPy's views of their memory; what Gymnasium and users want of them is written
// in Python (troupe/gym.py, troupe/policy.py).
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <cstring>
#include <memory>
#include <optional>

#include <troupe/actors/roles/player.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/envs/vector_env.hpp>
#include <troupe/run/agent_topology.hpp>
#include <troupe/run/registry.hpp>
#include <troupe/run/trained_run.hpp>

#include "binding.hpp"
#include "program.hpp"

using namespace nanobind::literals;

namespace troupe::python {
namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Moves = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

class VectorEnv {
 public:
  VectorEnv(const std::string& name, int count, int threads, std::uint64_t seed)
      : envs_(value_or_raise(envs::VectorEnv::make(
            {.make = envs::shared_environments(name), .count = count, .threads = threads, .seed = seed}))),
        rewards_(envs_->count()),
        discounts_(envs_->count(), 1),
        types_(envs_->count()),
        moves_(envs_->count()) {}

  const envs::EnvSpec& spec() const { return envs_->spec(); }
  std::size_t count() const { return envs_->count(); }

  void advance(const Moves& moves, const Bytes& actions) {
    if (moves.size() != count()) {
      raise({Code::kShapeMismatch, spec().name + ": advance: " + std::to_string(moves.size()) + " moves, expected " +
                                       std::to_string(count())});
    }
    for (std::size_t i = 0; i < count(); ++i) {
      if (moves.data()[i] > static_cast<std::uint8_t>(envs::Move::kStep)) {
        raise({Code::kInvalidArgument, spec().name + ": advance: a move is 0 (rest), 1 (reset) or 2 (step)"});
      }
      moves_[i] = static_cast<envs::Move>(moves.data()[i]);
    }
    advance_moves(actions);
  }

  /// (columns, rewards, terminations, truncations), arrays of their own. One call from Python costs less than what the
  /// steps of the environments have thrown out of the caches in the meantime.
  nb::tuple step(const Bytes& actions) {
    for (std::size_t i = 0; i < count(); ++i) moves_[i] = ended(i) ? envs::Move::kReset : envs::Move::kStep;
    advance_moves(actions);
    const auto [rewards, reward_of] = array<double>(count());
    const auto [terminations, terminated] = array<bool>(count());
    const auto [truncations, truncated] = array<bool>(count());
    for (std::size_t i = 0; i < count(); ++i) {
      reward_of[i] = rewards_[i];
      terminated[i] = ended(i) && discounts_[i] == 0;
      truncated[i] = ended(i) && discounts_[i] != 0;
    }
    return nb::make_tuple(columns(), rewards, terminations, truncations);
  }

  void reset(std::size_t index, std::uint64_t seed) {
    take(index, environment(index).reset(seed, envs_->observation(index)));
  }

  nb::ndarray<nb::numpy, std::uint8_t> render(std::size_t index, int height, int width, const std::string& camera) {
    if (height < 1 || width < 1) raise({Code::kInvalidArgument, spec().name + ": render: a size below 1"});
    const std::size_t rows = static_cast<std::size_t>(height), columns = static_cast<std::size_t>(width);
    const auto [pixels, owner] = owned<std::uint8_t>(rows * columns * 3);
    or_raise(environment(index).render({.height = height, .width = width, .camera = camera},
                                       std::span(pixels, rows * columns * 3)));
    return nb::ndarray<nb::numpy, std::uint8_t>(pixels, {rows, columns, 3}, owner);
  }

  std::span<const std::byte> observations() const { return envs_->observations(); }
  const std::vector<double>& rewards() const { return rewards_; }
  const std::vector<double>& discounts() const { return discounts_; }
  const std::vector<std::uint8_t>& types() const { return types_; }

 private:
  bool ended(std::size_t index) const { return types_[index] == static_cast<std::uint8_t>(envs::StepType::kLast); }

  void advance_moves(const Bytes& actions) {
    const std::size_t action_bytes = spec().action.tensor.bytes();
    if (actions.shape(0) != count() || actions.shape(1) != action_bytes) {
      raise({Code::kShapeMismatch, spec().name + ": expected " + std::to_string(count()) + " actions of " +
                                       std::to_string(action_bytes) + " bytes"});
    }
    {
      const nb::gil_scoped_release others_run;
      envs_->advance(moves_, std::as_bytes(std::span(actions.data(), actions.size())));
    }
    for (std::size_t i = 0; i < count(); ++i) {
      if (moves_[i] != envs::Move::kRest) take(i, envs_->result(i));
    }
  }

  nb::list columns() const {
    nb::list made;
    std::size_t offset = 0;
    const std::size_t row = envs_->observations().size() / count();
    for (const TensorSpec& column : spec().observation) {
      const std::size_t bytes = column.bytes();
      const auto [array, memory] = tensor_array(column, count());
      for (std::size_t i = 0; i < count(); ++i) {
        std::memcpy(memory + i * bytes, envs_->observations().data() + i * row + offset, bytes);
      }
      made.append(array);
      offset += bytes;
    }
    return made;
  }

  envs::Environment& environment(std::size_t index) {
    if (index < count()) return envs_->environment(index);
    raise({Code::kInvalidArgument,
           spec().name + ": environment " + std::to_string(index) + ": there are " + std::to_string(count())});
  }
  void take(std::size_t index, const Result<envs::TimeStep>& result) {
    if (!result.ok()) {
      raise({result.error().code, "environment " + std::to_string(index) + ": " + result.error().message});
    }
    rewards_[index] = result->reward;
    discounts_[index] = result->discount;
    types_[index] = static_cast<std::uint8_t>(result->type);
  }

  std::unique_ptr<envs::VectorEnv> envs_;
  std::vector<double> rewards_, discounts_;
  std::vector<std::uint8_t> types_;
  std::vector<envs::Move> moves_;
};

std::vector<Column> columns_of(const Signature& signature) {
  std::vector<Column> columns;
  for (const TensorSpec& column : signature) columns.push_back(column_of(column));
  return columns;
}

/// What a run's agent has learnt, acting as its evaluator does: without exploration.
class Policy {
 public:
  /// rows: of a call; none: one, and an action comes without that dimension.
  Policy(const std::string& directory, const std::string& what, std::optional<std::int64_t> rows, nb::handle program) {
    const Registry registry = registry_of(program);
    const apps::TrainedRun run =
        value_or_raise(apps::open_trained_run(registry, directory, {.name = what, .kind = apps::PartKind::kAgent}));
    const actors::AgentOptions* const options = actors::find_agent(run.options, run.part.name);
    const actors::Agent agent = value_or_raise(actors::make_agent(*options));
    auto policy = value_or_raise(agent.make_policy(rows.value_or(1), learner::Device{}));
    const std::vector<float> values = value_or_raise(actors::group_values(run.part, policy->layout()));
    or_raise(policy->load(values, policy->fingerprint()));
    spec_ = agent.evaluation;
    given_ = agent.given;
    step_ = run.part.step;
    player_ = value_or_raise(
        actors::Player::make(std::move(policy), spec_, actors::evaluation_episodes(*options, agent).exploration));
    begins_.assign(static_cast<std::size_t>(rows.value_or(1)), true);
    if (rows) rows_ = static_cast<std::size_t>(*rows);
  }

  const envs::EnvSpec& spec() const { return spec_; }
  const Signature& given() const { return given_; }
  std::int64_t step() const { return step_; }
  std::size_t rows() const { return begins_.size(); }

  /// observations: the bytes of all columns, row by row; first: uint8 [rows], which episodes begin; by default all do
  /// at the first call.
  nb::ndarray<nb::numpy> act(const Rows& observations, const std::optional<Moves>& first) {
    const std::size_t bytes = row_bytes(spec_.observation);
    if (observations.nbytes() != rows() * bytes || (first && first->size() != rows())) {
      raise({Code::kShapeMismatch, spec_.name + ": act: expected " + std::to_string(rows()) + " rows of " +
                                       std::to_string(bytes) + " bytes, and whether each is the first"});
    }
    const auto [actions, memory] = tensor_array(spec_.action.tensor, rows_);
    if (const Status acted = act_rows(static_cast<const std::byte*>(observations.data()), first, memory); !acted.ok()) {
      raise(acted.error());
    }
    return actions;
  }

 private:
  Status act_rows(const std::byte* observations, const std::optional<Moves>& first, std::byte* actions) {
    const nb::gil_scoped_release others_run;
    const std::size_t bytes = row_bytes(spec_.observation);
    for (std::size_t row = 0; row < rows(); ++row) {
      const std::span observation(observations + row * bytes, bytes);
      const bool begins = first ? first->data()[row] != 0 : begins_[row];
      begins ? player_->first(row, observation) : player_->next(row, observation);
      begins_[row] = false;
    }
    TROUPE_ASSIGN(const auto made, player_->act());
    std::memcpy(actions, made.data(), made.size());
    return {};
  }

  envs::EnvSpec spec_;
  Signature given_;
  std::int64_t step_ = 0;
  std::unique_ptr<actors::Player> player_;
  std::vector<bool> begins_;
  std::optional<std::size_t> rows_;  ///< as asked for; empty: one, whose action comes alone
};

template <typename T>
nb::ndarray<nb::numpy, const T> view(const T* data, std::initializer_list<std::size_t> shape, nb::handle owner) {
  return nb::ndarray<nb::numpy, const T>(data, shape, owner);
}

}  // namespace
}  // namespace troupe::python

NB_MODULE(_core, m) {
  using namespace troupe::python;
  namespace nb = nanobind;
  m.def("environment_names", &troupe::envs::environment_names, "Names of the environments that ship, sorted.");
  const auto of = [](nb::handle self) { return nb::cast<VectorEnv*>(self); };
  nb::class_<VectorEnv>(
      m, "VectorEnv",
      "Instances of one environment, stepped together on a few threads. Its arrays are views of memory "
      "that the next call writes over. Not thread-safe.")
      .def(nb::init<const std::string&, int, int, std::uint64_t>(), "name"_a, "count"_a = 1, "threads"_a = 1,
           "seed"_a = 0, "Raises TroupeError for an unknown name, naming the nearest, and for numbers out of range.")
      .def_prop_ro("name", [](const VectorEnv& self) { return self.spec().name; })
      .def_prop_ro("count", &VectorEnv::count)
      .def_prop_ro(
          "episode_steps", [](const VectorEnv& self) { return self.spec().episode_steps; }, "The time limit in steps.")
      .def_prop_ro(
          "control_dt", [](const VectorEnv& self) { return self.spec().control_dt; }, "Seconds a step.")
      .def_prop_ro("cameras", [](const VectorEnv& self) { return self.spec().cameras; })
      .def_prop_ro(
          "columns", [](const VectorEnv& self) { return columns_of(self.spec().observation); },
          "Of an observation, in the order of its bytes: name, type, shape.")
      .def_prop_ro(
          "action", [](const VectorEnv& self) { return column_of(self.spec().action.tensor); }, "Name, type and shape.")
      .def_prop_ro(
          "action_bounds",
          [](const VectorEnv& self) { return std::pair(self.spec().action.low, self.spec().action.high); },
          "The lowest and the highest of each number; empty where actions are choices.")
      .def_prop_ro(
          "action_choices", [](const VectorEnv& self) { return self.spec().action.choices; },
          "How many; 0 where actions are numbers.")
      .def("advance", &VectorEnv::advance, "moves"_a, "actions"_a,
           "Moves each instance: 0 rests, 1 resets, 2 steps with its row of actions' bytes. Without Python's lock. "
           "Raises TroupeError naming the first instance that failed; the others have moved.")
      .def("step", &VectorEnv::step, "actions"_a,
           "Steps each instance with its row of actions' bytes, and resets those that have ended instead. Returns "
           "arrays of their own: a list of the columns, [count, ...] each; rewards, float64; terminations and "
           "truncations, bool.")
      .def("reset", &VectorEnv::reset, "index"_a, "seed"_a,
           "Begins an episode of one instance that follows from the seed alone.")
      .def("render", &VectorEnv::render, "index"_a, "height"_a = 240, "width"_a = 320, "camera"_a = "0",
           "RGB, uint8 [height, width, 3].")
      .def_prop_ro(
          "observations",
          [of](nb::handle self) {
            const auto bytes = of(self)->observations();
            const std::size_t rows = of(self)->count();
            return view(reinterpret_cast<const std::uint8_t*>(bytes.data()), {rows, bytes.size() / rows}, self);
          },
          "uint8 [count, bytes of all columns].")
      .def_prop_ro(
          "rewards", [of](nb::handle self) { return view(of(self)->rewards().data(), {of(self)->count()}, self); },
          "float64 [count].")
      .def_prop_ro(
          "discounts", [of](nb::handle self) { return view(of(self)->discounts().data(), {of(self)->count()}, self); },
          "float64 [count]: 0 where the task ended, 1 at a time limit.")
      .def_prop_ro(
          "types", [of](nb::handle self) { return view(of(self)->types().data(), {of(self)->count()}, self); },
          "uint8 [count], dm_env's StepType: 0 first, 1 mid, 2 last.");
  nb::class_<Policy>(m, "Policy", "What a run's agent has learnt, acting without exploration. Not thread-safe.")
      .def(nb::init<const std::string&, const std::string&, std::optional<std::int64_t>, nb::handle>(), "directory"_a,
           "what"_a = "", "rows"_a = nb::none(), "program"_a.none() = nb::none(),
           "From the newest whole checkpoint of a run; `what` names one of several agents. Raises TroupeError.")
      .def_prop_ro("environment", [](const Policy& self) { return self.spec().name; })
      .def_prop_ro("step", &Policy::step, "How many steps it has learnt.")
      .def_prop_ro("rows", &Policy::rows)
      .def_prop_ro(
          "columns", [](const Policy& self) { return columns_of(self.spec().observation); },
          "Of an observation, in the order of its bytes: name, type, shape.")
      .def_prop_ro(
          "given", [](const Policy& self) { return columns_of(self.given()); },
          "As columns, of an observation before the algorithm flattens it.")
      .def_prop_ro(
          "action", [](const Policy& self) { return column_of(self.spec().action.tensor); }, "Name, type and shape.")
      .def("act", &Policy::act, "observations"_a, "first"_a = nb::none(),
           "The action, [rows, ...] with rows, for the bytes of all columns, row by row; first: uint8 [rows], 1 where "
           "an "
           "episode begins, by default at the first call. Without Python's lock.");
  bind_table(m);
  bind_sequences(m);
  bind_client(m);
  bind_program(m);
}
