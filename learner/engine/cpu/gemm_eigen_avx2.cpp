#define Eigen EigenForAvx2
#include <troupe/learner/engine/cpu/detail/gemm_eigen_isa.hpp>

namespace troupe::learner {

const EigenFn kEigenF32Avx2 = &eigen_gemm<float>;

}  // namespace troupe::learner
