// One training step of the paper's SN-GAN for CIFAR-10 (32 x 32, 256 and 128 channels), batch 64: both networks
// forward, both losses, both gradients, both Adams. The value is steps per second. sngan_2_processes is the same batch
// shared by two processes of a thread each; its vs_threads is one process with two threads. On a GPU: batch 64 and 512.
#include <troupe/algorithms/sngan/replica.hpp>
#include <troupe/bench/learner/image_steps.hpp>

int main(int argc, char** argv) {
  using namespace troupe::learner;
  const auto make = [] {
    sngan::Options options;
    options.network = sngan::Network::kResnet;
    options.image = troupe::Shape{32, 32, 3};
    options.noise_size = 128;
    options.generator_width = troupe::bench::tiny(256, 8);
    options.discriminator_width = troupe::bench::tiny(128, 8);
    return sngan::training(options, random_batch(sngan::batch_signature(options)));
  };
  return run_step_rows(argc, argv,
                       {.model = "sngan",
                        .make = make,
                        .batch = 64,
                        .process_steps = 5,
                        .in_images = false,
                        .gpu_batches = troupe::bench::tiny<std::vector<std::int64_t>>({64, 512}, {4, 8})});
}
