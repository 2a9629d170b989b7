// NCCL's part: ids, communicators, collectives.
#include <troupe/tests/collectives/simulated_nccl/simulated_nccl.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include <troupe/tests/collectives/simulated_nccl/memory.hpp>
#include <troupe/tests/collectives/simulated_nccl/world.hpp>

using namespace troupe::collectives::simulated_nccl;

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

using Doing = ncclComm::Doing;

Time host_now() { return std::chrono::steady_clock::now(); }

/// What NCCL reads once a process, whatever becomes of the world.
const std::string& interface_of_this_process() {
  static const std::string interface = [] {
    const char* set = std::getenv("NCCL_SOCKET_IFNAME");
    return std::string(set ? set : "");
  }();
  return interface;
}

/// This process's, since ranks are its threads.
ncclUniqueId id_of(std::uint64_t number) {
  ncclUniqueId id{};
  std::memset(&id, 0xff, sizeof(id));  // as floats: not numbers, and still to be carried as they are
  const pid_t process = getpid();
  std::memcpy(id.internal + 8, &number, sizeof(number));
  std::memcpy(id.internal + 16, &process, sizeof(process));
  return id;
}

ncclResult_t refuse(ncclResult_t result, std::string why) {
  world().last_error = std::move(why);
  return result;
}

const Device& device_of(const ncclComm& comm) { return world().devices[static_cast<std::size_t>(comm.device)]; }

/// Another rank's process has died, and this one has heard of it.
bool has_lost_a_rank(const ncclComm& comm, Time at) {
  for (const ncclComm* other : comm.clique->ranks) {
    if (!other || other == &comm) continue;
    if (const auto told = device_of(*other).told; told && at >= *told) return true;
  }
  return false;
}

/// The rank on the same device as this one, if there is any.
const ncclComm* duplicate_of(const ncclComm& comm) {
  for (const ncclComm* other : comm.clique->ranks) {
    if (other && other != &comm && other->device == comm.device) return other;
  }
  return nullptr;
}

void progress(ncclComm& comm, Time at) {
  world().advance(at);
  Clique& clique = *comm.clique;
  switch (comm.doing) {
    case Doing::kNothing:
      break;
    case Doing::kInit:
      if (!clique.all_came || at < *clique.all_came + kLatency) break;
      if (const ncclComm* other = duplicate_of(comm)) {
        comm.error = refuse(ncclInvalidUsage,
                            fmt::format("Duplicate GPU detected : rank {} and rank {} both on CUDA device {:x}",
                                        comm.rank, other->rank, comm.device));
        comm.doing = Doing::kNothing;
        break;
      }
      if (!clique.formed) {
        for (const ncclComm* one : clique.ranks) {
          if (duplicate_of(*one) || one->told_to_end || device_of(*one).stopped) return;
        }
        clique.formed = true;
      }
      comm.doing = Doing::kNothing;
      break;
    case Doing::kConnect:
      if (!clique.all_connected || at < *clique.all_connected + kLatency || device_of(comm).stopped) break;
      comm.doing = Doing::kNothing;
      comm.connected = true;
      break;
    case Doing::kRevoke:
    case Doing::kFinalize:
      if (!world().runs(&comm)) comm.doing = Doing::kNothing;
      break;
  }
}

ncclResult_t state_of(ncclComm& comm) {
  const Time at = host_now();
  progress(comm, at);
  if (comm.error != ncclSuccess) return comm.error;
  if (has_lost_a_rank(comm, at)) return ncclRemoteError;
  return comm.doing == Doing::kNothing ? ncclSuccess : ncclInProgress;
}

/// What every call of a communicator begins with.
ncclResult_t enter(ncclComm_t comm) {
  if (!comm || comm->gone) {
    ++world().misuses;
    return refuse(ncclInvalidArgument, "the communicator is gone");
  }
  if (comm->owner != std::this_thread::get_id()) ++world().foreign_calls;
  return ncclSuccess;
}

/// The same for calls that want nothing in progress.
ncclResult_t enter_ready(ncclComm_t comm) {
  if (const ncclResult_t entered = enter(comm); entered != ncclSuccess) return entered;
  const ncclResult_t state = state_of(*comm);
  if (state != ncclInProgress) return state;
  ++world().misuses;
  return refuse(ncclInvalidArgument, "Attempt to use communicator before the previous operation returned ncclSuccess");
}

