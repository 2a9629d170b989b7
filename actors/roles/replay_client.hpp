#pragma once
// A program outside of a run that shares its replay: it inserts items, draws batches and sets priorities. Its process
// is a node that has joined the run and hosts one instance of the agent's role `external`; threads of the program call
// a ReplayClient, and that instance does what they ask for. Python's troupe.ReplayClient is one.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/actors/roles/replay_batches.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/replay/shards.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::actors {

/// The role, of which a run plans no instance: nodes that join bring theirs. Ports: out trajectories (stream,
/// Trajectory), priorities (stream, Priorities), samples (request, SampleRequest, answered by Batch). make: null: it is
/// refused, as by a node that was told to host one and is no client.
RoleSpec external_role(std::string name, RoleFactory make);

/// Thread-safe. Calls wait until the instance has done what they ask for, at most `timeout`: kDeadlineExceeded then,
/// and what had not been sent by then never is. All end with the error of close() once that was called.
class ReplayClient {
 public:
  explicit ReplayClient(std::size_t shards);  ///< instances of replay
  ~ReplayClient();

  /// Makes the instance that works for this client, which must outlive the run of its node.
  RoleFactory factory();

  /// Waits until the run has taken the instance in.
  Status ready(Duration timeout);
  /// Sends a trajectory (rows of replay's items) to replay's shards in turn; done when its channel had room. When its
  /// rows come into the table, the rate limiter decides, which holds the channel up. producer, incarnation and sequence
  /// of `info` are the instance's to say.
  Status insert(const BatchView& rows, std::span<const double> priorities, std::int64_t env_steps, Duration timeout);
  /// A batch of so many rows, from the shards in proportion to their mass. Errors also: kInvalidArgument, and for more
  /// rows than the rate limiter could ever admit kCancelled.
  Result<ReplayBatch> sample(std::int64_t rows, Duration timeout);
  /// What replay holds and what it has done, of all shards together.
  Result<replay::TableInfo> info(Duration timeout);
  /// Sets the priorities of items of one shard. Errors also: kInvalidArgument, kShapeMismatch.
  Status update_priorities(std::size_t shard, messages::PriorityUpdate update, Duration timeout);

  /// The run has ended for this client, or its node has.
  void close(Error why);

 private:
  class Instance;
  struct Work;

  /// Hands the work over and waits for it.
  Status do_it(const std::shared_ptr<Work>& work, Duration timeout);

  const std::size_t shards_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Work>> waiting_;  ///< in their order; at most one for each thread that calls
  std::function<void()> wake_;                 ///< null while there is no instance
  std::optional<Error> closed_;
};

}  // namespace troupe::actors
