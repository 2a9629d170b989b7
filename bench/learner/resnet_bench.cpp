// One training step of ResNet-50 v1.5 on 8 images of 224 x 224: forward, gradients, SGD with Nesterov's momentum. The
// value is images per second. resnet50_2_processes: the same batch shared by two processes of a thread each; its
// vs_threads is one process with two threads. On a GPU: 256 images in bfloat16.
#include <troupe/bench/learner/image_models.hpp>

int main(int argc, char** argv) {
  using namespace troupe::learner;
  return run_step_rows(argc, argv,
                       {.model = "resnet50",
                        .make = resnet50,
                        .batch = 8,
                        .process_steps = 7,
                        .in_images = true,
                        .gpu_batches = {troupe::bench::tiny(256, 2)},
                        .gpu_bf16_alone = true});
}
