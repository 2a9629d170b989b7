#include <troupe/run/train_schema.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <troupe/run/mistake_place.hpp>
#include <troupe/run/replica_schema.hpp>
#include <troupe/run/role_schema.hpp>

namespace troupe::apps {
namespace {

constexpr double kLearningRateMin = 1e-12;  // above 0, and below what changes a weight

/// A name becomes part of a directory's name.
bool is_plain_name(const std::string& name) {
  return name.size() <= 100 && std::isalnum(static_cast<unsigned char>(name[0])) != 0 &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; });
}

/// One name that the kernel may give an interface (less than IFNAMSIZ characters) and that NCCL takes for no list.
bool is_interface_name(const std::string& name) {
  return name.size() <= 15 && name != "." && name != ".." && std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

/// The error buffer in samples; see replay/rate_limiter.hpp, which demands at least as much.
double error_buffer(double min_items, double tolerance, double samples_per_insert) {
  return min_items * tolerance * samples_per_insert;
}

/// The place of the first of these keys that somebody set: there the user can look.
std::string where_set(const Config& config, std::initializer_list<std::string_view> paths) {
  for (const std::string_view path : paths) {
    if (config.where(path) != "default") return config.where(path);
  }
  return "default";
}

std::vector<std::string> mistakes_across_keys(const Config& config, const Registry& registry) {
  std::vector<std::string> mistakes;
  const auto demand = [&](bool holds, std::initializer_list<std::string_view> paths, const std::string& what) {
    if (!holds) mistakes.push_back(fmt::format("{}: {}", where_set(config, paths), what));
  };
  const auto demand_at_most = [&](std::string_view key, std::string_view bound) {
    demand(config.get_int(key) <= config.get_int(bound), {key, bound},
           fmt::format("{} must not exceed {}: got {} and {}", key, bound, config.get_int(key), config.get_int(bound)));
  };
  if (config.get_string("env").empty() && config.names("replicas").empty() && config.names("roles").empty()) {
    mistakes.push_back(config.file() +
                       ": missing key env: the environment that D4PG learns, or a [replicas.NAME] or [roles.NAME]");
  }
  const std::string& name = config.get_string("name");
  demand(name.empty() || is_plain_name(name), {"name"},
         fmt::format("name \"{}\" cannot be part of a directory name: expected 1 .. 100 letters, digits, '-', '_' or "
                     "'.', a letter or digit first",
                     name));

  const double v_min = config.get_float("learner.v_min");
  const double v_max = config.get_float("learner.v_max");
  demand(v_min < v_max, {"learner.v_min", "learner.v_max"},
         fmt::format("learner.v_min must be below learner.v_max: got {} and {}", v_min, v_max));

  const std::int64_t min_items = config.get_int("replay.min_items");
  const std::int64_t shards = config.get_int("replay.shards");
  demand_at_most("replay.min_items", "replay.max_items");
  demand_at_most("replay.shards", "replay.min_items");
  const double tolerance = config.get_float("replay.tolerance");
  const double per_insert = config.get_float("replay.samples_per_insert");
  const double buffer = error_buffer(static_cast<double>(min_items), tolerance, per_insert);
  // A shard's window is twice its part of the buffer; one whole batch and one insert must fit into it.
  const double batch_size = static_cast<double>(config.get_int("learner.batch_size"));
  const double needed = std::max({1.0, per_insert, (batch_size + per_insert) / 2}) * static_cast<double>(shards);
  demand(buffer >= needed,
         {"replay.tolerance", "replay.min_items", "replay.samples_per_insert", "learner.batch_size", "replay.shards"},
         fmt::format("replay.min_items * replay.tolerance * replay.samples_per_insert = {:g} samples of error buffer "
                     "would block actors and learner for ever: expected at least {:g}{}",
                     buffer, needed, shards > 1 ? fmt::format(" for {} replay.shards", shards) : ""));

  const double backoff_first = config.get_float("supervisor.backoff_first_s");
  const double backoff_max = config.get_float("supervisor.backoff_max_s");
  demand(backoff_first <= backoff_max, {"supervisor.backoff_first_s", "supervisor.backoff_max_s"},
         fmt::format("supervisor.backoff_first_s must not exceed supervisor.backoff_max_s: got {} and {}",
                     backoff_first, backoff_max));

  const std::string interface = config.get_string("security.nccl_interface");
  demand(
      interface.empty() || is_interface_name(interface), {"security.nccl_interface"},
      fmt::format("security.nccl_interface is \"{}\", expected the name of a network interface as `ip link` shows it",
                  interface));

  const std::int64_t learners = config.get_int("learner.count");
  demand(config.get_int("learner.batch_size") % learners == 0, {"learner.count", "learner.batch_size"},
         fmt::format("learner.batch_size must be a multiple of learner.count: got {} and {}",
                     config.get_int("learner.batch_size"), learners));
  const bool instances = config.get_string("learner.replicator") == "multi_worker" && learners > 1;
  demand(!instances || !config.get_bool("deterministic"), {"learner.count", "deterministic"},
         fmt::format("deterministic = true runs on one thread, where {} learners cannot wait for each other: expected "
                     "learner.count = 1 or learner.replicator = \"multi_device\"",
                     learners));
  constexpr std::int64_t kShards = 8;  // learner::kVirtualShards
  const std::int64_t rows = config.get_int("learner.batch_size");
  demand(!config.get_bool("learner.deterministic") || (kShards % learners == 0 && rows % kShards == 0),
         {"learner.deterministic", "learner.count", "learner.batch_size"},
         fmt::format("learner.deterministic: got learner.count = {} and learner.batch_size = {}, expected 1, 2, 4 or 8 "
                     "and a multiple of {}",
                     learners, rows, kShards));

  const std::string replay_device = config.get_string("replay.device");
  const std::vector<std::string> learner_device = config.get_strings("learner.device");
  demand(replay_device == "cpu" || (replay_device.starts_with("cuda:") && learner_device.size() == 1 &&
                                    learner_device[0] == replay_device && learners == 1 && shards == 1),
         {"replay.device", "learner.device", "learner.count", "replay.shards"},
         fmt::format("replay.device must be cpu, or cuda:N with that alone as learner.device, learner.count = 1 and "
                     "replay.shards = 1: got \"{}\" with learner.device \"{}\", {} learners and {} shards",
                     replay_device, fmt::join(learner_device, "\", \""), learners, shards));

  demand_at_most("actors.threads", "actors.envs_per_actor");
  demand_at_most("placement.actors.nodes", "actors.count");
  demand_at_most("placement.replay.nodes", "replay.shards");
  demand_at_most("placement.inference.nodes", "inference.count");
  demand_at_most("placement.learner.nodes", "learner.count");
  demand(config.get_int("placement.learner.nodes") < 2 || config.get_string("learner.replicator") == "multi_worker",
         {"placement.learner.nodes", "learner.replicator"},
         fmt::format("placement.learner.nodes is {}, but learner.replicator = \"{}\" has all learners in one instance",
                     config.get_int("placement.learner.nodes"), config.get_string("learner.replicator")));
  for (std::string& mistake : replica_mistakes(config)) mistakes.push_back(std::move(mistake));
  for (std::string& mistake : role_mistakes(config, registry)) mistakes.push_back(std::move(mistake));
  return mistakes;
}

}  // namespace

