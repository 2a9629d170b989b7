#pragma once
// A call of a policy: an env actor sends the policy's inputs for its environments to the inference server, a row each,
// and is answered with the policy's outputs. One env actor a message, so that the server alone decides what a batch is.
// Schema: inference.capnp.
#include <cstdint>
#include <memory>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::messages {

struct InferenceRequest {
  std::uint32_t producer = 0;                  ///< index of the env actor in its role
  std::shared_ptr<const Signature> signature;  ///< of `inputs`; shared, so that a frame does not copy it
  BatchView inputs;                            ///< at least one row, finite
};

struct InferenceAnswer {
  std::int64_t parameters_version = 0;         ///< that gave the outputs; >= 0
  std::shared_ptr<const Signature> signature;  ///< of `outputs`
  BatchView outputs;                           ///< at least one row; not finite when the policy has diverged
};

/// Copies the columns. Errors of both: the pool's; kInvalidArgument naming the field that is out of its bounds, or on a
/// signature beyond the limits of columns.hpp.
Result<Frame> make_inference_request(FramePool& pool, const InferenceRequest& request);
Result<Frame> make_inference_answer(FramePool& pool, const InferenceAnswer& answer);

/// Columns lead into the frame and are valid as long as somebody holds it. O(1) for a frame that was made or already
/// read in this process; otherwise validates all of it once.
/// Errors of both: kCorrupt (malformed bytes), kInvalidArgument (another kind of message, or a value out of its
/// bounds).
Result<InferenceRequest> read_inference_request(const Frame& frame);
Result<InferenceAnswer> read_inference_answer(const Frame& frame);

}  // namespace troupe::messages
