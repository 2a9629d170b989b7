#pragma once
// Fills a table with this translation unit's bodies.
#include <troupe/learner/kernels/gemm_bodies.hpp>
#include <troupe/learner/kernels/kernel_bodies.hpp>
#include <troupe/learner/kernels/norm_bodies.hpp>
#include <troupe/learner/kernels/update_bodies.hpp>

namespace {

template <class V>
constexpr troupe::learner::KernelTable make_table(troupe::DType dtype, const char* instruction_set) {
  using K = Kernels<V>;
  using N = NormKernels<V>;
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
      .batch_sums = N::batch_sums,
      .batch_sums_grad = N::batch_sums_grad,
      .batch_moments = N::batch_moments,
      .batch_moments_grad = N::batch_moments_grad,
      .inverse_root = N::inverse_root,
      .normalise = N::normalise,
      .normalise_grad = N::normalise_grad,
      .direction = N::direction,
      .spectral_scale = N::spectral_scale,
      .spectral_scale_grad = N::spectral_scale_grad,
      .embedding = N::embedding,
      .embedding_grad = N::embedding_grad,
      .label_cross_entropy = N::label_cross_entropy,
      .label_cross_entropy_grad = N::label_cross_entropy_grad,
      .is_correct = N::is_correct,
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
      .broadcast_last = K::broadcast_last,
      .softmax = K::softmax,
      .softmax_grad = K::softmax_grad,
      .log_softmax = K::log_softmax,
      .log_softmax_grad = K::log_softmax_grad,
      .softmax_cross_entropy = K::softmax_cross_entropy,
      .softmax_cross_entropy_grad = K::softmax_cross_entropy_grad,
      .categorical_mean = K::categorical_mean,
      .categorical_mean_grad = K::categorical_mean_grad,
      .categorical_projection = K::categorical_projection,
      .clip_row_norm = K::clip_row_norm,
      .skinny = Skinny<V>::run,
      .math = K::math,
  };
  if (dtype == troupe::DType::kF32) {
    table.cast_bf16 = Update::cast_bf16;
    table.cast_f32 = Update::cast_f32;
    table.adam = Update::adam;
    table.sgd = Update::sgd;
    table.sum_gradients = Update::sum_gradients;
    table.average = Update::average;
    table.sum_squares = Update::sum_squares;
    table.to_bf16 = Update::to_bf16;
  }
  return table;
}

}  // namespace
