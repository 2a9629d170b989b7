#pragma once
// Eigen's product, compiled once for each instruction set. Each source that includes this has renamed the namespace
// Eigen first (a macro), so that the linker does not merge templates that were compiled with different flags.
#define EIGEN_DONT_PARALLELIZE  // stripes are the threads
#include <Eigen/Core>

#include <troupe/learner/engine/cpu/gemm_backends.hpp>

namespace {

template <typename T>
void eigen_gemm(const troupe::learner::GemmShape& s, const void* a_data, const void* b_data, void* c_data) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Matrix> a(static_cast<const T*>(a_data), s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k);
  const Eigen::Map<const Matrix> b(static_cast<const T*>(b_data), s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n);
  Eigen::Map<Matrix> c(static_cast<T*>(c_data), s.m, s.n);
  if (s.transpose_a && s.transpose_b) {
    c.noalias() = a.transpose() * b.transpose();
  } else if (s.transpose_a) {
    c.noalias() = a.transpose() * b;
  } else if (s.transpose_b) {
    c.noalias() = a * b.transpose();
  } else {
    c.noalias() = a * b;
  }
}

}  // namespace
