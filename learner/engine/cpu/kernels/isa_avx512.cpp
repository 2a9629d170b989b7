// Compiled with -mavx512*: nothing here may run before the processor was asked (kernels_f32).
#include <troupe/learner/engine/cpu/kernels/isa_bodies.hpp>

namespace troupe::learner {

extern const KernelTable kAvx512Table;
constinit const KernelTable kAvx512Table = make_table<Float>(DType::kF32, "avx512");

}  // namespace troupe::learner
