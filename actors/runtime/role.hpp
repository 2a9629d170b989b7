#pragma once
// What runs in an actor: a Role is a function that is called whenever it can do something. It takes frames from its
// inlets, sends frames to its outlets and returns; the shell around it (actors/runtime/role_actor) owns mailbox,
// credits, supervision and time. Roles never see CAF, threads or sockets, so the same role runs on its own thread, on
// CAF's deterministic scheduler with virtual time, or on another node. Used by everyone who adds a role to a topology.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/messages/checkpoint.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::actors {

class GroupSeat;  // actors/runtime/group_seat.hpp
using messages::Frame;

/// Who an instance of a role is. Handed to the factory.
struct RoleIdentity {
  std::string role;              ///< name in the topology
  std::int64_t index = 0;        ///< 0 .. count-1; more when nodes join a run that goes on
  std::int64_t count = 1;        ///< instances of this role, as configured
  std::int64_t incarnation = 0;  ///< how often this instance was restarted
  std::uint64_t seed = 0;        ///< from (run seed, role, index); the same after a restart
  /// A folder for this instance alone that outlives its process (replay's journal, say). Empty: there is none, as in a
  /// run within one process, whose checkpoints cover everything. The role makes it when it needs it.
  std::filesystem::path directory = {};
  /// The whole run goes on from a checkpoint: restore() follows, and what is newer in `directory` does not count. When
  /// this instance alone is restarted, the opposite is true.
  bool resumes = false;
  /// The run's folder, for what people should find there; empty: the run leaves nothing behind.
  std::filesystem::path run_directory = {};
  /// Its seat in the group of its role; null in a role without one (RoleSpec::group).
  std::shared_ptr<GroupSeat> group = nullptr;
  /// Where frames of its own pools belong (Network::frame_memory); null: anywhere.
  std::shared_ptr<LendableMemory> frame_memory = nullptr;

  std::string name() const { return count == 1 && index == 0 ? role : role + "-" + std::to_string(index); }
};

/// What step() says about the next call.
enum class Progress {
  kMore,  ///< there is more to do now: call again, after the messages that wait
  kIdle,  ///< nothing to do until a frame or credit comes in or the time of wake_after() is reached
  kDone,  ///< this instance has finished its work; it stays reachable, but step() is not called again
};

/// The consuming end of a channel. Frames of all producers in one queue, in the order of arrival, at most
/// capacity x producers of them.
class Inlet {
 public:
  virtual ~Inlet() = default;
  virtual bool empty() const = 0;
  /// Takes the oldest frame and gives its credit back to the producer. Must not be called when empty().
  /// On a `latest` channel it is the newest frame of the producer that has waited longest; older ones are dropped.
  virtual Frame take() = 0;
  /// Works as take() on a `stream` channel, but the credit goes back only with release_held(): until then the producer
  /// keeps the frame, and sends it again should this instance be restarted. A role that makes data durable uses this.
  virtual Frame take_held() = 0;
  /// Gives back the credits of the oldest `count` frames that are held.
  virtual void release_held(std::size_t count) = 0;

  // By producer, for roles to which it matters who sent a frame. The number of a producer is its index in the producing
  // role: on an inlet with several channels one of each role may have the same number.

  /// The frame that take(producer) would give, or null when none of this producer's waits. Valid until the next take.
  virtual const Frame* peek(std::size_t producer) const = 0;
  /// One more than the greatest number of a producer whose frame waits; 0 when empty().
  virtual std::size_t producers() const = 0;
  /// take() among the frames of one producer. Must not be called when peek(producer) is null.
  virtual Frame take(std::size_t producer) = 0;
};

/// The producing end of a channel.
class Outlet {
 public:
  virtual ~Outlet() = default;
  /// Whether send() may be called now: some consumer has room. Always true on a `latest` channel.
  virtual bool ready() const = 0;
  /// stream: to the next consumer in turn that has room; sending when !ready() is a bug and aborts.
  /// latest: to every consumer, at once where the previous frame was taken, else as soon as it is; older ones are
  /// dropped. A consumer that starts later gets the newest frame.
  virtual void send(Frame frame) = 0;

  // By consumer, for roles that decide who gets what. Consumers are numbered 0 .. consumers()-1, channel by channel in
  // the topology's order, so on an outlet with one channel the number is the index in the consuming role.

  virtual std::size_t consumers() const = 0;
  /// stream: how many frames this consumer may be sent now: the channel's capacity when it has taken all; 0 when it
  /// does not live.
  virtual std::int64_t credits(std::size_t consumer) const = 0;
  /// Whether this consumer has room; on a `latest` channel: whether it has taken the frame before.
  virtual bool ready(std::size_t consumer) const = 0;
  /// send() to one consumer only. stream: sending when !ready(consumer) is a bug and aborts.
  virtual void send_to(std::size_t consumer, Frame frame) = 0;
};

