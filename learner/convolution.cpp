#include <troupe/learner/convolution.hpp>

#include <fmt/format.h>

#include <troupe/learner/convolution_backends.hpp>

namespace troupe::learner {
namespace {

/// Whether oneDNN does it.
Result<bool> takes_onednn(GemmBackend backend, DType dtype) {
  const bool onednn = dtype != DType::kF64 && resolve(backend) == GemmBackend::kOneDnn;
  const bool built = resolve(GemmBackend::kAuto) == GemmBackend::kOneDnn;
  if ((onednn && !built) || (!onednn && dtype == DType::kBF16)) {
    return Error{Code::kUnavailable,
                 fmt::format("convolution: {} needs oneDNN, got back end {}; onednn is {} this build",
                             troupe::to_string(dtype), to_string(resolve(backend)), built ? "in" : "not in")};
  }
  return onednn;
}

}  // namespace

Result<std::unique_ptr<ConvPlan>> make_convolution(GemmBackend backend, const ConvShape& shape, std::int64_t packed_for,
                                                   DType dtype) {
  TROUPE_ASSIGN(const bool onednn, takes_onednn(backend, dtype));
#if defined(TROUPE_ONEDNN)
  if (onednn) return make_onednn_convolution(shape, packed_for, dtype);
#else
  static_cast<void>(packed_for);
  static_cast<void>(onednn);
#endif
  return make_eigen_convolution(shape, dtype);
}

Result<std::size_t> packed_bytes(GemmBackend backend, const ConvShape& shape, DType dtype) {
  TROUPE_ASSIGN(const bool onednn, takes_onednn(backend, dtype));
#if defined(TROUPE_ONEDNN)
  if (onednn) return onednn_packed_bytes(shape, dtype);
#else
  static_cast<void>(onednn);
#endif
  return std::size_t{0};
}

Result<std::unique_ptr<ConvPlan>> make_pack(GemmBackend backend, const ConvShape& shape, DType dtype) {
  TROUPE_ASSIGN(const bool onednn, takes_onednn(backend, dtype));
#if defined(TROUPE_ONEDNN)
  if (onednn) return make_onednn_pack(shape, dtype);
#else
  static_cast<void>(onednn);
#endif
  return Error{Code::kInternal, "convolution: this back end takes weights as they are"};
}

}  // namespace troupe::learner
