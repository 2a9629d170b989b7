#pragma once
// The image models that benches take steps of, on batches that stay the same.
#include <memory>

#include <troupe/algorithms/resnet/replica.hpp>
#include <troupe/algorithms/sngan/replica.hpp>
#include <troupe/bench/learner/image_steps.hpp>

namespace troupe::learner {

/// The paper's SN-GAN for CIFAR-10: 32 x 32, 256 and 128 channels.
inline std::unique_ptr<Replica> cifar_sngan() {
  sngan::Options options;
  options.network = sngan::Network::kResnet;
  options.image = Shape{32, 32, 3};
  options.noise_size = 128;
  options.generator_width = bench::tiny(256, 8);
  options.discriminator_width = bench::tiny(128, 8);
  return sngan::training(options, random_batch(sngan::batch_signature(options)));
}

/// ResNet-50 v1.5 on images of 224 x 224.
inline std::unique_ptr<Replica> resnet50() {
  resnet::Options options = resnet::of_depth(50).value();
  options.label_smoothing = 0.1;
  options.height = options.width = bench::tiny(224, 32);
  options.filters = bench::tiny(64, 4);
  return resnet::training(options, random_batch(resnet::batch_signature(options)));
}

}  // namespace troupe::learner
