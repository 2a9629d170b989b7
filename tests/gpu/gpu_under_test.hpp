#pragma once
// The devices that tests of the CUDA plug-in run on: the emulated one, and the first GPU where there is one.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/gpu/api.h>
#include <troupe/tests/gpu/emulator/emulator.h>

namespace troupe::gpu {

class GpuUnderTest;

/// Memory of a device.
class DeviceBytes {
 public:
  DeviceBytes(GpuUnderTest& gpu, std::size_t bytes);
  ~DeviceBytes();
  DeviceBytes(DeviceBytes&& other) noexcept : gpu_(other.gpu_), data_(other.data_) { other.data_ = nullptr; }
  DeviceBytes& operator=(DeviceBytes&&) = delete;
  void* get() const { return data_; }

 private:
  GpuUnderTest& gpu_;
  void* data_ = nullptr;
};

/// A device with a stream. The first error is kept, and everything after it does nothing.
class GpuUnderTest {
 public:
  /// Null where the plug-in lists no device. cudnn: of the plug-in with cuDNN; empty: none, then cudnn() may not be
  /// asked for.
  static std::unique_ptr<GpuUnderTest> open(const std::string& plugin, const std::string& cudnn);
  ~GpuUnderTest();
  GpuUnderTest(const GpuUnderTest&) = delete;
  GpuUnderTest& operator=(const GpuUnderTest&) = delete;

  const TroupeCudaApi& api() const { return *api_; }
  const TroupeCudnnApi& cudnn() const { return *cudnn_; }
  TroupeCudaStream* stream() const { return stream_; }
  const std::string& name() const { return name_; }
  /// Null on a real one.
  const TroupeEmulator* emulator() const { return emulator_; }

  DeviceBytes upload(std::span<const std::byte> bytes);
  /// Filled with 0xff.
  DeviceBytes poisoned(std::size_t bytes);
  std::vector<std::byte> download(const void* from, std::size_t bytes);
  void wait() { check(api_->synchronise(stream_), "synchronise"); }

  bool good() const { return why_.empty(); }
  const std::string& why() const { return why_; }
  bool check(int error, std::string_view what);
  void fail(std::string_view why);
  /// Forgets the error; an emulated device is whole again.
  void restart();

 private:
  GpuUnderTest() = default;

  const TroupeCudaApi* api_ = nullptr;
  const TroupeCudnnApi* cudnn_ = nullptr;
  const TroupeEmulator* emulator_ = nullptr;
  TroupeCudaStream* stream_ = nullptr;
  std::string name_;
  std::string why_;
};

/// Of the paths that the build has set. At least the emulated one.
const std::vector<std::unique_ptr<GpuUnderTest>>& gpus_under_test();

}  // namespace troupe::gpu
