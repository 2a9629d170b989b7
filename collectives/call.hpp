#pragma once
// What a rank says that it calls, and the comparison of what two ranks say: the check that stands before every back
// end.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <troupe/collectives/communicator.hpp>
#include <troupe/core/error.hpp>

namespace troupe::collectives {

enum class CallKind : std::uint8_t { kAllReduce = 0, kAllGather = 1, kReduceScatter = 2, kBroadcast = 3, kBarrier = 4 };

/// "all_reduce", "all_gather", "reduce_scatter", "broadcast", "barrier".
std::string_view to_string(CallKind kind);

/// Equal on all ranks that make the same call.
struct Call {
  CallKind kind = CallKind::kBarrier;
  std::string name;              ///< of the tensor
  std::size_t count = 0;         ///< float32 elements that a rank contributes; of one row in reduce_scatter
  ReduceOp op = ReduceOp::kSum;  ///< of all_reduce and reduce_scatter
  int root = 0;                  ///< of broadcast
  Shape shape = {};              ///< of those elements; empty: [count]
  DType wire = DType::kF32;      ///< kF32 or kBF16
  DType dtype = DType::kF32;     ///< kF32; of all_gather also kI64, each of which is two of these elements

  /// `all_reduce "critic/grad" float32[20, 10] mean`, and ` as bfloat16` where they travel so.
  std::string describe() const;
  friend bool operator==(const Call&, const Call&) = default;
};

/// The name of a call by which ranks agree that they are about to make `call` elsewhere: whatever is said of it, in a
/// mismatch or in a verdict, is then said of `call`.
std::string in_place_of(const Call& call);

/// What is described by such a name; empty: it is a tensor's.
std::optional<std::string_view> stood_for(std::string_view name);

/// Where in a group's life a call stands; both count from 0.
struct CallPlace {
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;
};

/// Errors: kShapeMismatch, naming both ranks and what each of them calls.
Status check_same_call(const Call& first, int first_rank, const Call& second, int second_rank, CallPlace place);

/// Whether one rank's arguments can work at all. in and out: elements of the buffers, as the communicator's methods
/// take them (in place: equal). Errors: kInvalidArgument, naming the rank.
Status check_arguments(const Call& call, const CallOptions& options, const GroupView& view, std::size_t in,
                       std::size_t out);

/// kCancelled: what a call gives of a communicator that is in no group yet.
Error no_group_yet(const Call& call);

/// Errors: kInvalidArgument unless 0 <= rank < size.
Status check_view(const GroupView& view);

}  // namespace troupe::collectives
