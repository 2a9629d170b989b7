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

Status CudaSnapshot::begin(const std::shared_ptr<const gpu::Gpu>& gpu, std::span<const float> from,
                           TroupeCudaStream* stream) {
  TROUPE_TRY(gpu->use());
  TROUPE_TRY(make(gpu));
  if (device_.bytes() < from.size_bytes()) {
    device_ = {};
    pinned_ = {};
    TROUPE_ASSIGN(device_, gpu->allocate(from.size_bytes(), "a snapshot"));
    TROUPE_ASSIGN(pinned_, gpu->allocate_pinned(from.size_bytes(), "a snapshot"));
  }
  elements_ = from.size();
  const TroupeCudaApi& api = gpu->api();
  const auto check = [&gpu](int error) { return gpu->check(error, "copying parameters"); };
  TROUPE_TRY(check(api.copy(device_.get(), from.data(), from.size_bytes(), stream)));
  TROUPE_TRY(check(api.record(copied_, stream)));
  TROUPE_TRY(check(api.wait(stream_, copied_)));
  TROUPE_TRY(check(api.copy(pinned_.get(), device_.get(), from.size_bytes(), stream_)));
  return check(api.record(arrived_, stream_));
}

Result<bool> CudaSnapshot::arrived() const {
  TROUPE_TRY(gpu_->use());
  std::int32_t yes = 0;
  TROUPE_TRY(gpu_->check(gpu_->api().finished(arrived_, &yes), "reading parameters"));
  return yes != 0;
}

}  // namespace troupe::learner