ConfigSchema train_schema(const Registry& registry) {
  const actors::TrainOptions d;
  ConfigSchema schema = {
      {.path = "name",
       .default_value = std::string(),
       .doc = "Begins the run directory's name; empty: the file's name"},
      {.path = "env",
       .default_value = std::string(),
       .doc = "Environment that D4PG learns, one of `troupe envs`; none without D4PG",
       .choices = registry.environment_names(),
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "seed",
       .default_value = static_cast<std::int64_t>(d.seed),
       .doc = "Everything random in the run follows from it",
       .min = 0},
      {.path = "deterministic",
       .default_value = d.deterministic,
       .doc = "One thread and virtual time, slower: two runs give the same bits"},
      {.path = "max_minutes",
       .default_value = d.max_minutes,
       .doc = "Ends the run after this wall time; 0: no limit",
       .unit = "min",
       .min = 0,
       .max = 1e6},
      {.path = "max_env_steps",
       .default_value = d.max_env_steps,
       .doc = "Ends the run after as many steps of all env actors; 0: no limit",
       .unit = "steps",
       .min = 0,
       .max = kCountMax},
      {.path = "max_learner_steps",
       .default_value = d.max_learner_steps,
       .doc = "Ends the run after as many learner steps; 0: no limit",
       .unit = "steps",
       .min = 0,
       .max = kCountMax},
      {.path = "n_step",
       .default_value = d.n_step,
       .doc = "Length of the n-step returns",
       .unit = "steps",
       .min = 1,
       .max = 1000,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "discount",
       .default_value = d.discount,
       .doc = "Discount (gamma) of a step",
       .min = 0,
       .max = 1,
       .fixed = ConfigKey::Fixed::kValue},

      {.path = "actors.count",
       .default_value = d.actors.count,
       .doc = "Env actors, each with its own environments",
       .min = 1,
       .max = 1024,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "actors.envs_per_actor",
       .default_value = d.actors.envs_per_actor,
       .doc = "Environments of each, which it steps together with one call of the policy",
       .min = 1,
       .max = 4096,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "actors.threads",
       .default_value = d.actors.threads,
       .doc = "Threads of each that step its environments",
       .min = 1,
       .max = 256},
      {.path = "actors.sigma",
       .default_value = d.actors.sigma,
       .doc = "Standard deviation of the Gaussian exploration noise",
       .unit = "half action ranges",
       .min = 0,
       .max = 10},
      {.path = "actors.noise_correlation",
       .default_value = d.actors.noise_correlation,
       .doc = "Correlation of the noise of two successive steps; 0: independent",
       .min = 0,
       .max = 0.9999},
      {.path = "actors.inference",
       .default_value = d.actors.inference,
       .doc = "Who runs the policy: each env actor, or a server for all of them",
       .choices = {"local", "server"},
       .fixed = ConfigKey::Fixed::kValue},

      {.path = "inference.count",
       .default_value = d.inference.count,
       .doc = "Servers, when actors.inference is \"server\"",
       .min = 1,
       .max = 1024,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "inference.batch_size",
       .default_value = d.inference.batch_size,
       .doc = "Most observations in a batch of a server",
       .unit = "observations",
       .min = 1,
       .max = 65536},
      {.path = "inference.max_wait_ms",
       .default_value = d.inference.max_wait_ms,
       .doc = "A batch is run after this wait even when it is not full",
       .unit = "ms",
       .min = 0,
       .max = 1000},
      {.path = "inference.device",
       .default_value = d.inference.device,
       .doc = "cpu, cuda:N or auto; of several, server i has the i-th modulo their count"},

      {.path = "staleness.max_versions",
       .default_value = d.staleness.max_versions,
       .doc = "Who acts with parameters older than this waits for newer; -1: no bound",
       .unit = "learner steps",
       .min = -1,
       .max = kCountMax},

      {.path = "replay.shards",
       .default_value = d.replay.shards,
       .doc = "Tables that share the items; the limits below are of all together",
       .min = 1,
       .max = 64,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replay.max_items",
       .default_value = d.replay.max_items,
       .doc = "Capacity; the oldest item leaves when one more comes",
       .unit = "items",
       .min = 1,
       .max = 1e9,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replay.max_bytes",
       .default_value = d.replay.max_bytes,
       .doc = "The same bound in memory; whichever is met first",
       .unit = "bytes",
       .min = 1 << 16,
       .max = kCountMax,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replay.min_items",
       .default_value = d.replay.min_items,
       .doc = "Learning begins when as many items are there",
       .unit = "items",
       .min = 1,
       .max = 1e9},
      {.path = "replay.samples_per_insert",
       .default_value = d.replay.samples_per_insert,
       .doc = "Items sampled for each item inserted; the side that is ahead waits",
       .min = 1e-3,
       .max = 1e6},
      {.path = "replay.tolerance",
       .default_value = d.replay.tolerance,
       .doc = "How far samples_per_insert may be off, as a share of min_items",
       .min = 1e-3,
       .max = 1e6},
      {.path = "replay.sampler",
       .default_value = d.replay.sampler,
       .doc = "How items are chosen",
       .choices = {"uniform", "prioritized"},
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replay.priority_exponent",
       .default_value = d.replay.priority_exponent,
       .doc = "Of the prioritized sampler; 0 makes it uniform",
       .min = 0,
       .max = 10,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replay.durability",
       .default_value = d.replay.durability,
       .doc = "Inserts that a death may cost. relaxed: 1 s at a power cut; auto: by placement",
       .choices = {"auto", "off", "relaxed", "durable"}},
      {.path = "replay.device",
       .default_value = d.replay.device,
       .doc = "cpu, or the learner's cuda:N: items in its memory, drawn without the host",
       .fixed = ConfigKey::Fixed::kValue},

      {.path = "learner.count",
       .default_value = d.learner.count,
       .doc = "Learners; each takes a part of the batch, and they all-reduce gradients",
       .min = 1,
       .max = 1024,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "learner.replicator",
       .default_value = d.learner.replicator,
       .doc = "How several learners run: an instance each, or all in one",
       .choices = {"multi_worker", "multi_device", "central_storage"},
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "learner.deterministic",
       .default_value = d.learner.deterministic,
       .doc = "The same bits for 1, 2, 4 and 8 learners of one instance"},
      {.path = "learner.batch_size",
       .default_value = d.learner.batch_size,
       .doc = "Items in a learner step, over all learners",
       .unit = "items",
       .min = 1,
       .max = 65536,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "learner.policy_layers",
       .default_value = d.learner.policy_layers,
       .doc = "Hidden layers of the policy",
       .unit = "units",
       .min = 1,
       .max = 16384,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "learner.critic_layers",
       .default_value = d.learner.critic_layers,
       .doc = "Hidden layers of the critic",
       .unit = "units",
       .min = 1,
       .max = 16384,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "learner.atoms",
       .default_value = d.learner.atoms,
       .doc = "Atoms of the value distribution",
       .min = 2,
       .max = 1024,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "learner.v_min",
       .default_value = d.learner.v_min,
       .doc = "Least value of the distribution",
       .min = -1e9,
       .max = 1e9,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "learner.v_max",
       .default_value = d.learner.v_max,
       .doc = "Greatest value; at least the largest discounted sum of rewards",
       .min = -1e9,
       .max = 1e9,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "learner.policy_learning_rate",
       .default_value = d.learner.policy_learning_rate,
       .doc = "Adam's step size for the policy",
       .min = kLearningRateMin,
       .max = 1},
      {.path = "learner.critic_learning_rate",
       .default_value = d.learner.critic_learning_rate,
       .doc = "Adam's step size for the critic",
       .min = kLearningRateMin,
       .max = 1},
      {.path = "learner.publish_period",
       .default_value = d.learner.publish_period,
       .doc = "Between two publications of the policy to actors and evaluator",
       .unit = "learner steps",
       .min = 1,
       .max = 1e9},
      {.path = "learner.target_update_period",
       .default_value = d.learner.target_update_period,
       .doc = "Between two copies to the target networks",
       .unit = "learner steps",
       .min = 1,
       .max = 1e9},
      {.path = "learner.action_gradient_clip",
       .default_value = d.learner.action_gradient_clip,
       .doc = "Largest norm of dQ/da; 0: no clipping",
       .min = 0,
       .max = 1e9},
      {.path = "learner.gradient_norm_clip",
       .default_value = d.learner.gradient_norm_clip,
       .doc = "Largest global norm of each network's gradient; 0: no clipping",
       .min = 0,
       .max = 1e9},
      {.path = "learner.compute",
       .default_value = d.learner.compute,
       .doc = "Matrix products; weights, targets and losses are fp32 always",
       .choices = {"fp32", "tf32", "bf16"}},
      {.path = "learner.device",
       .default_value = d.learner.device,
       .doc = "cpu, cuda:N or auto; of several, learner i has the i-th modulo their count"},
      {.path = "learner.threads",
       .default_value = d.learner.threads,
       .doc = "Threads that share a learner step",
       .min = 1,
       .max = 256},

      {.path = "evaluator.episodes",
       .default_value = d.evaluator.episodes,
       .doc = "Episodes of an evaluation, without exploration noise",
       .min = 1,
       .max = 10000},
      {.path = "evaluator.every_learner_steps",
       .default_value = d.evaluator.every_learner_steps,
       .doc = "Between two evaluations",
       .unit = "learner steps",
       .min = 1,
       .max = kCountMax},

      {.path = "checkpoint.every_s",
       .default_value = d.checkpoint.every_s,
       .doc = "Between two checkpoints; one more is made at the end",
       .unit = "s",
       .min = 1,
       .max = 1e6},
      {.path = "checkpoint.keep",
       .default_value = d.checkpoint.keep,
       .doc = "Newest checkpoints that are kept",
       .min = 2,
       .max = 1000},

      {.path = "metrics.every_s",
       .default_value = d.metrics.every_s,
       .doc = "Between two rows of metrics",
       .unit = "s",
       .min = 0.05,
       .max = 3600},

      {.path = "supervisor.max_restarts",
       .default_value = d.supervisor.max_restarts,
       .doc = "Of one env actor; its next failure ends the run",
       .min = 0,
       .max = 1e6},
      {.path = "supervisor.backoff_first_s",
       .default_value = d.supervisor.backoff_first_s,
       .doc = "Wait before the first restart, doubled for every further one",
       .unit = "s",
       .min = 0,
       .max = 3600},
      {.path = "supervisor.backoff_max_s",
       .default_value = d.supervisor.backoff_max_s,
       .doc = "Longest wait before a restart",
       .unit = "s",
       .min = 0,
       .max = 3600},

      {.path = "security.nccl_interface",
       .default_value = d.security.nccl_interface,
       .doc = "Network that is trusted with NCCL's sockets; empty: loopback alone"},

      {.path = "placement.actors.nodes",
       .default_value = d.placement.actors,
       .doc = "Processes that share the env actors; 0: with the chief",
       .min = 0,
       .max = 1024},
      {.path = "placement.replay.nodes",
       .default_value = d.placement.replay,
       .doc = "Processes that share the replay shards; 0: with the chief",
       .min = 0,
       .max = 256},
      {.path = "placement.learner.nodes",
       .default_value = d.placement.learner,
       .doc = "Processes of the learners; 0: with the chief",
       .min = 0,
       .max = 1024},
      {.path = "placement.parameters.nodes",
       .default_value = d.placement.parameters,
       .doc = "Processes of the parameter store; 0: with the chief",
       .min = 0,
       .max = 1},
      {.path = "placement.evaluator.nodes",
       .default_value = d.placement.evaluator,
       .doc = "Processes of the evaluator; 0: with the chief",
       .min = 0,
       .max = 1},
      {.path = "placement.inference.nodes",
       .default_value = d.placement.inference,
       .doc = "Processes that share the inference servers; 0: with the chief",
       .min = 0,
       .max = 1024},
  };
  for (ConfigSchema& more : std::array{environment_schema(registry), replica_schema(), role_schema(registry)}) {
    std::ranges::move(more, std::back_inserter(schema));
  }
  return schema;
}

