#include <troupe/actors/roles/parameter_server.hpp>

#include <fmt/format.h>

#include <troupe/actors/roles/ps_actor.hpp>
#include <troupe/actors/roles/ps_worker_actor.hpp>

namespace troupe::actors {
namespace {

Status expect(bool holds, const ParameterServerOptions& options, std::string_view option, std::int64_t got,
              std::string_view expected) {
  if (holds) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("parameter server {}: {} is {}, expected {}", options.name, option, got, expected)};
}

}  // namespace

Status check(const ParameterServerOptions& options) {
  TROUPE_TRY(expect(options.workers >= 1, options, "workers", options.workers, "1 or more"));
  TROUPE_TRY(expect(options.shards >= 1 && options.shards <= messages::kMaxParametersPieces, options, "shards",
                    options.shards, fmt::format("1 to {}", messages::kMaxParametersPieces)));
  TROUPE_TRY(
      expect(options.batch >= options.workers, options, "batch", options.batch, "a row for each worker or more"));
  TROUPE_TRY(expect(options.updates >= 0, options, "updates", options.updates, "0 or more"));
  TROUPE_TRY(expect(options.part_bytes >= 1, options, "part_bytes", options.part_bytes, "1 or more"));
  TROUPE_TRY(expect(options.max_staleness >= 0, options, "max_staleness", options.max_staleness, "0 or more"));
  TROUPE_TRY(expect(options.backup_workers >= 0 && options.backup_workers < options.workers, options, "backup_workers",
                    options.backup_workers, "0 or more, and fewer than workers"));
  TROUPE_TRY(expect(options.synchronous || options.backup_workers == 0, options, "backup_workers",
                    options.backup_workers, "0 unless steps are synchronous"));
  TROUPE_TRY(expect(!options.synchronous || options.stale == learner::StalePolicy::kNone, options, "stale",
                    static_cast<std::int64_t>(options.stale),
                    "none: late gradients of a synchronous step are dropped"));
  if (options.transfer == DType::kF32 || options.transfer == DType::kBF16) return {};
  return Error{Code::kInvalidArgument, fmt::format("parameter server {}: transfer is {}, expected float32 or bfloat16",
                                                   options.name, to_string(options.transfer))};
}

learner::ParameterServerPlan plan(const ParameterServerOptions& options, std::int64_t worker, std::int64_t first_step) {
  const std::int64_t rows = (worker + 1) * options.batch / options.workers - worker * options.batch / options.workers;
  return {.input = {.replica_id = static_cast<int>(worker),
                    .replica_count = static_cast<int>(options.workers),
                    .replica_batch = rows,
                    .global_batch = options.batch,
                    .first_step = first_step},
          .compile = options.compile,
          .shards = static_cast<std::size_t>(options.shards),
          .partition = options.partition,
          .part_bytes = options.part_bytes};
}

Status add_parameter_server(Topology& topology, const ParameterServerOptions& options) {
  TROUPE_TRY(check(options));
  RoleSpec servers = PsActor::spec(options);
  RoleSpec workers = PsWorkerActor::spec(options);
  // As many calls as there are shards, for each worker: one to each.
  for (const char* port : {"pull", "push"}) {
    topology.channels.push_back({workers.name, port, servers.name, port, options.shards});
  }
  topology.roles.push_back(std::move(servers));
  topology.roles.push_back(std::move(workers));
  return {};
}

}  // namespace troupe::actors
