#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>

#include <troupe/learner/engine/cpu/instruction_set.hpp>

namespace troupe::learner {

extern const KernelTable kGenericTable, kF64Table;
#if defined(TROUPE_X86_KERNELS)
extern const KernelTable kAvx2Table, kAvx512Table;
#endif

const KernelTable& kernels_f64() { return kF64Table; }
const KernelTable& kernels_f32_generic() { return kGenericTable; }

const KernelTable* kernels_f32_avx2() {
#if defined(TROUPE_X86_KERNELS)
  if (may_use(InstructionSet::kAvx2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return &kAvx2Table;
  }
#endif
  return nullptr;
}

const KernelTable* kernels_f32_avx512() {
#if defined(TROUPE_X86_KERNELS)
  if (may_use(InstructionSet::kAvx512) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return &kAvx512Table;
  }
#endif
  return nullptr;
}

const KernelTable& kernels_f32() {
  if (const KernelTable* table = kernels_f32_avx512()) return *table;
  if (const KernelTable* table = kernels_f32_avx2()) return *table;
  return kernels_f32_generic();
}

}  // namespace troupe::learner
