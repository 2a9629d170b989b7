// oneDNN's two kinds of products: dnnl_sgemm, and the matmul primitive, which also takes bfloat16.
#include <fmt/format.h>

#include <array>

#include <troupe/learner/engine/cpu/detail/onednn.hpp>
#include <troupe/learner/engine/cpu/gemm_backends.hpp>

namespace troupe::learner {

namespace {

class SgemmPlan final : public GemmPlan {
 public:
  explicit SgemmPlan(const GemmShape& shape) : GemmPlan(&run_sgemm), shape_(shape) {}

 private:
  static void run_sgemm(const GemmPlan& plan, const void* a, const void* b, void* c, void*) {
    const GemmShape& s = static_cast<const SgemmPlan&>(plan).shape_;
    // Fails only for arguments that make_gemm's caller got from checked shapes.
    dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1.0F, static_cast<const float*>(a),
               s.transpose_a ? s.m : s.k, static_cast<const float*>(b), s.transpose_b ? s.k : s.n, 0.0F,
               static_cast<float*>(c), s.n);
  }
  GemmShape shape_;
};

/// A product's operands and its primitive's description.
struct Matmul {
  Matmul(const GemmShape& s, dnnl::memory::data_type type)
      : a({s.m, s.k}, type, s.transpose_a ? Tag::ba : Tag::ab),
        b({s.k, s.n}, type, s.transpose_b ? Tag::ba : Tag::ab),
        c({s.m, s.n}, dnnl::memory::data_type::f32, Tag::ab) {
    dnnl::primitive_attr attr;
    // Ours, because the library's own scratch memory belongs to the thread that made the primitive.
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    description = dnnl::matmul::primitive_desc(onednn_cpu(), a, b, c, attr);
  }
  using Tag = dnnl::memory::format_tag;
  dnnl::memory::desc a, b, c;
  dnnl::matmul::primitive_desc description;
};

class MatmulPlan final : public GemmPlan {
 public:
  explicit MatmulPlan(const Matmul& of)
      : GemmPlan(&run_matmul, of.description.scratchpad_desc().get_size()),
        stream_(onednn_cpu()),
        primitive_(of.description),
        memories_{dnnl::memory(of.a, onednn_cpu(), nullptr), dnnl::memory(of.b, onednn_cpu(), nullptr),
                  dnnl::memory(of.c, onednn_cpu(), nullptr),
                  dnnl::memory(of.description.scratchpad_desc(), onednn_cpu(), nullptr)},
        arguments_{{{DNNL_ARG_SRC, memories_[0].get()},
                    {DNNL_ARG_WEIGHTS, memories_[1].get()},
                    {DNNL_ARG_DST, memories_[2].get()},
                    {DNNL_ARG_SCRATCHPAD, memories_[3].get()}}} {}

 private:
  static void run_matmul(const GemmPlan& plan, const void* a, const void* b, void* c, void* workspace) {
    const auto& self = static_cast<const MatmulPlan&>(plan);
    // The C interface: the C++ one takes a map and allocates.
    dnnl_memory_set_data_handle(self.memories_[0].get(), const_cast<void*>(a));
    dnnl_memory_set_data_handle(self.memories_[1].get(), const_cast<void*>(b));
    dnnl_memory_set_data_handle(self.memories_[2].get(), c);
    dnnl_memory_set_data_handle(self.memories_[3].get(), workspace);
    dnnl_primitive_execute(self.primitive_.get(), self.stream_.get(), static_cast<int>(self.arguments_.size()),
                           self.arguments_.data());
  }
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  std::array<dnnl::memory, 4> memories_;
  std::array<dnnl_exec_arg_t, 4> arguments_;
};

}  // namespace

Result<std::unique_ptr<GemmPlan>> make_onednn_sgemm(const GemmShape& shape) {
  onednn_cpu();
  return std::unique_ptr<GemmPlan>(std::make_unique<SgemmPlan>(shape));
}

Result<std::unique_ptr<GemmPlan>> make_onednn_matmul(const GemmShape& shape, DType dtype) {
  using Type = dnnl::memory::data_type;
  try {
    const Matmul matmul(shape, dtype == DType::kBF16 ? Type::bf16 : Type::f32);
    return std::unique_ptr<GemmPlan>(std::make_unique<MatmulPlan>(matmul));
  } catch (const dnnl::error& error) {
    return Error{error.status == dnnl_unimplemented ? Code::kUnavailable : Code::kInternal,
                 fmt::format("gemm: oneDNN refuses a {} product {} x {} x {}: {}", troupe::to_string(dtype), shape.m,
                             shape.k, shape.n, error.what())};
  }
}

}  // namespace troupe::learner
