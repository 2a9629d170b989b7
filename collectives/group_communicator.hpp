#pragma once
// Communicator between the processes and hosts of a group, over Peers: replicas in processes of their own use it
// (MultiWorker; actors/ puts the nodes' links under it). It has no threads: messages arrive on the carrier's threads
// and wait, and the rank's own thread works on them while it is in wait() or done(). So one message travels while
// another is reduced.
//
// Each call begins by recursive doubling: every rank learns what all ranks call and with which weights, and a
// disagreement is found before a value is touched. Small tensors ride along. Large ones follow by direct exchange, or
// by a ring in large groups where the order of sums is free. detail/schedule.hpp has the steps and bytes of each.
#include <cstdint>
#include <memory>

#include <troupe/collectives/communicator.hpp>
#include <troupe/collectives/cooperative_scheduler.hpp>
#include <troupe/collectives/peers.hpp>

namespace troupe::collectives {

struct GroupCommunicatorOptions {
  /// Every reduction goes in the fixed tree of reduce.hpp, whatever the size of group and tensor. Without it so do all
  /// but these all-reduces of more than 64 KiB over all ranks: by the ring, from 9 ranks or hosts on, and hosts first
  /// where their ranks are no aligned blocks of a power of two. Their sums too are the same bits on all ranks.
  bool deterministic = false;
  /// Null when each rank has a thread that may sleep; else those of this process take turns, and all times are on the
  /// scheduler's clock. What comes from other processes must then be handed over between the turns. Outlives the rank.
  CooperativeScheduler* scheduler = nullptr;
};

/// A communicator that is in no group yet; reform() with a view that has a Member for each rank puts it in one. `peers`
/// must outlive it, and delivers to nobody else. own_id: this process's Member::id. Beyond what Communicator says:
/// - the others are told of a failure at once and give the same error; calls that a rank has finished before it leaves
///   or aborts are not broken for those who have not;
/// - a rank that waits asks the missing ones, whose carriers answer whatever the rank itself does: after 2 s one log
///   line, and the text of kDeadlineExceeded, say "step 412: rank 3 (node B, learner-1) has not entered
///   all_reduce(D/block2/conv1); it is in input_fn for 7.1 s", or that it does not answer. To know that, a call may end
///   up to 0.5 s after a short timeout;
/// - reform() also gives kInvalidArgument where the view does not name every member, once and this one at its rank;
/// - works advance in the order of the calls, kMaxActive at a time; those behind wait for those before them;
/// - a peer whose queue is full, or that cannot be reached yet, is tried again until the timeout.
std::unique_ptr<Communicator> make_group_communicator(Peers& peers, std::uint32_t own_id,
                                                      GroupCommunicatorOptions options = {});

}  // namespace troupe::collectives
