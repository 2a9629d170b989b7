#pragma once
// Communicator between GPUs, by NCCL. The library is opened at run time, so one program serves machines with and
// without GPUs; a build without nccl.h has this function too, and it says so. IT HAS NOT BEEN RUN ON A GPU YET: it is
// compiled against NCCL 2.28, and tested as far as a machine without a driver lets it come, which is NCCL's own
// refusal.
//
// A second communicator, `control`, between the same ranks' hosts stands before every call: it compares what the ranks
// call, carries the weights, forms the group and brings NCCL's id to its members. So mismatches, missing ranks and
// hangs have the names that they have on the CPU; NCCL itself would hang or return garbage.
//
// What NCCL asks for (its user guide): communicators are made with blocking = 0, every wait polls
// ncclCommGetAsyncError with a deadline, and only the owning thread is ever inside of NCCL. A broken one is revoked
// (2.28.7 and newer) and aborted by that thread, within a millisecond of abort() if it is in wait().
#include <filesystem>
#include <memory>

#include <troupe/collectives/communicator.hpp>

namespace troupe::collectives {

struct NcclOptions {
  int device = 0;                      ///< index of the GPU whose memory the values are in
  std::filesystem::path library = {};  ///< libnccl.so.2; empty: the one built against, else the loader's
};

/// A communicator that is in no group yet. Spans are DEVICE pointers, in the memory of options.device; what wrote them
/// must be complete at the call, and wait() returns when the result is. Beyond what Communicator says:
/// - sums go in NCCL's order, which depends on its algorithm: the same bits on every rank, but not the tree's;
/// - a mean is ncclRedOpCreatePreMulSum with the rank's share; in reduce_scatter values of weight 0 must be finite;
/// - wire must be kF32: kInvalidArgument;
/// - whoever ends a group must call abort() at every member (the chief does): a GPU that waits hears of nothing else;
/// - NCCL's and CUDA's own errors are kUnavailable (no driver, no device), kCancelled (a rank's process has gone) or
///   kInternal, with their words.
/// Errors: kUnavailable (built without NCCL, or a library that cannot be opened or lacks a function).
Result<std::unique_ptr<Communicator>> make_nccl_communicator(std::unique_ptr<Communicator> control,
                                                             NcclOptions options = {});

}  // namespace troupe::collectives
