// Where nodes come from: cluster and hosts files, TF_CONFIG, Slurm's and Kubernetes' variables, and what the launcher
// hands to a node.
#include <troupe/apps/cluster/cluster_file.hpp>
#include <troupe/apps/cluster/environment.hpp>
#include <troupe/apps/cluster/hosts_file.hpp>
#include <troupe/apps/cluster/node_start.hpp>
#include <troupe/apps/cluster/place.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>

namespace troupe::fuzz {
namespace {

using namespace apps;

actors::TrainOptions options() {
  actors::TrainOptions made;
  made.agents.emplace_back();
  made.agents[0].env = "cartpole-swingup";
  made.agents[0].actors.count = 3;
  made.agents[0].replay.shards = 2;
  made.agents[0].placement.actors = 2;
  return made;
}

void cluster_file(std::string_view text) {
  const auto got = parse_cluster(text, "f", options());
  if (!got.ok()) return;
  const auto again = parse_cluster(to_toml(*got), "again", options());
  TROUPE_CHECK(again.ok() && *again == *got, "a cluster of {} nodes changed", got->nodes.size());
}

void hosts_file(std::string_view text) {
  const auto got = parse_hosts(text, "f", options());
  if (!got.ok()) return;
  const auto placed = place_on_hosts(options(), "run-1", *got);
  if (placed.ok()) TROUPE_CHECK(placed->hosts.size() == placed->cluster.nodes.size(), "a node without a host");
}

void place_of(const Environment& environment) {
  const auto got = own_place(environment, options(), "run-1");
  if (!got.ok()) return;
  TROUPE_CHECK(got->cluster.find(got->node) != nullptr, "the node {} is not in its cluster", got->node);
  const auto again = parse_cluster(to_toml(got->cluster), "again", options());
  TROUPE_CHECK(!again.ok() || *again == got->cluster, "a cluster of {} nodes changed", got->cluster.nodes.size());
}

void variables(Input input, const std::vector<const char*>& names) {
  Environment environment;
  for (const char* name : names) {
    const std::string value = to_string(input.part());
    if (value != "-") environment[name] = value;
  }
  place_of(environment);
}

const std::vector<const char*> kSlurm = {
    "SLURM_PROCID",   "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE",
    "SLURMD_NODENAME"};
const std::vector<const char*> kKubernetes = {"TROUPE_NODES",   "HOSTNAME",    "JOB_COMPLETION_INDEX",
                                              "TROUPE_SERVICE", "TROUPE_PORT", "TROUPE_PODS"};

void start(std::string_view text) {
  const auto got = parse_node_start(text, "1.0");
  if (!got.ok()) return;
  const auto again = parse_node_start(to_text(*got), "1.0");
  TROUPE_CHECK(again.ok() && again->node == got->node && again->config == got->config, "a start changed");
}

void one_input(Bytes input) {
  Input choice(input);
  switch (choice.choose(8)) {
    case 0:
      return cluster_file(text_of(choice.rest()));
    case 1:
      return hosts_file(text_of(choice.rest()));
    case 2:
      return place_of({{"TF_CONFIG", to_string(choice.rest())}});
    case 3:
      return variables(choice, kSlurm);
    case 4:
      return variables(choice, kKubernetes);
    case 5:
      (void)expand_host_list(to_string(choice.rest()));
      return;
    case 6:
      (void)expand_counts(to_string(choice.rest()));
      return;
    default:
      return start(text_of(choice.rest()));
  }
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  all.push_back(std::string(1, '\0') + to_toml(place(options(), "run-1").value()));
  all.push_back("\1hosts = [\"gpu-1\", \"alice@cpu-2\"]\nport = 7600\n");
  all.push_back(
      "\1[[hosts]]\nssh = \"a@b\"\naddress = \"10.0.0.1\"\nnodes = { learner = 1, replay = 2 }\n[[hosts]]\n"
      "address = \"h2\"\ntroupe = \"/opt/troupe\"\n");
  all.push_back(R"({"cluster": {"worker": ["w0:1", "w1:1"], "ps": ["p0:1"], "chief": ["[::1]:5"], )"
                R"("evaluator": ["e:1"]}, "task": {"type": "worker", "index": "1"}, "rpc_layer": "grpc"})");
  all.back().insert(0, "\2");
  const auto list = [](const char* head, std::initializer_list<const char*> values) {
    std::string text = head;
    for (const char* value : values) text += part(value);
    return text;
  };
  all.push_back(list("\3", {"1", "5", "4711", "n[01-02,7]", "2(x2),1", "n01"}));
  all.push_back(list("\4", {"4", "cartpole-3.svc", "3", "cartpole", "7600"}));
  all.push_back("\5n[01-03,7]-[1,2],gpu-a");
  all.push_back(
      "\6"
      "2(x3),1");
  NodeStart start{
      .program = "1.0", .node = "actors-0", .cluster = "run = \"r\"", .config = "seed = 1", .credentials = {}};
  all.push_back("\7" + to_text(start));
  return all;
}

const Registered registered({"cluster", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
