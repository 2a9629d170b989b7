#include <troupe/tests/gpu/gpu_under_test.hpp>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace troupe::gpu {

namespace {

/// Opened for good: plug-ins are never closed, and neither is what they load.
template <typename Entry>
Entry symbol(const std::string& path, const char* name) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Entry>(dlsym(library, name));
}

}  // namespace

DeviceBytes::DeviceBytes(GpuUnderTest& gpu, std::size_t bytes) : gpu_(gpu) {
  if (bytes > 0) gpu.check(gpu.api().allocate(bytes, &data_), "allocate");
}
DeviceBytes::~DeviceBytes() {
  if (data_ != nullptr) gpu_.check(gpu_.api().release(data_), "release");
}

std::unique_ptr<GpuUnderTest> GpuUnderTest::open(const std::string& plugin, const std::string& cudnn) {
  std::unique_ptr<GpuUnderTest> made(new GpuUnderTest);
  const auto entry = symbol<const TroupeCudaApi* (*)()>(plugin, TROUPE_CUDA_ENTRY);
  if (entry == nullptr) {
    ADD_FAILURE() << plugin << ": " << dlerror();
    return nullptr;
  }
  made->api_ = entry();
  int count = 0;
  TroupeCudaDevice about{};
  if (made->api_->abi != TROUPE_CUDA_ABI || made->api_->device_count(&count) != 0 || count == 0) return nullptr;
  if (const auto emulator = symbol<const TroupeEmulator* (*)()>(plugin, TROUPE_EMULATOR_ENTRY)) {
    made->emulator_ = emulator();
  }
  if (!cudnn.empty()) {
    const auto convolutions = symbol<const TroupeCudnnApi* (*)()>(cudnn, TROUPE_CUDNN_ENTRY);
    if (convolutions == nullptr) {
      ADD_FAILURE() << cudnn << ": " << dlerror();
      return nullptr;
    }
    made->cudnn_ = convolutions();
  }
  made->check(made->api_->device(0, &about), "device");
  made->name_ = about.name;
  made->check(made->api_->use_device(0), "use_device");
  made->check(made->api_->make_stream(&made->stream_), "make_stream");
  EXPECT_TRUE(made->good()) << made->why();
  return made;
}

GpuUnderTest::~GpuUnderTest() {
  if (stream_ != nullptr) api_->destroy_stream(stream_);
}

DeviceBytes GpuUnderTest::upload(std::span<const std::byte> bytes) {
  DeviceBytes made(*this, bytes.size());
  if (good() && !bytes.empty()) check(api_->copy(made.get(), bytes.data(), bytes.size(), stream_), "copy");
  return made;
}

DeviceBytes GpuUnderTest::poisoned(std::size_t bytes) {
  DeviceBytes made(*this, bytes);
  if (good() && bytes > 0) check(api_->fill(made.get(), 0xff, bytes, stream_), "fill");
  return made;
}

std::vector<std::byte> GpuUnderTest::download(const void* from, std::size_t bytes) {
  std::vector<std::byte> to(bytes);
  if (good() && bytes > 0) check(api_->copy(to.data(), from, bytes, stream_), "copy");
  wait();
  return to;
}

bool GpuUnderTest::check(int error, std::string_view what) {
  if (error == 0 || !good()) return good();
  why_ = fmt::format("{}: error {}: {}", what, error, api_->error_text(error));
  if (error == TROUPE_CUDA_LIBRARY_ERROR) {
    why_ += fmt::format(": {}; {}", api_->library_error(), cudnn_ == nullptr ? "" : cudnn_->library_error());
  }
  if (emulator_ != nullptr) why_ += fmt::format(" ({})", emulator_->fault());
  return false;
}

void GpuUnderTest::fail(std::string_view why) {
  if (good()) why_ = why;
}

void GpuUnderTest::restart() {
  (void)api_->synchronise(stream_);  // what still waits there may fail too
  why_.clear();
  if (emulator_ != nullptr) emulator_->reset();
}

const std::vector<std::unique_ptr<GpuUnderTest>>& gpus_under_test() {
  static const auto list = [] {
    std::vector<std::unique_ptr<GpuUnderTest>> made;
    made.push_back(GpuUnderTest::open(CUDA_EMULATED_PLUGIN, CUDNN_EMULATED_PLUGIN));
    const std::string plugin = CUDA_PLUGIN, cudnn = CUDNN_PLUGIN;
    if (auto real = plugin.empty() ? nullptr : GpuUnderTest::open(plugin, cudnn)) made.push_back(std::move(real));
    return made;
  }();
  return list;
}

}  // namespace troupe::gpu
