#pragma once
// The SN-GAN's two networks, of the kind that the options name: multi-layer perceptrons here, residual networks in
// algorithms/sngan/resnet.hpp.
#include <troupe/algorithms/sngan/normalised_layers.hpp>
#include <troupe/algorithms/sngan/options.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/network_mode.hpp>

namespace troupe::learner::sngan {

/// The parameter groups; with options.average_decay "generator.average" beside them.
inline constexpr const char* kGeneratorGroup = "generator";
inline constexpr const char* kDiscriminatorGroup = "discriminator";

/// noise: [rows, noise_size]; label: int32 [rows] where options.classes > 0, else not looked at. Returns images in
/// [-1, 1]: [rows, options.image].
Var generator(Graph& graph, ParamGroup group, const Options& options, Var noise, Var label, const NetworkMode& mode);

/// What users run: inputs "noise", standard normal, and with options.classes "label"; output "image", by the generator
/// or its moving average.
void inference(Graph& graph, const Options& options);

/// image: [rows, options.image]; label as above. Returns logits, higher for real ones: [rows, 1]. `layers` serves all
/// passes of a step.
Var discriminator(NormalisedLayers& layers, const Options& options, Var image, Var label);

}  // namespace troupe::learner::sngan