ncclResult_t leave(ncclComm& comm) {
  comm.told_to_end = host_now();
  comm.gone = true;
  comm.operators.clear();
  world().advance(host_now());
  return ncclSuccess;
}

ncclResult_t fail(ncclComm& comm, std::string why, ncclResult_t result = ncclInvalidArgument) {
  comm.error = result;
  return refuse(result, std::move(why));
}

ncclResult_t enqueue(ncclComm_t comm, Signature what, const void* in, void* out, ncclDataType_t type,
                     cudaStream_t stream) {
  const std::lock_guard lock(world_mutex());
  if (const ncclResult_t entered = enter_ready(comm); entered != ncclSuccess) return entered;
  if (comm->revoked) return refuse(ncclInvalidUsage, "communicator was revoked");
  if (comm->finalized) return fail(*comm, "communicator was finalized");
  Device& device = world().devices[static_cast<std::size_t>(comm->device)];
  if (std::exchange(device.refuses_next, false)) return fail(*comm, "a test wanted it so", ncclSystemError);
  if (type != ncclFloat) return fail(*comm, "the simulation has float32 only");
  if (what.root < 0 || what.root >= comm->clique->size) return fail(*comm, fmt::format("invalid root {}", what.root));
  float share = 1;
  if (what.op >= ncclNumOps) {
    const auto own = comm->operators.find(what.op);
    if (own == comm->operators.end()) return fail(*comm, fmt::format("invalid operator {}", static_cast<int>(what.op)));
    share = own->second;
    what.op = ncclSum;
    what.scaled = true;
  }
  if (stream->device != comm->device) {
    ++world().misuses;
    return fail(*comm, "the stream is of another device");
  }
  if (what.count == 0) return ncclSuccess;  // NCCL discards those
  const auto ranks = static_cast<std::size_t>(comm->clique->size);
  const std::size_t bytes = what.count * sizeof(float);
  if (!is_memory_of(comm->device, in, what.kind == Kind::kReduceScatter ? ranks * bytes : bytes) ||
      !is_memory_of(comm->device, out, what.kind == Kind::kAllGather ? ranks * bytes : bytes)) {
    ++world().misuses;
    return fail(*comm, "a buffer is not in the device's memory");
  }
  auto kernel = std::make_shared<Kernel>();
  kernel->comm = comm;
  kernel->index = comm->collectives++;
  kernel->signature = what;
  kernel->share = share;
  kernel->in = static_cast<const float*>(in);
  kernel->out = static_cast<float*>(out);
  stream->items.push_back({.kernel = std::move(kernel)});
  if (!comm->connected) {
    comm->doing = Doing::kConnect;
    Clique& clique = *comm->clique;
    if (++clique.connecting == clique.size) clique.all_connected = host_now();
  }
  return state_of(*comm);
}

}  // namespace

EXPORTED ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::uint64_t last = 0;
  const std::lock_guard lock(world_mutex());
  (void)interface_of_this_process();
  *id = id_of(++last);
  world().cliques[last] = std::make_shared<Clique>();
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int size, ncclUniqueId id, int rank,
                                             ncclConfig_t* config) {
  const std::lock_guard lock(world_mutex());
  (void)interface_of_this_process();
  *made = nullptr;
  if (!config || config->size != sizeof(ncclConfig_t) || config->magic != 0xcafebeef || config->blocking != 0) {
    return refuse(ncclInvalidArgument, "the simulation has communicators with blocking = 0 only");
  }
  if (size < 1 || rank < 0 || rank >= size) return refuse(ncclInvalidArgument, fmt::format("invalid rank {}", rank));
  Device& device = world().devices[static_cast<std::size_t>(device_of_this_thread())];
  if (std::exchange(device.refuses_init, false)) return refuse(ncclSystemError, "a test wanted no init");
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal + 8, sizeof(number));
  const auto found = world().cliques.find(number);
  const ncclUniqueId whole = id_of(number);
  if (found == world().cliques.end() || std::memcmp(&whole, &id, sizeof(id)) != 0) {
    return refuse(ncclSystemError, "nobody answers at the address of this id");
  }
  auto comm = std::make_unique<ncclComm>();
  comm->clique = found->second;
  comm->rank = rank;
  comm->device = device_of_this_thread();
  comm->owner = std::this_thread::get_id();
  Clique& clique = *comm->clique;
  if (clique.ranks.empty()) {
    clique.size = size;
    clique.ranks.resize(static_cast<std::size_t>(size));
  }
  auto& seat = clique.ranks[static_cast<std::size_t>(rank)];
  if (clique.size != size || seat) return refuse(ncclInvalidArgument, fmt::format("rank {} of {} again", rank, size));
  *made = comm.get();
  // A process that has stopped has not got here.
  if (!device_of(*comm).stopped) {
    seat = comm.get();
    if (++clique.came == size) clique.all_came = host_now();
  }
  world().comms.push_back(std::move(comm));
  return ncclInProgress;
}

