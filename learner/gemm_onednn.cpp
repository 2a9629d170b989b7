// oneDNN: matmul primitives for bfloat16 and for float32 products with a transposed right operand (gradients of layer
// inputs: 112 to 115 GFLOP/s on a Zen 4 core of 117, dnnl_sgemm 100 to 112); dnnl_sgemm for the other float32 ones,
// where it is the faster of the two or as fast.
#include <fmt/format.h>
#include <omp.h>

#include <array>
#include <oneapi/dnnl/dnnl.hpp>

#include <troupe/learner/gemm_backends.hpp>

namespace troupe::learner {

// oneDNN would start an OpenMP team for every thread that calls it; the count is a setting of the calling thread.
void enter_compute_thread() { omp_set_num_threads(1); }

namespace {

class SgemmPlan final : public GemmPlan {
 public:
  explicit SgemmPlan(const GemmShape& shape) : GemmPlan(&run_sgemm), shape_(shape) {}

 private:
  static void run_sgemm(const GemmPlan& plan, const void* a, const void* b, void* c) {
    const GemmShape& s = static_cast<const SgemmPlan&>(plan).shape_;
    // Fails only for arguments that make_gemm's caller got from checked shapes.
    dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1.0F, static_cast<const float*>(a),
               s.transpose_a ? s.m : s.k, static_cast<const float*>(b), s.transpose_b ? s.k : s.n, 0.0F,
               static_cast<float*>(c), s.n);
  }
  GemmShape shape_;
};

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

class MatmulPlan final : public GemmPlan {
 public:
  MatmulPlan(const GemmShape& s, dnnl::memory::data_type type) : GemmPlan(&run_matmul), stream_(cpu()) {
    using Tag = dnnl::memory::format_tag;
    const dnnl::memory::desc a({s.m, s.k}, type, s.transpose_a ? Tag::ba : Tag::ab);
    const dnnl::memory::desc b({s.k, s.n}, type, s.transpose_b ? Tag::ba : Tag::ab);
    const dnnl::memory::desc c({s.m, s.n}, dnnl::memory::data_type::f32, Tag::ab);
    dnnl::primitive_attr attr;
    // Ours, because the library's own scratch memory belongs to the thread that made the primitive.
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc desc(cpu(), a, b, c, attr);
    primitive_ = dnnl::matmul(desc);
    a_ = dnnl::memory(a, cpu(), nullptr);
    b_ = dnnl::memory(b, cpu(), nullptr);
    c_ = dnnl::memory(c, cpu(), nullptr);
    scratch_ = dnnl::memory(desc.scratchpad_desc(), cpu());
    arguments_ = {{{DNNL_ARG_SRC, a_.get()},
                   {DNNL_ARG_WEIGHTS, b_.get()},
                   {DNNL_ARG_DST, c_.get()},
                   {DNNL_ARG_SCRATCHPAD, scratch_.get()}}};
  }

 private:
  static void run_matmul(const GemmPlan& plan, const void* a, const void* b, void* c) {
    const auto& self = static_cast<const MatmulPlan&>(plan);
    // The C interface: the C++ one takes a map and allocates.
    dnnl_memory_set_data_handle(self.a_.get(), const_cast<void*>(a));
    dnnl_memory_set_data_handle(self.b_.get(), const_cast<void*>(b));
    dnnl_memory_set_data_handle(self.c_.get(), c);
    dnnl_primitive_execute(self.primitive_.get(), self.stream_.get(), static_cast<int>(self.arguments_.size()),
                           self.arguments_.data());
  }
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  dnnl::memory a_, b_, c_, scratch_;
  std::array<dnnl_exec_arg_t, 4> arguments_;
};

}  // namespace

Result<std::unique_ptr<GemmPlan>> make_onednn_gemm(const GemmShape& shape, DType dtype) {
  using Type = dnnl::memory::data_type;
  if (dtype == DType::kF32 && !shape.transpose_b) return std::unique_ptr<GemmPlan>(std::make_unique<SgemmPlan>(shape));
  try {
    const Type type = dtype == DType::kBF16 ? Type::bf16 : Type::f32;
    return std::unique_ptr<GemmPlan>(std::make_unique<MatmulPlan>(shape, type));
  } catch (const dnnl::error& error) {
    return Error{Code::kInternal, fmt::format("gemm: oneDNN refuses a {} product {} x {} x {}: {}",
                                              troupe::to_string(dtype), shape.m, shape.k, shape.n, error.what())};
  }
}

}  // namespace troupe::learner
