#pragma once
// Fills a table with this translation unit's bodies.
#include <troupe/learner/engine/cpu/kernels/categorical_bodies.hpp>
#include <troupe/learner/engine/cpu/kernels/gemm_bodies.hpp>
#include <troupe/learner/engine/cpu/kernels/image_bodies.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_bodies.hpp>
#include <troupe/learner/engine/cpu/kernels/math_bodies.hpp>
#include <troupe/learner/engine/cpu/kernels/norm_bodies.hpp>
#include <troupe/learner/engine/cpu/kernels/update_bodies.hpp>

namespace {

template <class V, class S>
constexpr troupe::learner::ImageTable make_image_table() {
  using I = ImageKernels<V, S>;
  using B = BatchNormKernels<V, S>;
  return {
      .add = I::add,
      .add_activation = I::add_activation,
      .activation_grad = I::activation_grad,
      .bias_activation = I::bias_activation,
      .bias_activation_grad = I::bias_activation_grad,
      .batch_sums = B::batch_sums,
      .batch_sums_grad = B::batch_sums_grad,
      .normalise = B::normalise,
      .normalise_grad = B::normalise_grad,
      .modulate = I::modulate,
      .modulate_grad = I::modulate_grad,
      .global_sum = I::global_sum,
      .global_sum_grad = I::global_sum_grad,
      .average_pool = I::average_pool,
      .average_pool_grad = I::average_pool_grad,
      .max_pool = I::max_pool,
      .max_pool_grad = I::max_pool_grad,
      .resize_nearest = I::resize_nearest,
      .resize_nearest_grad = I::resize_nearest_grad,
      .resize_bilinear = I::resize_bilinear,
      .resize_bilinear_grad = I::resize_bilinear_grad,
      .from_bytes = I::from_bytes,
      .shift = I::shift,
      .shift_grad = I::shift_grad,
  };
}

template <class V>
constexpr troupe::learner::KernelTable make_table(troupe::DType dtype, const char* instruction_set) {
  using K = Kernels<V>;
  using C = CategoricalKernels<V>;
  using M = MathKernels<V>;
  using N = NormKernels<V>;
  using B = BatchNormKernels<V, typename V::T>;
  troupe::learner::KernelTable table{
      .dtype = dtype,
      .instruction_set = instruction_set,
      .add = K::add,
      .sub = K::sub,
      .mul = K::mul,
      .affine = K::affine,
      .clip = K::clip,
      .clip_grad = K::clip_grad,
      .bias_activation = K::bias_activation,
      .bias_activation_grad = K::bias_activation_grad,
      .linear = K::linear,
      .matmul = K::matmul,
      .layer_norm = K::layer_norm,
      .layer_norm_grad = K::layer_norm_grad,
      .batch_moments = B::batch_moments,
      .batch_moments_grad = B::batch_moments_grad,
      .inverse_root = B::inverse_root,
      .direction = N::direction,
      .spectral_scale = N::spectral_scale,
      .spectral_scale_grad = N::spectral_scale_grad,
      .embedding = N::embedding,
      .embedding_grad = N::embedding_grad,
      .label_cross_entropy = N::label_cross_entropy,
      .label_cross_entropy_grad = N::label_cross_entropy_grad,
      .is_in_top = N::is_in_top,
      .concat = K::concat,
      .slice = K::slice,
      .pad = K::pad,
      .copy = K::copy,
      .fill = K::fill,
      .fill_rows = K::fill_rows,
      .mask_rows = K::mask_rows,
      .count_rows = K::count_rows,
      .as_partial = K::as_partial,
      .sum_all = K::sum_all,
      .sum_last = K::sum_last,
      .greatest = K::greatest,
      .softmax = K::softmax,
      .softmax_grad = K::softmax_grad,
      .log_softmax = K::log_softmax,
      .log_softmax_grad = K::log_softmax_grad,
      .softmax_cross_entropy = K::softmax_cross_entropy,
      .softmax_cross_entropy_grad = K::softmax_cross_entropy_grad,
      .categorical_mean = C::categorical_mean,
      .categorical_mean_grad = C::categorical_mean_grad,
      .categorical_td = C::categorical_td,
      .categorical_td_grad = C::categorical_td_grad,
      .clip_row_norm = K::clip_row_norm,
      .exp = M::exp,
      .log = M::log_kernel,
      .sqrt = M::sqrt_kernel,
      .abs = M::abs,
      .sign = M::sign_kernel,
      .softplus = M::softplus,
      .div = M::div,
      .minimum = M::minimum,
      .maximum = M::maximum,
      .greater = M::greater,
      .where = M::where,
      .keep_where = M::keep_where,
      .gather = M::gather,
      .gather_grad = M::gather_grad,
      .broadcast = M::broadcast,
      .sum_to = M::sum_to,
      .log_sum_exp = M::log_sum_exp,
      .random = M::random,
      .count_step = M::count_step,
      .shift_bytes = ImageKernels<V, std::uint8_t>::shift,
      .image = make_image_table<V, typename V::T>(),
      .skinny = Skinny<V>::run,
      .math = K::math,
  };
  if constexpr (sizeof(typename V::T) == 4) {
    table.bf16 = make_image_table<V, std::uint16_t>();
    table.cast_bf16 = Update::cast_bf16;
    table.cast_f32 = Update::cast_f32;
    table.adam = Update::adam;
    table.sgd = Update::sgd;
    table.rms_prop = Update::rms_prop;
    table.sum_gradients = Update::sum_gradients;
    table.average = Update::average;
    table.sum_squares = Update::sum_squares;
    table.to_bf16 = Update::to_bf16;
    table.from_bf16 = Update::from_bf16;
    table.round_bf16 = Update::round_bf16;
  }
  return table;
}

}  // namespace
