#pragma once
// A simulated NCCL and CUDA runtime in host memory: a shared library with the functions that the NCCL back end opens,
// for tests on machines without GPUs. Ranks are threads of one process, and each has a device of its own; in a process
// with emulated GPUs (tests/gpu/emulator) that is one of these, whose memory the values must be in. It keeps NCCL's
// rules, also the unkind ones:
// - an init is in progress until all ranks of the id have come, for ever if one does not; two ranks on one device are
//   refused (ncclInvalidUsage, to those two alone); so are those of other processes than the id's (ncclSystemError),
//   for which the real one is made;
// - the first collective of a communicator is in progress until all ranks have called theirs; while anything is in
//   progress, nothing but polling, revoking and aborting is allowed;
// - collectives run in the order of their stream, and are done some time after all ranks have begun the same; where
//   ranks call different things they hang, without a word;
// - of a rank that was killed the others hear ncclRemoteError after a while; of one that stops they hear nothing; what
//   waits on the device goes on waiting in both cases;
// - an abort, or a revoke, ends what waits on the device, a moment later; until then it may write to its buffers;
// - sums go along a ring, in an order of their own for each part of the values, the same on all ranks.
// Nothing runs by itself: whatever is due happens when somebody asks. What a test does to it is below.
#include <chrono>
#include <cstdint>
#include <string>

namespace troupe::collectives::simulated_nccl {

/// Of the present world. All are 0 once every communicator is gone, or the back end has lost something.
struct Counts {
  int communicators = 0;
  int operators = 0;  ///< made by ncclRedOpCreatePreMulSum, of communicators that are there
  int streams = 0;
  int events = 0;
  int foreign_calls = 0;  ///< of a communicator, by another thread than the one that made it
  int misuses = 0;        ///< of what is in progress or gone, or of another device than the thread's
};

/// A new world: devices 0 to 15 in good order.
void reset();
Counts counts();
/// Those that came to their end in this world.
int collectives();

/// No collective runs there any more, and nobody is told: a process or a GPU that hangs.
void stop_device(int device);
/// As before.
void start_device(int device);
/// The same as stop_device, and the other ranks hear of it `told_after` later: a process that dies.
void kill_device(int device, std::chrono::milliseconds told_after);
/// What waits there does not end by an abort either.
void deafen_device(int device);
/// ncclCommRevoke fails from now on, as with communicators that are beyond it.
void refuse_revoke();
/// The next collective on the device is refused.
void refuse_next_collective(int device);
/// The next init on the device is.
void refuse_next_init(int device);

/// Kernels that stand on a device and are not done.
int waiting(int device);

/// What NCCL_SOCKET_IFNAME was when this process's NCCL was first called, which is the only time that it looks.
std::string interface();

}  // namespace troupe::collectives::simulated_nccl
