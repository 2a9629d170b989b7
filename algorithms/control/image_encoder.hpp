#pragma once
// What agents see of images: DrQ's encoder (Kostrikov et al. 2021, arXiv 2004.13649), which DrQ-v2 and D4PG from pixels
// have alike, and the columns of their batches. Images stay bytes until they are here.
#include <cstdint>
#include <string_view>

#include <troupe/algorithms/control/environment_shape.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::control {

/// The encoder learns with the critic, but has a group of its own, since who acts needs it and not the critic.
inline constexpr const char* kEncoderGroup = "encoder";

struct ImageEncoder {
  Shape pixels;                    ///< [height, width, channels] of bytes, frames stacked along channels
  std::int64_t filters = 32;       ///< of each of four convolutions
  std::int64_t features = 50;      ///< that the policy and the critic each make of what the encoder sees
  std::int64_t shift_padding = 4;  ///< by at most so many pixels images move, each way (ops/random_shift.hpp)
};

/// Errors: kInvalidArgument naming the option, got and expected; messages begin with `where`, the algorithm.
Status validate(const ImageEncoder& encoder, std::string_view where);

/// pixels: bytes [rows, height, width, channels]. Returns [rows, pixels left * filters].
Var encode(Graph& graph, ParamGroup group, const ImageEncoder& encoder, Var pixels);
/// The few numbers that a network goes on with: a linear layer, layer norm and tanh, in the network's own group, called
/// trunk. seen: what encode() returned. Returns [rows, features].
Var trunk(Graph& graph, ParamGroup group, const ImageEncoder& encoder, Var seen);

/// transitions() with pixels and next_pixels, uint8 as the environment shows them, in the place of both observations.
Signature image_transitions(const EnvironmentShape& shape, const ImageEncoder& encoder, bool importance_weights);

}  // namespace troupe::learner::control
