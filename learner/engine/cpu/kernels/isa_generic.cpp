// For every processor of the platform, and the float64 table.
#include <troupe/learner/engine/cpu/kernels/isa_bodies.hpp>

namespace troupe::learner {

extern const KernelTable kGenericTable, kF64Table;
constinit const KernelTable kGenericTable = make_table<Float>(DType::kF32, "generic");
constinit const KernelTable kF64Table = make_table<Double>(DType::kF64, "generic");

}  // namespace troupe::learner