EXPORTED ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard lock(world_mutex());
  if (const ncclResult_t entered = enter(comm); entered != ncclSuccess) return entered;
  *state = state_of(*comm);
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::lock_guard lock(world_mutex());
  if (const ncclResult_t entered = enter_ready(comm); entered != ncclSuccess) return entered;
  if (comm->finalized || comm->revoked) return refuse(ncclInvalidArgument, "finalized or revoked before");
  comm->finalized = true;
  comm->doing = Doing::kFinalize;
  return state_of(*comm);
}

EXPORTED ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::lock_guard lock(world_mutex());
  if (const ncclResult_t entered = enter_ready(comm); entered != ncclSuccess) return entered;
  if (world().runs(comm)) ++world().misuses;  // NCCL's own thread would wait for it, perhaps for ever
  return leave(*comm);
}

EXPORTED ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::lock_guard lock(world_mutex());
  if (const ncclResult_t entered = enter(comm); entered != ncclSuccess) return entered;
  return leave(*comm);
}

EXPORTED ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  const std::lock_guard lock(world_mutex());
  if (const ncclResult_t entered = enter(comm); entered != ncclSuccess) return entered;
  if (flags != 0 || comm->finalized || comm->revoked || world().refuse_revoke) {
    return refuse(ncclInvalidArgument, "cannot be revoked");
  }
  if (comm->doing == Doing::kInit) ++world().misuses;  // NCCL 2.28 does not look, and reads what is not there yet
  comm->revoked = true;
  comm->told_to_end = host_now();
  comm->doing = Doing::kRevoke;
  return state_of(*comm);
}

EXPORTED const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "internal error - please report this issue to the NCCL developers";
  }
}

EXPORTED const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string text;
  const std::lock_guard lock(world_mutex());
  text = world().last_error;
  return text.c_str();
}

EXPORTED ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                    ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, {.kind = Kind::kAllReduce, .count = count, .op = op}, in, out, type, stream);
}

EXPORTED ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                                    cudaStream_t stream) {
  return enqueue(comm, {.kind = Kind::kAllGather, .count = count}, in, out, type, stream);
}

EXPORTED ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                        ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, {.kind = Kind::kReduceScatter, .count = count, .op = op}, in, out, type, stream);
}

EXPORTED ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                                    ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, {.kind = Kind::kBroadcast, .count = count, .root = root}, in, out, type, stream);
}

EXPORTED ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                               ncclScalarResidence_t residence, ncclComm_t comm) {
  const std::lock_guard lock(world_mutex());
  if (const ncclResult_t entered = enter_ready(comm); entered != ncclSuccess) return entered;
  if (type != ncclFloat || residence != ncclScalarHostImmediate) {
    return refuse(ncclInvalidArgument, "the simulation has float32 from host memory only");
  }
  const int number = comm->next_operator++;
  std::memcpy(&comm->operators[number], scalar, sizeof(float));
  *op = static_cast<ncclRedOp_t>(number);
  return ncclSuccess;
}

EXPORTED ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  const std::lock_guard lock(world_mutex());
  if (const ncclResult_t entered = enter(comm); entered != ncclSuccess) return entered;
  if (comm->operators.erase(op) == 0) return refuse(ncclInvalidArgument, "operator unknown to this communicator");
  return ncclSuccess;
}

namespace troupe::collectives::simulated_nccl {

std::string interface() { return interface_of_this_process(); }

}  // namespace troupe::collectives::simulated_nccl
