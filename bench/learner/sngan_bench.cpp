// One training step of the paper's SN-GAN for CIFAR-10 (32 x 32, 256 and 128 channels), batch 64: both networks
// forward, both losses, both gradients, both Adams. The value is steps per second. sngan_2_processes is the same batch
// shared by two processes of a thread each; its vs_threads is one process with two threads. On a GPU: batch 64 and 512.
#include <troupe/bench/learner/image_models.hpp>

int main(int argc, char** argv) {
  using namespace troupe::learner;
  return run_step_rows(argc, argv,
                       {.model = "sngan",
                        .make = cifar_sngan,
                        .batch = 64,
                        .process_steps = 5,
                        .in_images = false,
                        .gpu_batches = troupe::bench::tiny<std::vector<std::int64_t>>({64, 512}, {4, 8})});
}
