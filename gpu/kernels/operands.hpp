#pragma once
// What kernels ask of a call before they start: the types of its operands, and which of its rows are data.
#include <cstdint>

#include <troupe/gpu/kernels/kernel.hpp>

namespace troupe_cuda {

/// Whether an operand has this type. Outputs that nobody reads have any.
inline bool is_type(const Operand& operand, std::int32_t dtype) {
  return operand.data == nullptr || operand.dtype == dtype;
}
inline bool is_f32(const Operand& operand) { return is_type(operand, TROUPE_CUDA_F32); }
/// Whether all operands are float32, but for input `integers`, which is int32; -1: there is none.
inline bool all_f32(const Call& call, int integers) {
  for (int i = 0; i < call.inputs; ++i) {
    if (!is_type(call.in[i], i == integers ? TROUPE_CUDA_I32 : TROUPE_CUDA_F32)) return false;
  }
  for (int i = 0; i < call.outputs; ++i) {
    if (!is_f32(call.out[i])) return false;
  }
  return true;
}
/// Whether the first `images` inputs and output 0 are stored alike, as float32 or as bfloat16.
inline bool images_alike(const Call& call, int images) {
  const std::int32_t dtype = call.in[0].dtype;
  if (dtype != TROUPE_CUDA_F32 && dtype != TROUPE_CUDA_BF16) return false;
  for (int i = 1; i < images; ++i) {
    if (!is_type(call.in[i], dtype)) return false;
  }
  return is_type(call.out[0], dtype);
}

/// The kernel for calls as all_f32() says.
template <cudaError_t (*kLaunch)(const Call&, cudaStream_t), int kIntegers = -1>
cudaError_t f32_only(const Call& call, cudaStream_t stream) {
  return all_f32(call, kIntegers) ? kLaunch(call, stream) : cudaErrorInvalidValue;
}

/// How many elements of a value that is split by rows are data: the first ones.
inline std::int64_t valid_elements(const Call& call, std::int64_t elements) {
  return call.valid.batch == 0 ? elements : elements / call.valid.batch * call.valid.rows;
}
/// The same of a value that is split by rows where integer[0] says so.
inline std::int64_t counted_elements(const Call& call, std::int64_t elements) {
  return call.integer[0] == 0 ? elements : valid_elements(call, elements);
}
/// What a sum or a mean over rows is multiplied with: real[0], or for a mean over a part of the batch, of integer[1]
/// elements a row, what divides by those that are there.
inline float row_factor(const Call& call) {
  if (call.integer[1] == 0 || call.valid.rows == call.valid.batch) return static_cast<float>(call.real[0]);
  const std::int64_t count = call.integer[1] * call.valid.rows;
  return count == 0 ? 0 : static_cast<float>(1.0 / static_cast<double>(count));
}

}  // namespace troupe_cuda
