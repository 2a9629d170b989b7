#pragma once
// The shipped CPU kernels for one element type and instruction set. One body (kernel_bodies.hpp) is compiled for
// float32 with each instruction set and for float64, so that finite-difference checks in float64 exercise the code that
// trains. Which one runs is chosen by the processor at start; nothing is compiled for the machine it was built on.
#include <cstdint>
#include <string_view>

#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// One pass of an optimiser over elements [begin, end) of a group's flat buffers. Gradients of the stripes are added in
/// order, scaled, and applied.
struct UpdateArgs {
  float* values;
  /// What `values` were, when that stays as it is; null: they are updated where they are. Large ones are then written
  /// past the caches.
  const float* before = nullptr;
  float* slot0;  ///< Adam: m; SGD: momentum, or null; RMSProp: the mean square
  float* slot1;  ///< Adam: v; RMSProp: momentum, or null
  const float* const* gradients;
  std::int64_t gradient_count;
  std::uint16_t* shadow;  ///< bfloat16 copy of values to write, or null
  std::int64_t begin, end;
  float gradient_scale;
  float step_size;                ///< learning rate; Adam: divided by 1 - beta1^t
  float beta1, beta2, epsilon;    ///< RMSProp: beta2 is the decay of the mean square
  float inverse_sqrt_correction;  ///< 1 / sqrt(1 - beta2^t)
  float momentum;
  bool nesterov;
  /// SGD, RMSProp: added to the gradient, times the value; Adam: the value is first scaled by 1 minus this
  float weight_decay;
  // RMSProp:
  float inner_rate = 1;   ///< what is multiplied before momentum adds it up; step_size is multiplied after
  float inside_root = 0;  ///< added to the mean square under the root; epsilon is added to the root
};

/// c[m, n] = a[m, k] b[k, n], row-major, m at most 4.
using SkinnyFn = void (*)(std::int64_t m, std::int64_t n, std::int64_t k, const void* a, const void* b, void* c);

/// Kernels whose images, the operands of rank 4 and gradients of those, are stored in one type; all their other
/// operands have the table's.
struct ImageTable {
  KernelFn add, add_activation, activation_grad, bias_activation, bias_activation_grad;
  KernelFn batch_sums, batch_sums_grad, normalise, normalise_grad;
  KernelFn modulate, modulate_grad, global_sum, global_sum_grad;
  KernelFn average_pool, average_pool_grad, max_pool, max_pool_grad;
  KernelFn resize_nearest, resize_nearest_grad, resize_bilinear, resize_bilinear_grad;
  KernelFn from_bytes, shift, shift_grad;
};

struct KernelTable {
  DType dtype;  ///< kF32 or kF64
  std::string_view instruction_set;

  KernelFn add, sub, mul, affine, clip, clip_grad;
  KernelFn bias_activation, bias_activation_grad, linear, matmul;
  KernelFn layer_norm, layer_norm_grad;
  KernelFn batch_moments, batch_moments_grad, inverse_root;
  KernelFn direction, spectral_scale, spectral_scale_grad;
  KernelFn embedding, embedding_grad, label_cross_entropy, label_cross_entropy_grad, is_in_top;
  KernelFn concat, slice, pad, copy, fill, fill_rows, mask_rows, count_rows, as_partial;
  KernelFn sum_all, sum_last, greatest;
  KernelFn softmax, softmax_grad, log_softmax, log_softmax_grad;
  KernelFn softmax_cross_entropy, softmax_cross_entropy_grad;
  KernelFn categorical_mean, categorical_mean_grad, categorical_td, categorical_td_grad;
  KernelFn clip_row_norm;
  KernelFn exp, log, sqrt, abs, sign, softplus, div, minimum, maximum, greater, where, keep_where;
  KernelFn gather, gather_grad;
  KernelFn broadcast, sum_to, log_sum_exp, random, count_step;
  KernelFn cast_bf16, cast_f32;
  KernelFn shift_bytes;

  ImageTable image;  ///< stored as the table's dtype
  ImageTable bf16;   ///< stored as bfloat16, rounded to nearest even, computed in float32; null in the float64 table

  SkinnyFn skinny;
  // float32 only: null in the float64 table.
  void (*adam)(const UpdateArgs&);
  void (*sgd)(const UpdateArgs&);
  void (*rms_prop)(const UpdateArgs&);
  /// out[i] = sum over gradients of gradients[g][i] for i in [begin, end); out may be gradients[0].
  void (*sum_gradients)(const float* const* gradients, std::int64_t count, float* out, std::int64_t begin,
                        std::int64_t end);
  /// average[i] = decay * average[i] + (1 - decay) * values[i] for i in [begin, end); shadow as in UpdateArgs.
  void (*average)(const float* values, float* average, std::uint16_t* shadow, double decay, std::int64_t begin,
                  std::int64_t end);
  double (*sum_squares)(const float* x, std::int64_t begin, std::int64_t end);
  void (*to_bf16)(const float* x, std::uint16_t* out, std::int64_t begin, std::int64_t end);
  void (*from_bf16)(const std::uint16_t* x, float* out, std::int64_t begin, std::int64_t end);
  /// To bfloat16 and back; out may be x.
  void (*round_bf16)(const float* x, float* out, std::int64_t begin, std::int64_t end);
  /// y = exp(x), expm1(x), tanh(x), log(x), cos(2 pi x): what the kernels use, for the test of their error bounds.
  void (*math)(int function, const void* x, void* y, std::int64_t count);
};

const KernelTable& kernels_f64();
const KernelTable& kernels_f32_generic();
/// Null where this processor or platform lacks them, or they are held down (learner/engine/cpu/instruction_set.hpp).
const KernelTable* kernels_f32_avx2();
const KernelTable* kernels_f32_avx512();
/// The best one that this processor runs and that is not held down.
const KernelTable& kernels_f32();

}  // namespace troupe::learner
