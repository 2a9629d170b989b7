#include <troupe/learner/engine/cuda/cuda_snapshot.hpp>

namespace troupe::learner {

CudaSnapshot::~CudaSnapshot() {
  if (gpu_ != nullptr && gpu_->use().ok()) (void)gpu_->api().synchronise(stream_);
}

Status CudaSnapshot::make(const std::shared_ptr<const gpu::Gpu>& gpu) {
  if (gpu_ != nullptr) return {};
  TROUPE_ASSIGN(stream_, gpu::GpuStream::make(gpu));
  TROUPE_ASSIGN(copied_, gpu::GpuEvent::make(gpu));
  TROUPE_ASSIGN(arrived_, gpu::GpuEvent::make(gpu));
  gpu_ = gpu;
  return {};
}

Status CudaSnapshot::begin(const std::shared_ptr<const gpu::Gpu>& gpu, std::span<const std::span<const float>> from,
                           TroupeCudaStream* stream) {
  TROUPE_TRY(gpu->use());
  TROUPE_TRY(make(gpu));
  elements_ = 0;
  for (const auto part : from) elements_ += part.size();
  const std::size_t bytes = elements_ * sizeof(float);
  if (device_.bytes() < bytes) {
    device_ = {};
    pinned_ = {};
    TROUPE_ASSIGN(device_, gpu->allocate(bytes, "a snapshot"));
    TROUPE_ASSIGN(pinned_, gpu->allocate_pinned(bytes, "a snapshot"));
  }
  const TroupeCudaApi& api = gpu->api();
  const auto check = [&gpu](int error) { return gpu->check(error, "copying parameters"); };
  float* to = device_.as<float>();
  for (const auto part : from) {
    TROUPE_TRY(check(api.copy(to, part.data(), part.size_bytes(), stream)));
    to += part.size();
  }
  TROUPE_TRY(check(api.record(copied_, stream)));
  TROUPE_TRY(check(api.wait(stream_, copied_)));
  TROUPE_TRY(check(api.copy(pinned_.get(), device_.get(), bytes, stream_)));
  return check(api.record(arrived_, stream_));
}

Result<bool> CudaSnapshot::arrived() const {
  TROUPE_TRY(gpu_->use());
  std::int32_t yes = 0;
  TROUPE_TRY(gpu_->check(gpu_->api().finished(arrived_, &yes), "reading parameters"));
  return yes != 0;
}

}  // namespace troupe::learner
