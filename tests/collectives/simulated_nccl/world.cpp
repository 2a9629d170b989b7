#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include <troupe/tests/collectives/simulated_nccl/memory.hpp>
#include <troupe/tests/collectives/simulated_nccl/simulated_nccl.hpp>
#include <troupe/tests/collectives/simulated_nccl/world.hpp>

namespace troupe::collectives::simulated_nccl {
namespace {

std::size_t index_of(int number) { return static_cast<std::size_t>(number); }

float combine(ncclRedOp_t op, float a, float b) {
  switch (op) {
    case ncclProd:
      return a * b;
    case ncclMax:
      return std::isnan(a) || a > b ? a : b;
    case ncclMin:
      return std::isnan(a) || a < b ? a : b;
    default:
      return a + b;
  }
}

std::vector<float> values(const float* from, std::size_t count) {
  std::vector<float> values(count);
  load(values, from);
  return values;
}

/// Element i of all ranks' inputs, along the ring from rank `first`.
float reduced(const std::vector<std::shared_ptr<Kernel>>& kernels, const std::vector<std::vector<float>>& inputs,
              std::size_t i, std::size_t first) {
  float sum = 0;
  for (std::size_t step = 0; step < kernels.size(); ++step) {
    const std::size_t rank = (first + step) % kernels.size();
    const Kernel& kernel = *kernels[rank];
    const float value = kernel.signature.scaled ? kernel.share * inputs[rank][i] : inputs[rank][i];
    sum = step == 0 ? value : combine(kernel.signature.op, sum, value);
  }
  return sum;
}

void compute(const std::vector<std::shared_ptr<Kernel>>& kernels) {
  const Signature& what = kernels.front()->signature;
  const std::size_t ranks = kernels.size();
  const std::size_t count = what.count;
  const bool scatters = what.kind == Kind::kReduceScatter;
  std::vector<float> result;
  switch (what.kind) {
    case Kind::kAllReduce:
    case Kind::kReduceScatter: {
      result.resize(scatters ? count * ranks : count);
      std::vector<std::vector<float>> inputs;
      for (const auto& kernel : kernels) inputs.push_back(values(kernel->in, result.size()));
      for (std::size_t i = 0; i < result.size(); ++i) {
        result[i] = reduced(kernels, inputs, i, (i * ranks / result.size() + 1) % ranks);
      }
      break;
    }
    case Kind::kAllGather:
      for (const auto& kernel : kernels) {
        const std::vector<float> row = values(kernel->in, count);
        result.insert(result.end(), row.begin(), row.end());
      }
      break;
    case Kind::kBroadcast:
      result = values(kernels[index_of(what.root)]->in, count);
      break;
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::span<const float> whole(result);
    store(scatters ? whole.subspan(rank * count, count) : whole, kernels[rank]->out);
    kernels[rank]->done = true;
  }
}

}  // namespace

World& world() {
  static World world;
  return world;
}

std::mutex& world_mutex() {
  static std::mutex mutex;
  return mutex;
}

bool World::step(const std::shared_ptr<Kernel>& kernel, Time now) {
  const ncclComm& comm = *kernel->comm;
  if (kernel->done) return true;
  if (comm.told_to_end) {
    if (devices[index_of(comm.device)].deaf) return false;
    if (!kernel->began) return true;
    if (now < *comm.told_to_end + kExit) return false;
    // It was at work on these buffers until now, and leaves them anyhow.
    const std::size_t rows = kernel->signature.kind == Kind::kAllGather ? index_of(comm.clique->size) : 1;
    store(std::vector<float>(rows * kernel->signature.count, std::numeric_limits<float>::quiet_NaN()), kernel->out);
    return true;
  }
  Clique& clique = *comm.clique;
  if (!clique.all_connected || now < *clique.all_connected + kLatency) return false;
  if (devices[index_of(comm.device)].stopped) return false;
  Meeting& meeting = clique.meetings[kernel->index];
  if (!kernel->began) {
    kernel->began = true;
    meeting.kernels.resize(index_of(clique.size));
    meeting.kernels[index_of(comm.rank)] = kernel;
    if (++meeting.came == clique.size) meeting.complete = now;
  }
  if (!meeting.complete || now < *meeting.complete + kLatency) return false;
  for (const auto& other : meeting.kernels) {
    if (other->signature != kernel->signature || other->comm->told_to_end) return false;
    if (devices[index_of(other->comm->device)].stopped) return false;
  }
  compute(meeting.kernels);
  ++collectives;
  clique.meetings.erase(kernel->index);
  return true;
}

bool World::step(CUstream_st& stream, Time now) {
  const StreamItem& item = stream.items.front();
  if (item.kernel) return step(item.kernel, now);
  if (item.event) item.event->done = true;
  if (item.fill && item.fill->bytes > 0) {
    std::vector<float> filled(item.fill->bytes / sizeof(float));
    std::memset(filled.data(), item.fill->value, item.fill->bytes);
    store(filled, static_cast<float*>(item.fill->at));
  }
  return true;
}

void World::advance(Time now) {
  for (bool moved = true; moved;) {  // what ends on one stream may be what another waits for
    moved = false;
    for (const auto& stream : streams) {
      while (!stream->items.empty() && step(*stream, now)) {
        stream->items.pop_front();
        moved = true;
      }
    }
  }
  streams.remove_if([](const auto& stream) { return stream->destroyed && stream->items.empty(); });
}

bool World::runs(const ncclComm* comm) const {
  for (const auto& stream : streams) {
    for (const StreamItem& item : stream->items) {
      if (item.kernel && item.kernel->comm == comm) return true;
    }
  }
  return false;
}

void reset() {
  const std::lock_guard lock(world_mutex());
  world() = World();
}

Counts counts() {
  const std::lock_guard lock(world_mutex());
  const World& all = world();
  Counts counts{
      .streams = all.live_streams, .events = all.events, .foreign_calls = all.foreign_calls, .misuses = all.misuses};
  for (const auto& comm : all.comms) {
    if (comm->gone) continue;
    ++counts.communicators;
    counts.operators += static_cast<int>(comm->operators.size());
  }
  return counts;
}

int collectives() {
  const std::lock_guard lock(world_mutex());
  return world().collectives;
}

void stop_device(int device) {
  const std::lock_guard lock(world_mutex());
  world().devices[index_of(device)].stopped = true;
}

void start_device(int device) {
  const std::lock_guard lock(world_mutex());
  world().devices[index_of(device)].stopped = false;
}

int waiting(int device) {
  const std::lock_guard lock(world_mutex());
  world().advance(std::chrono::steady_clock::now());
  int waiting = 0;
  for (const auto& stream : world().streams) {
    if (stream->device != device) continue;
    for (const StreamItem& item : stream->items) waiting += item.kernel && !item.kernel->done ? 1 : 0;
  }
  return waiting;
}

void kill_device(int device, std::chrono::milliseconds told_after) {
  const std::lock_guard lock(world_mutex());
  Device& killed = world().devices[index_of(device)];
  killed.stopped = true;
  killed.told = std::chrono::steady_clock::now() + told_after;
}

void deafen_device(int device) {
  const std::lock_guard lock(world_mutex());
  world().devices[index_of(device)].deaf = true;
}

void refuse_revoke() {
  const std::lock_guard lock(world_mutex());
  world().refuse_revoke = true;
}

void refuse_next_init(int device) {
  const std::lock_guard lock(world_mutex());
  world().devices[index_of(device)].refuses_init = true;
}

void refuse_next_collective(int device) {
  const std::lock_guard lock(world_mutex());
  world().devices[index_of(device)].refuses_next = true;
}

}  // namespace troupe::collectives::simulated_nccl
