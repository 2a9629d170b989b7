#pragma once
// A call for one action: an env actor sends an observation to the inference server and is answered with the policy's
// action. One observation a message, so that the server alone decides what a batch is. Schema: inference.capnp.
#include <cstdint>
#include <span>

#include <troupe/core/error.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::messages {

struct InferenceRequest {
  std::uint32_t producer = 0;          ///< index of the env actor in its role
  std::span<const float> observation;  ///< flat, at least one element, finite
};

struct InferenceAnswer {
  std::int64_t parameters_version = 0;  ///< that chose the action; >= 0
  std::span<const float> action;        ///< at least one element; not finite when the policy has diverged
};

/// Errors of both: the pool's; kInvalidArgument naming the field that is out of its bounds.
Result<Frame> make_inference_request(FramePool& pool, const InferenceRequest& request);
Result<Frame> make_inference_answer(FramePool& pool, const InferenceAnswer& answer);

/// Spans lead into the frame and are valid as long as somebody holds it.
/// Errors of both: kCorrupt (malformed bytes), kInvalidArgument (another kind of message, or a value out of its
/// bounds).
Result<InferenceRequest> read_inference_request(const Frame& frame);
Result<InferenceAnswer> read_inference_answer(const Frame& frame);

}  // namespace troupe::messages
