#pragma once
// The collectives of a Communicator as one method, for back ends that take all of them through the same door. Internal
// to the back ends.
#include <memory>
#include <span>
#include <utility>

#include <troupe/collectives/call.hpp>
#include <troupe/collectives/communicator.hpp>

namespace troupe::collectives::detail {

class CallingCommunicator : public Communicator {
 public:
  std::unique_ptr<Work> all_reduce(std::span<float> values, ReduceOp op, CallOptions options) final {
    return say({.kind = CallKind::kAllReduce, .count = values.size(), .op = op}, options, values, values);
  }
  std::unique_ptr<Work> all_gather(std::span<const float> in, std::span<float> out, CallOptions options) final {
    return say({.kind = CallKind::kAllGather, .count = in.size()}, options, in, out);
  }
  std::unique_ptr<Work> reduce_scatter(std::span<const float> in, std::span<float> out, ReduceOp op,
                                       CallOptions options) final {
    return say({.kind = CallKind::kReduceScatter, .count = out.size(), .op = op}, options, in, out);
  }
  std::unique_ptr<Work> broadcast(std::span<float> values, int root, CallOptions options) final {
    return say({.kind = CallKind::kBroadcast, .count = values.size(), .root = root}, options, values, values);
  }
  std::unique_ptr<Work> barrier(CallOptions options) final {
    return say({.kind = CallKind::kBarrier}, options, {}, {});
  }

 private:
  /// Makes the call: not compared with others' and its arguments not checked yet. In place where the collective is.
  virtual std::unique_ptr<Work> call(Call call, const CallOptions& options, std::span<const float> in,
                                     std::span<float> out) = 0;

  std::unique_ptr<Work> say(Call said, const CallOptions& options, std::span<const float> in, std::span<float> out) {
    said.name = options.name;
    said.shape = options.shape;
    said.wire = options.wire;
    said.dtype = options.dtype;
    return call(std::move(said), options, in, out);
  }
};

}  // namespace troupe::collectives::detail
