#include <omp.h>

#include <troupe/core/log.hpp>
#include <troupe/learner/engine/cpu/detail/onednn.hpp>
#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/learner/engine/cpu/instruction_set.hpp>

namespace troupe::learner {

// oneDNN would start an OpenMP team for every thread that calls it; the count is a setting of the calling thread.
void enter_compute_thread() { omp_set_num_threads(1); }

namespace {

void hold_down() {
#if defined(TROUPE_X86_KERNELS)
  if (may_use(InstructionSet::kAll)) return;
  const dnnl::cpu_isa isa = may_use(InstructionSet::kAvx512) ? dnnl::cpu_isa::avx512_core
                            : may_use(InstructionSet::kAvx2) ? dnnl::cpu_isa::avx2
                            : may_use(InstructionSet::kAvx)  ? dnnl::cpu_isa::avx
                                                             : dnnl::cpu_isa::sse41;
  if (dnnl::set_max_cpu_isa(isa) != dnnl::status::success) {
    log::error("TROUPE_MAX_ISA: oneDNN was used by somebody else in this process before and is not held down");
  }
#endif
}

}  // namespace

const dnnl::engine& onednn_cpu() {
  static const dnnl::engine engine = [] {
    hold_down();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

}  // namespace troupe::learner
