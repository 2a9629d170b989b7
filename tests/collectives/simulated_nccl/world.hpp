#pragma once
// What the simulated devices and communicators are, behind one lock. Private to the simulated NCCL.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace troupe::collectives::simulated_nccl {

using Time = std::chrono::steady_clock::time_point;

constexpr int kDevices = 16;
constexpr auto kLatency = std::chrono::microseconds(100);  // of whatever needs all ranks, once they are there
constexpr auto kExit = std::chrono::milliseconds(3);       // of a kernel that has been told to end

enum class Kind : std::uint8_t { kAllReduce, kAllGather, kReduceScatter, kBroadcast };

/// What must be equal at all ranks for a collective to come to an end.
struct Signature {
  Kind kind = Kind::kAllReduce;
  std::size_t count = 0;
  ncclRedOp_t op = ncclSum;
  bool scaled = false;
  int root = 0;
  friend bool operator==(const Signature&, const Signature&) = default;
};

/// A collective of one rank, on its stream.
struct Kernel {
  ncclComm_t comm = nullptr;
  std::uint64_t index = 0;  // of the communicator's collectives
  Signature signature;
  float share = 1;
  const float* in = nullptr;
  float* out = nullptr;
  bool began = false;
  bool done = false;
};

struct EventState {
  bool done = true;
};

/// What stands on a stream: one of the three.
struct StreamItem {
  std::shared_ptr<Kernel> kernel = {};
  std::shared_ptr<EventState> event = {};
  struct Fill {
    void* at = nullptr;
    int value = 0;
    std::size_t bytes = 0;
  };
  std::optional<Fill> fill = {};
};

/// A collective of all ranks.
struct Meeting {
  std::vector<std::shared_ptr<Kernel>> kernels;  // by rank, those that have begun
  int came = 0;
  std::optional<Time> complete;  // since when all have
};

/// The communicators of one id.
struct Clique {
  int size = 0;
  std::vector<ncclComm_t> ranks;              // null: has not come
  std::map<std::uint64_t, Meeting> meetings;  // by index, until they are done
  std::optional<Time> all_came;
  bool formed = false;
  std::optional<Time> all_connected;
  int came = 0;
  int connecting = 0;  // have called their first collective
};

struct Device {
  bool stopped = false;
  bool deaf = false;
  bool refuses_next = false;
  bool refuses_init = false;
  std::optional<Time> told;  // when the others hear that it was killed
};

struct World {
  std::array<Device, kDevices> devices;
  std::list<std::unique_ptr<CUstream_st>> streams;
  std::map<std::uint64_t, std::shared_ptr<Clique>> cliques;
  std::list<std::unique_ptr<ncclComm>> comms;  // also those that are gone, to see whoever uses them still
  std::string last_error;
  bool refuse_revoke = false;
  int collectives = 0;
  int live_streams = 0;
  int events = 0;
  int foreign_calls = 0;
  int misuses = 0;

  /// Does all that is due.
  void advance(Time now);
  /// Whether a kernel of it stands on a stream still.
  bool runs(const ncclComm* comm) const;

 private:
  /// Whether the first item of the stream is over.
  bool step(CUstream_st& stream, Time now);
  bool step(const std::shared_ptr<Kernel>& kernel, Time now);
};

/// The one world of this process, and its lock.
World& world();
std::mutex& world_mutex();

/// What cudaSetDevice has chosen.
int device_of_this_thread();

}  // namespace troupe::collectives::simulated_nccl

struct CUstream_st {
  int device = 0;
  bool destroyed = false;
  std::deque<troupe::collectives::simulated_nccl::StreamItem> items;
};

struct CUevent_st {
  int device = 0;
  std::shared_ptr<troupe::collectives::simulated_nccl::EventState> state;
};

struct ncclComm {
  enum class Doing : std::uint8_t { kNothing, kInit, kConnect, kRevoke, kFinalize };

  std::shared_ptr<troupe::collectives::simulated_nccl::Clique> clique;
  int rank = 0;
  int device = 0;
  std::thread::id owner;
  Doing doing = Doing::kInit;
  ncclResult_t error = ncclSuccess;
  bool connected = false;
  bool revoked = false;
  bool finalized = false;
  bool gone = false;
  std::optional<troupe::collectives::simulated_nccl::Time> told_to_end;
  std::uint64_t collectives = 0;
  std::map<int, float> operators;
  int next_operator = ncclNumOps;
};
