#include <troupe/actors/roles/replica_options.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include <troupe/learner/engine/device.hpp>

namespace troupe::actors {
namespace {

constexpr std::array<std::string_view, 8> kReplicators = {"one_device",      "multi_device",     "multi_worker",
                                                          "central_storage", "parameter_server", "sync_replicas",
                                                          "model_parallel",  "split_gan"};

Status one_error(std::string_view section, std::vector<std::string> mistakes) {
  if (mistakes.empty()) return {};
  for (std::string& mistake : mistakes) mistake = fmt::format("{}.{}", section, mistake);
  return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(mistakes, "\n"))};
}

}  // namespace

bool has_parameter_server(const ReplicaGroupOptions& options) {
  return options.replicator == "parameter_server" || options.replicator == "sync_replicas";
}

bool is_split_gan(const ReplicaGroupOptions& options) { return options.replicator == "split_gan"; }

std::int64_t instances(const ReplicaGroupOptions& options) {
  const bool each = options.replicator == "multi_worker" || has_parameter_server(options) || is_split_gan(options);
  return each ? options.count : 1;
}

Status check(const ReplicaGroupOptions& o, std::string_view section) {
  std::vector<std::string> mistakes;
  const auto demand = [&](bool holds, std::string what) {
    if (!holds) mistakes.push_back(std::move(what));
  };
  demand(std::find(kReplicators.begin(), kReplicators.end(), o.replicator) != kReplicators.end(),
         fmt::format("replicator: unknown \"{}\", expected one of {}", o.replicator, fmt::join(kReplicators, ", ")));
  demand(o.count >= 1, fmt::format("count: got {}, expected at least 1", o.count));
  demand(o.steps >= 0, fmt::format("steps: got {}, expected at least 0", o.steps));
  demand(o.count == 1 || o.replicator != "one_device",
         fmt::format("count: got {}, but replicator \"{}\" runs one replica", o.count, o.replicator));
  demand(o.devices == 1 || o.replicator == "model_parallel",
         fmt::format("devices: got {}, but replicator \"{}\" gives each replica one", o.devices, o.replicator));
  demand(o.accumulate >= 1, fmt::format("accumulate: got {}, expected at least 1", o.accumulate));
  const bool every_batch = o.replicator == "central_storage" || has_parameter_server(o) || is_split_gan(o);
  demand(o.accumulate == 1 || !every_batch,
         fmt::format("accumulate: got {}, but replicator \"{}\" makes an update of every batch", o.accumulate,
                     o.replicator));
  demand(o.batch_size >= o.count, fmt::format("batch_size: got {} for {} replicas", o.batch_size, o.count));
  const std::int64_t rows = std::max<std::int64_t>(o.batch_size / std::max<std::int64_t>(o.count, 1), 1);
  demand(o.threads >= 1 && o.threads <= rows,
         fmt::format("threads: got {}, expected 1 to the rows of a replica's batch, which threads share", o.threads));
  demand(o.compute == "fp32" || o.compute == "bf16" || o.compute == "tf32",
         fmt::format("compute: unknown \"{}\", expected fp32, tf32 or bf16", o.compute));
  if (const auto devices = learner::parse_devices(o.device); !devices.ok()) {
    mistakes.push_back("device: " + devices.error().message);
  } else {
    const bool gpu = std::ranges::any_of(*devices, [](learner::Device device) { return device != learner::Device{}; });
    demand(!gpu || (!o.deterministic && o.devices == 1),
           fmt::format("device: got {}, but {} is for the processor alone", fmt::join(o.device, ", "),
                       o.deterministic ? "deterministic" : "model_parallel"));
  }
  demand(o.discriminators == 1 || is_split_gan(o),
         fmt::format("discriminators: got {}, but replicator \"{}\" has no role for them", o.discriminators,
                     o.replicator));
  demand(o.discriminators >= 1 && o.batch_size >= o.discriminators,
         fmt::format("discriminators: got {} for a batch of {} rows", o.discriminators, o.batch_size));
  demand(o.backup_workers == 0 || o.replicator == "sync_replicas",
         fmt::format("backup_workers: got {}, but replicator \"{}\" has none", o.backup_workers, o.replicator));
  demand(o.backup_workers < std::max<std::int64_t>(o.count, 1),
         fmt::format("backup_workers: got {} of {} replicas, expected fewer", o.backup_workers, o.count));
  demand(!o.deterministic || !has_parameter_server(o),
         fmt::format("deterministic: got true, but with replicator \"{}\" bits depend on which gradient comes first",
                     o.replicator));
  demand(!o.deterministic || o.wire == "fp32",
         fmt::format("wire: got \"{}\", but with deterministic no bit may depend on what travels", o.wire));
  return one_error(section, std::move(mistakes));
}

}  // namespace troupe::actors
