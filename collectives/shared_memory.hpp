#pragma once
// Communicator between processes of one host and one user: ranks meet in a piece of memory that all of them map. Used
// when replicas are processes, by itself or as the lower half of a group over hosts (hierarchical, over links). Nothing
// of it is a file that could be left behind: the memory goes with the last process that maps it.
//
// How a group forms: rank 0 makes the memory and a ticket, a short text that says where it is; `exchange` brings the
// ticket to the others, who open it and compare what they believe about the group with what rank 0 does.
//
// What an all-reduce of N bytes over P ranks does (detail/shared_calls.hpp has the others):
// - where all ranks' values lie in shareable memory (shareable_memory.hpp): the ranks that are awake take pieces
//   until none is left; each is read and written once where it lies, 2 P N bytes in all.
// - else, while (P-1) N is at most 256 KiB, one step: every rank writes its N bytes where all see them, and reduces all
//   P of them by itself.
// - above, in chunks that stay in the cache, three steps that overlap between chunks: a rank writes the (P-1)/P N bytes
//   that others reduce, reduces its slice of N/P over all ranks, and reads the others' slices, (P-1)/P N bytes.
// A waiting rank gives its core away, and sleeps when that does not help (detail/brief_wait.hpp).
#include <functional>
#include <memory>
#include <string>

#include <troupe/collectives/communicator.hpp>

namespace troupe::collectives {

/// Brings rank 0's ticket to every rank of the view's group. Rank 0 gives it as `mine`, the others nothing; everybody
/// gets it back. Called by reform() on every rank; returns by the deadline. Tickets are at most 128 bytes.
using TicketExchange = std::function<Result<std::string>(const GroupView& view, std::string mine,
                                                         std::chrono::steady_clock::time_point deadline)>;

/// A communicator that is in no group yet. Beyond what Communicator says:
/// - works advance in the order of the calls: wait() for one completes those before it too;
/// - a rank that was killed is not noticed here but by whoever calls abort(), or at the deadline;
/// - reform() also gives kUnavailable where the memory cannot be opened (processes of two users or containers).
/// activity: what the other ranks are shown instead of an own one (of a communicator that uses this one); must outlive
/// it. A group has at most 256 ranks.
std::unique_ptr<Communicator> make_shared_memory_communicator(TicketExchange exchange, Activity* activity = nullptr);

}  // namespace troupe::collectives