using Reply = std::function<void(Result<Frame>)>;

/// The calling end of a `request` channel.
class Caller {
 public:
  virtual ~Caller() = default;
  /// Whether fewer than `capacity` calls are under way.
  virtual bool ready() const = 0;
  /// Sends a request to the server in turn. `reply` runs once, on this role's thread: with the answer, with
  /// kDeadlineExceeded after `deadline`, with kUnavailable when its queue is full or it goes without an answer.
  /// step() follows it.
  virtual void call(Frame request, Duration deadline, Reply reply) = 0;

  // By server, for roles to which it matters who is asked; numbered by index in the serving role.

  /// Whether it is there, and fewer than `capacity` calls are under way.
  virtual bool ready(std::size_t server) const = 0;
  virtual void call_to(std::size_t server, Frame request, Duration deadline, Reply reply) = 0;
};

/// The serving end: requests wait in a queue of at most capacity x callers; more are refused with kUnavailable.
class Server {
 public:
  virtual ~Server() = default;
  virtual bool empty() const = 0;
  /// Takes the oldest request. `answer` must be called once, now or later; a dropped one is answered kCancelled.
  virtual std::pair<Frame, std::function<void(Frame)>> take() = 0;
  /// Whether the caller of this index in the calling role is up, as far as this node knows. On a server with one
  /// channel only.
  virtual bool alive(std::size_t caller) const = 0;
};

/// What a role may touch. Port names are those of its RoleSpec; another name is a bug and aborts.
class RoleContext {
 public:
  virtual ~RoleContext() = default;
  virtual Inlet& in(std::string_view port) = 0;
  virtual Outlet& out(std::string_view port) = 0;
  virtual Caller& caller(std::string_view port) = 0;
  virtual Server& server(std::string_view port) = 0;
  virtual const Clock& clock() const = 0;
  /// Where new frames are made.
  virtual messages::FramePool& pool() = 0;
  /// step() is called again after `delay` at the latest. A new call replaces the one before.
  virtual void wake_after(Duration delay) = 0;
  /// What makes step() be called, from any thread, for a role that others in its process have work for. It may be
  /// called when the instance is gone, but not when the run is.
  virtual std::function<void()> waker() = 0;
  /// Whether an instance of `role` is up and not done, as far as this node knows; step() follows when it changes.
  virtual bool alive(std::string_view role) const = 0;
  /// The frame, or the request, that was taken last from `port` is malformed or does not fit: it is dropped and
  /// counted, and the log names its sender, the 1st, 2nd, 4th, ... time. What one peer says must not end the role for
  /// all others.
  virtual void refuse(std::string_view port, const Error& why) = 0;
};

/// A tensor of a role's state; copied, because the role goes on while a checkpoint is written.
struct StateTensor {
  std::string name;  ///< unique in the role, e.g. "critic/adam_m"
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::byte> bytes;
};

/// What a role needs to go on after a restart of the process: tensors (stored as safetensors, for other programs to
/// read), named integers, and chunks in its own format.
struct RoleState {
  std::vector<StateTensor> tensors;
  std::vector<messages::Counter> counters;
  std::vector<std::vector<std::byte>> chunks;

  /// Errors: kNotFound, naming the counter.
  Result<std::int64_t> counter(std::string_view name) const;
  /// Errors: kCorrupt unless there are exactly `count` chunks.
  Status expect_chunks(std::size_t count) const;
};

/// What a role reports about itself, gathered every metrics period by the metrics role.
struct Report {
  /// Totals since the run began: summed over the instances of a role. "<role>/<name>"; rates follow from them.
  std::vector<Scalar> counters;
  /// Values of now: averaged over the instances of a role.
  std::vector<Scalar> gauges;
  /// Values of now that only add up to something: summed over the instances of a role.
  std::vector<Scalar> sums;
};

/// A part of the system with its own state. One thread at a time calls it.
class Role {
 public:
  virtual ~Role() = default;

  /// Does one bounded slice of work (aim below 10 ms, so that control is never late). Must not block, but for
  /// collectives with the other instances of its group, which end when its node says so.
  /// An error ends this instance: its RestartPolicy says what follows.
  virtual Result<Progress> step(RoleContext& context) = 0;

  /// When idle for a reason that its channels do not show: "limiter: 812 more inserts until min_size 1000".
  virtual std::string waiting_for() const { return {}; }
  virtual void report(Report&) const {}

  /// State for a checkpoint, taken between two steps while all roles pause. Frames that wait in channels are saved by
  /// the shell. A role without state keeps the defaults.
  virtual Result<RoleState> save() const { return RoleState{}; }
  /// Called before the first step with what save() gave. Errors end the start, naming role and cause.
  virtual Status restore(const RoleState&) { return {}; }
};

using RoleFactory = std::function<Result<std::unique_ptr<Role>>(const RoleIdentity&)>;

}  // namespace troupe::actors