Result<actors::TrainOptions> to_train_options(const Config& config, const Registry& registry) {
  const std::vector<std::string> mistakes = mistakes_across_keys(config, registry);
  if (!mistakes.empty()) return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(mistakes, "\n"))};
  auto roles = to_roles(config, registry);
  if (!roles.ok()) return placed(config, roles.error());
  const std::string& env = config.get_string("env");
  envs::MakeEnvironment environment;
  if (!env.empty()) {
    auto made = make_environment(registry, env, config.section(env));
    if (!made.ok()) return placed(config, Error{made.error().code, "env: " + made.error().message});
    environment = std::move(made).value();
  }
  return actors::TrainOptions{
      .name = config.get_string("name"),
      .env = env,
      .make_environment = std::move(environment),
      .seed = static_cast<std::uint64_t>(config.get_int("seed")),
      .deterministic = config.get_bool("deterministic"),
      .max_minutes = config.get_float("max_minutes"),
      .max_env_steps = config.get_int("max_env_steps"),
      .max_learner_steps = config.get_int("max_learner_steps"),
      .n_step = config.get_int("n_step"),
      .discount = config.get_float("discount"),
      .actors = {.count = config.get_int("actors.count"),
                 .envs_per_actor = config.get_int("actors.envs_per_actor"),
                 .threads = config.get_int("actors.threads"),
                 .sigma = config.get_float("actors.sigma"),
                 .noise_correlation = config.get_float("actors.noise_correlation"),
                 .inference = config.get_string("actors.inference")},
      .inference = {.count = config.get_int("inference.count"),
                    .batch_size = config.get_int("inference.batch_size"),
                    .max_wait_ms = config.get_float("inference.max_wait_ms"),
                    .device = config.get_strings("inference.device")},
      .staleness = {.max_versions = config.get_int("staleness.max_versions")},
      .replay = {.shards = config.get_int("replay.shards"),
                 .max_items = config.get_int("replay.max_items"),
                 .max_bytes = config.get_int("replay.max_bytes"),
                 .min_items = config.get_int("replay.min_items"),
                 .samples_per_insert = config.get_float("replay.samples_per_insert"),
                 .tolerance = config.get_float("replay.tolerance"),
                 .sampler = config.get_string("replay.sampler"),
                 .priority_exponent = config.get_float("replay.priority_exponent"),
                 .durability = config.get_string("replay.durability"),
                 .device = config.get_string("replay.device")},
      .learner = {.count = config.get_int("learner.count"),
                  .replicator = config.get_string("learner.replicator"),
                  .deterministic = config.get_bool("learner.deterministic"),
                  .batch_size = config.get_int("learner.batch_size"),
                  .policy_layers = config.get_ints("learner.policy_layers"),
                  .critic_layers = config.get_ints("learner.critic_layers"),
                  .atoms = config.get_int("learner.atoms"),
                  .v_min = config.get_float("learner.v_min"),
                  .v_max = config.get_float("learner.v_max"),
                  .policy_learning_rate = config.get_float("learner.policy_learning_rate"),
                  .critic_learning_rate = config.get_float("learner.critic_learning_rate"),
                  .publish_period = config.get_int("learner.publish_period"),
                  .target_update_period = config.get_int("learner.target_update_period"),
                  .action_gradient_clip = config.get_float("learner.action_gradient_clip"),
                  .gradient_norm_clip = config.get_float("learner.gradient_norm_clip"),
                  .compute = config.get_string("learner.compute"),
                  .device = config.get_strings("learner.device"),
                  .threads = config.get_int("learner.threads")},
      .evaluator = {.episodes = config.get_int("evaluator.episodes"),
                    .every_learner_steps = config.get_int("evaluator.every_learner_steps")},
      .checkpoint = {.every_s = config.get_float("checkpoint.every_s"), .keep = config.get_int("checkpoint.keep")},
      .metrics = {.every_s = config.get_float("metrics.every_s")},
      .supervisor = {.max_restarts = config.get_int("supervisor.max_restarts"),
                     .backoff_first_s = config.get_float("supervisor.backoff_first_s"),
                     .backoff_max_s = config.get_float("supervisor.backoff_max_s")},
      .security = {.nccl_interface = config.get_string("security.nccl_interface")},
      .placement = {.actors = config.get_int("placement.actors.nodes"),
                    .replay = config.get_int("placement.replay.nodes"),
                    .learner = config.get_int("placement.learner.nodes"),
                    .parameters = config.get_int("placement.parameters.nodes"),
                    .evaluator = config.get_int("placement.evaluator.nodes"),
                    .inference = config.get_int("placement.inference.nodes")},
      .replicas = to_replica_runs(config),
      .roles = std::move(roles).value(),
      .channels = to_channels(config),
      .messages = registry.messages(),
  };
}

}  // namespace troupe::apps
