// Compiled with -mavx2 -mfma: nothing here may run before the processor was asked (kernels_f32).
#include <troupe/learner/engine/cpu/kernels/isa_bodies.hpp>

namespace troupe::learner {

extern const KernelTable kAvx2Table;
constinit const KernelTable kAvx2Table = make_table<Float>(DType::kF32, "avx2");

}  // namespace troupe::learner
