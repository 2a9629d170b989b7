#pragma once
// Communicator between GPUs, by NCCL. The library is opened at run time, so one program serves machines with and
// without GPUs; a build without nccl.h has this function too, and it says so. IT HAS NOT BEEN RUN ON A GPU YET, neither
// on one nor on several: it is compiled against NCCL 2.28, and tested over a simulated NCCL in host memory with NCCL's
// rules (tests/collectives/simulated_nccl), where it passes the conformance suite and the failures below, and over the
// real one as far as a machine without a driver lets it come, which is its refusal.
//
// A second communicator, `control`, between the same ranks' hosts stands before every call: it compares what the ranks
// call, carries the weights, forms the group and brings NCCL's id to its members. So mismatches, missing ranks and
// hangs have the names that they have on the CPU; NCCL itself would hang or return garbage.
//
// What NCCL asks for (its user guide): communicators are made with blocking = 0, every wait polls
// ncclCommGetAsyncError with a deadline, and only the owning thread is ever inside of NCCL. Of a group that breaks,
// that thread ends what runs on the device (ncclCommRevoke, 2.28.7 and newer), within milliseconds of abort() if it is
// in wait(), and frees it (ncclCommAbort) once the ranks of the next epoch have left the broken one too, since the
// device of one may still read another's memory. Without ncclCommRevoke it frees it at once.
//
// NCCL opens sockets of its own, and they authenticate nobody (docs/security.md).
#include <filesystem>
#include <memory>
#include <string>

#include <troupe/collectives/communicator.hpp>
#include <troupe/collectives/nccl_group.hpp>

namespace troupe::collectives {

struct NcclOptions {
  int device = 0;  ///< index of the GPU whose memory the values are in
  /// libnccl.so.2; empty: that in the folder $TROUPE_PLUGIN_PATH, else the one built against, else the loader's.
  std::filesystem::path library = {};
  /// Network interface for NCCL's sockets, by its exact name: whoever reaches it there can be a rank or change values,
  /// so its network must be trusted. Empty: loopback, and groups whose members are not all on one host are refused.
  /// NCCL chooses once a process: all its communicators must say the same, the first before threads are at work that
  /// read the environment, where it is written.
  std::string interface = {};
};

/// A communicator that is in no group yet. Spans are DEVICE pointers, in the memory of options.device; what wrote them
/// must be complete at the call, and wait() returns when the result is. Beyond what Communicator says:
/// - host() is control, and what is in the host's memory goes there directly; device() is options.device from a
///   reform() that has succeeded until control is in another epoch;
/// - reform() with the epoch in which control is already forms only NCCL's group, for members who have first agreed by
///   control whether they want it (nccl_group.hpp);
/// - one thread owns it, from reform() to its end, and that device;
/// - sums go in NCCL's order, which depends on its algorithm: the same bits on every rank, but not the tree's;
/// - a mean is ncclRedOpCreatePreMulSum with the rank's share; in reduce_scatter values of weight 0 must be finite;
/// - wire must be kF32: kInvalidArgument;
/// - a rank whose device is not done by the deadline asks by `control` who still answers, up to 0.6 s, and says so;
/// - NCCL's and CUDA's own errors are kUnavailable (no driver, no device), kCancelled (a rank's process has gone) or
///   kInternal, with their words; the other ranks hear of one rank's as kCancelled;
/// - reform() also gives kInvalidArgument where members are on several hosts and no interface is named.
/// Errors: kUnavailable (built without NCCL, or a library that cannot be opened or lacks a function), kInvalidArgument
/// (no such interface, or not that of the process's other communicators).
Result<std::unique_ptr<Communicator>> make_nccl_communicator(std::unique_ptr<Communicator> control,
                                                             NcclOptions options = {});

/// The same over a control that somebody else owns and that outlives it.
Result<std::unique_ptr<Communicator>> make_nccl_communicator(Communicator& control, NcclOptions options = {});

/// "2.28.9" of the library that would be used. Errors: as of make_nccl_communicator().
Result<std::string> nccl_version();

/// What a process with this GPU says of itself to its group (nccl_group.hpp). Errors: as of make_nccl_communicator();
/// kUnavailable where CUDA does not know the GPU.
Result<NcclMember> nccl_member(const NcclOptions& options);

}  // namespace troupe::collectives
