// The plug-ins are loaded where they were built. Without a GPU their clean refusal is the test; with one, an update is
// compared with a plain reference on the CPU. What the loader says of drivers and devices is tested with a fake
// plug-in.
#include <troupe/gpu/cuda_plugin.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace troupe::gpu {
namespace {

using testing::HasSubstr;

TEST(CudaPlugin, MissingFileIsNamed) {
  auto plugin = CudaPlugin::load("/nonexistent/libtroupe_cuda.so");
  ASSERT_FALSE(plugin.ok());
  EXPECT_EQ(plugin.error().code, Code::kNotFound);
  EXPECT_THAT(plugin.error().message, HasSubstr("/nonexistent/libtroupe_cuda.so"));
}

TEST(CudaPlugin, OtherAbiIsRefusedWithBothNumbers) {
  auto plugin = CudaPlugin::load(WRONG_ABI_PLUGIN);
  ASSERT_FALSE(plugin.ok());
  EXPECT_EQ(plugin.error().code, Code::kInvalidArgument);
  EXPECT_THAT(plugin.error().message, HasSubstr("has abi " + std::to_string(TROUPE_CUDA_ABI + 1) + ", expected " +
                                                std::to_string(TROUPE_CUDA_ABI)));
}

TEST(CudaPlugin, LibraryWithoutTheEntryIsRefused) {
  auto plugin = CudaPlugin::load(NOT_A_PLUGIN);
  ASSERT_FALSE(plugin.ok());
  EXPECT_EQ(plugin.error().code, Code::kInvalidArgument);
  EXPECT_THAT(plugin.error().message, HasSubstr("exports no troupe_cuda_api"));
}

TEST(CudaPlugin, FileThatIsNoLibraryIsRefused) {
  auto path = std::filesystem::path(testing::TempDir()) / "not_a_library.so";
  std::ofstream(path) << "text";
  auto plugin = CudaPlugin::load(path);
  ASSERT_FALSE(plugin.ok());
  EXPECT_EQ(plugin.error().code, Code::kUnavailable);
  EXPECT_THAT(plugin.error().message, HasSubstr("not_a_library.so"));
}

TEST(CudnnPlugin, PluginOfAnotherKindIsRefused) {
  auto plugin = CudnnPlugin::load(FAKE_PLUGIN);
  ASSERT_FALSE(plugin.ok());
  EXPECT_EQ(plugin.error().code, Code::kInvalidArgument);
  EXPECT_THAT(plugin.error().message, HasSubstr("exports no troupe_cudnn_api"));
}

// ---- where plug-ins are ----

TEST(FindPlugin, FolderOfTheEnvironmentComesFirst) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "plugins";
  std::filesystem::create_directories(folder);
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_EQ(find_plugin(program.filename().string()), program);  // the program is in its own folder
  std::ofstream(folder / program.filename()) << "text";
  ASSERT_EQ(setenv("TROUPE_PLUGIN_PATH", folder.c_str(), 1), 0);
  EXPECT_EQ(find_plugin(program.filename().string()), folder / program.filename());
  ASSERT_EQ(unsetenv("TROUPE_PLUGIN_PATH"), 0);
}

TEST(FindPlugin, BuiltPluginIsFoundFromTheProgram) {
  const std::filesystem::path built = CUDA_PLUGIN;
  if (built.empty()) GTEST_SKIP() << "built without a CUDA compiler";
  EXPECT_TRUE(std::filesystem::equivalent(find_plugin(built.filename().string()), built));
}

TEST(FindPlugin, WhatIsNowhereIsLeftToTheLoaderAndItsErrorSaysWhereItWasLookedFor) {
  const auto path = find_plugin("libtroupe_nowhere.so");
  EXPECT_EQ(path, "libtroupe_nowhere.so");
  auto plugin = CudaPlugin::load(path);
  ASSERT_FALSE(plugin.ok());
  EXPECT_EQ(plugin.error().code, Code::kNotFound);
  EXPECT_THAT(plugin.error().message, HasSubstr("libtroupe_nowhere.so is not in the folder TROUPE_PLUGIN_PATH"));
}

// ---- what the loader says of drivers and devices ----

struct Machine {
  int driver, runtime, error, devices;
};
Result<std::vector<CudaDevice>> devices_of(const Machine& machine) {
  for (const auto& [name, value] : {std::pair{"FAKE_DRIVER", machine.driver},
                                    {"FAKE_RUNTIME", machine.runtime},
                                    {"FAKE_ERROR", machine.error},
                                    {"FAKE_DEVICES", machine.devices}}) {
    setenv(name, std::to_string(value).c_str(), 1);
  }
  TROUPE_ASSIGN(CudaPlugin plugin, CudaPlugin::load(FAKE_PLUGIN));
  return plugin.devices();
}
std::string refusal_of(const Machine& machine) {
  auto devices = devices_of(machine);
  if (devices.ok()) return "none";
  EXPECT_EQ(devices.error().code, Code::kUnavailable);
  return devices.error().message;
}

TEST(CudaDevices, EachReasonForNoneIsTold) {
  EXPECT_EQ(refusal_of({.driver = 0, .runtime = 13000, .error = 35, .devices = 0}),
            "cuda: no NVIDIA driver (driver is insufficient)");
  EXPECT_EQ(
      refusal_of({.driver = 12040, .runtime = 13000, .error = 35, .devices = 0}),
      "cuda: the driver is for CUDA 12.4, the plug-in for 13.0: update the driver, or rebuild the plug-in with an "
      "older CUDA (driver is insufficient)");
  EXPECT_EQ(refusal_of({.driver = 13010, .runtime = 13000, .error = 100, .devices = 0}),
            "cuda: driver 13.1: no device is there");
  EXPECT_EQ(refusal_of({.driver = 13010, .runtime = 13000, .error = 0, .devices = 0}),
            "cuda: the driver lists no device");
}

TEST(CudaDevices, AreDescribed) {
  auto devices = devices_of({.driver = 13000, .runtime = 13000, .error = 0, .devices = 2});
  ASSERT_TRUE(devices.ok()) << devices.error().message;
  ASSERT_EQ(devices->size(), 2U);
  const CudaDevice& second = devices->back();
  EXPECT_EQ(second.index, 1);
  EXPECT_EQ(second.name, "Fake A40");
  EXPECT_EQ(second.major, 8);
  EXPECT_EQ(second.minor, 6);
  EXPECT_EQ(second.total_bytes, std::int64_t{48} << 30);
}

TEST(CudaDevices, NeedCodeOfTheirGenerationOrOlderCodeThatDriversTranslate) {
  auto plugin = CudaPlugin::load(FAKE_PLUGIN);  // with code for 8.0 and 9.0
  ASSERT_TRUE(plugin.ok()) << plugin.error().message;
  const auto check = [&](int major, int minor) {
    return plugin->check_code_for({.name = "It", .major = major, .minor = minor});
  };
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 9}, {9, 0}, {10, 0}, {12, 1}}) {
    EXPECT_TRUE(check(major, minor).ok()) << major << "." << minor;
  }
  const Status refused = check(7, 5);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "cuda: It is sm_75, and the plug-in has code for sm_80, sm_90 and later ones: rebuild it with "
            "-DCMAKE_CUDA_ARCHITECTURES=75");
}

// ---- plug-ins with a device, by their path ----

TEST(CudaKernels, AreFoundByTheNameOfTheirOperation) {
  for (const char* const path : {OWN_KERNELS, OWN_EMULATED_KERNELS}) {
    if (!std::filesystem::exists(path)) continue;  // there is no CUDA compiler, or it was not built
    const auto kernels = CudaKernels::load(path);
    ASSERT_TRUE(kernels.ok()) << kernels.error().message;
    EXPECT_NE(kernels->api().find_kernel("huber"), nullptr);
    EXPECT_EQ(kernels->api().find_kernel("other"), nullptr);
  }
  EXPECT_THAT(CudaKernels::load(FAKE_PLUGIN).error().message, HasSubstr("exports no troupe_cuda_kernels"));
}

class CudaPluginAt : public testing::TestWithParam<const char*> {
 protected:
  /// Skips where there is no plug-in.
  void SetUp() override {
    if (std::string(GetParam()).empty()) GTEST_SKIP() << "built without a CUDA compiler";
    auto plugin = CudaPlugin::load(GetParam());
    ASSERT_TRUE(plugin.ok()) << plugin.error().message;
    plugin_.push_back(*plugin);
  }
  const CudaPlugin& plugin() const { return plugin_.front(); }
  const TroupeCudaApi& cuda() const { return plugin().api(); }
  std::string error_text(int error) const { return error == 0 ? "" : cuda().error_text(error); }

  /// Device memory with these values; freed at the end of the test.
  template <typename T>
  T* to_device(const std::vector<T>& values) {
    void* memory = nullptr;
    const std::size_t bytes = values.size() * sizeof(T);
    EXPECT_EQ(error_text(cuda().allocate(bytes, &memory)), "");
    EXPECT_EQ(error_text(cuda().copy(memory, values.data(), bytes, stream_)), "");
    memory_.push_back(memory);
    return static_cast<T*>(memory);
  }
  template <typename T>
  std::vector<T> from_device(const T* memory, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(error_text(cuda().copy(values.data(), memory, count * sizeof(T), stream_)), "");
    EXPECT_EQ(error_text(cuda().synchronise(stream_)), "");
    return values;
  }
  void TearDown() override {
    for (void* memory : memory_) EXPECT_EQ(cuda().release(memory), 0);
    if (stream_ != nullptr) {
      EXPECT_EQ(cuda().destroy_stream(stream_), 0);
    }
  }

  TroupeCudaStream* stream_ = nullptr;

 private:
  std::vector<CudaPlugin> plugin_;  // one
  std::vector<void*> memory_;
};

TEST_P(CudaPluginAt, DevicesAreNamedOrTheirAbsenceIsExplained) {
  auto devices = plugin().devices();
  if (devices.ok()) {
    ASSERT_FALSE(devices->empty());
    for (const CudaDevice& device : *devices) {
      EXPECT_FALSE(device.name.empty());
      EXPECT_GT(device.major, 0);
      EXPECT_GT(device.total_bytes, 0);
    }
    return;
  }
  EXPECT_EQ(devices.error().code, Code::kUnavailable);
  int driver = 0;
  ASSERT_EQ(cuda().driver_version(&driver), 0);
  EXPECT_THAT(devices.error().message, HasSubstr(driver == 0 ? "no NVIDIA driver" : "cuda: "));
}

TEST_P(CudaPluginAt, SaysWhatItWasBuiltFor) {
  const std::int32_t* list = nullptr;
  int count = 0, runtime = 0;
  ASSERT_EQ(cuda().architectures(&list, &count), 0);
  ASSERT_GT(count, 0);
  for (int i = 0; i < count; ++i) EXPECT_GE(list[i], 50);
  EXPECT_TRUE(std::is_sorted(list, list + count));
  ASSERT_EQ(cuda().runtime_version(&runtime), 0);
  EXPECT_GE(runtime, 12000);
}

TEST_P(CudaPluginAt, KnowsTheErrorsAfterWhichOnlyANewProcessGetsTheGpuBack) {
  // By their numbers, which are CUDA's for ever; 226 and 721 have names in CUDA 13.
  for (const int error : {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999}) {
    EXPECT_TRUE(cuda().is_lost(error)) << error << ": " << cuda().error_text(error);
  }
  // Among them: too little memory, all devices busy, no driver, no device, not ready, not supported, a spoilt capture.
  for (const int error : {0, TROUPE_CUDA_LIBRARY_ERROR, 1, 2, 9, 35, 46, 100, 101, 209, 400, 600, 701, 801, 901}) {
    EXPECT_FALSE(cuda().is_lost(error)) << error << ": " << cuda().error_text(error);
  }
}

TEST_P(CudaPluginAt, FindsKernelsByTheNamesOfOperations) {
  for (const char* op : {"linear", "matmul"}) EXPECT_NE(cuda().find_kernel(op), nullptr) << op;
  EXPECT_EQ(cuda().find_kernel("no such operation"), nullptr);
}

/// Adam in double precision, Kingma and Ba 2015, Algorithm 1.
struct ReferenceAdam {
  double rate, beta1, beta2, epsilon;
  std::vector<double> values, first, second;

  void step(const std::vector<float>& gradients, int t) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double g = gradients[i];
      first[i] = beta1 * first[i] + (1 - beta1) * g;
      second[i] = beta2 * second[i] + (1 - beta2) * g * g;
      const double corrected = std::sqrt(second[i] / (1 - std::pow(beta2, t)));
      values[i] -= rate * first[i] / (1 - std::pow(beta1, t)) / (corrected + epsilon);
    }
  }
};

TEST_P(CudaPluginAt, AdamAgreesWithTheReferenceAndSkipsWhatIsNotFinite) {
  if (auto devices = plugin().devices(); !devices.ok()) GTEST_SKIP() << devices.error().message;
  ASSERT_EQ(error_text(cuda().use_device(0)), "");
  ASSERT_EQ(error_text(cuda().make_stream(&stream_)), "");
  const std::int64_t count = 1'234'567;  // more than one pass of the largest grid, and no multiple of a block
  constexpr int kSteps = 3;

  std::vector<float> values(count), gradients(count), broken;
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = std::sin(static_cast<float>(i));
    gradients[i] = std::cos(0.37f * static_cast<float>(i));
  }
  broken = gradients;
  broken[count - 1] = std::nanf("");
  ReferenceAdam expected{1e-3F, 0.9F, 0.999F, 1e-8F, {values.begin(), values.end()}, {}, {}};
  expected.first.resize(count);
  expected.second.resize(count);
  std::vector<TroupeCudaRule> rules(kSteps);
  for (int t = 1; t <= kSteps; ++t) {
    rules[t - 1] = {.pass = TROUPE_CUDA_ADAM,
                    .gradient_scale = 1,
                    .step_size = static_cast<float>(expected.rate / (1 - std::pow(expected.beta1, t))),
                    .beta1 = static_cast<float>(expected.beta1),
                    .beta2 = static_cast<float>(expected.beta2),
                    .epsilon = static_cast<float>(expected.epsilon),
                    .inverse_sqrt_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(expected.beta2, t)))};
  }

  const std::int64_t blocks = (count + TROUPE_CUDA_NORM_BLOCK - 1) / TROUPE_CUDA_NORM_BLOCK;
  float* const gradient = to_device(gradients);
  float* const not_finite = to_device(broken);
  double* const squares = to_device(std::vector<double>(blocks));
  TroupeCudaRule* const rows = to_device(rules);
  TroupeCudaControl* const control = to_device(std::vector<TroupeCudaControl>{{.taken = -1}});
  TroupeCudaUpdate update = {.values = to_device(values),
                             .slot0 = to_device(std::vector<float>(count)),
                             .slot1 = to_device(std::vector<float>(count)),
                             .count = count,
                             .rules = rows,
                             .control = control};
  const TroupeCudaGradient group = {.squares = squares, .blocks = blocks, .norm_blocks = blocks, .rules = rows};
  for (const float* given : {gradient, not_finite, gradient, gradient}) {
    update.gradient = given;
    const TroupeCudaSquares part{given, count, squares};
    ASSERT_EQ(error_text(cuda().sum_squares(&part, 1, stream_)), "");
    ASSERT_EQ(error_text(cuda().decide(&group, 1, control, stream_)), "");
    ASSERT_EQ(error_text(cuda().update(&update, 1, stream_)), "");
  }
  for (int t = 1; t <= kSteps; ++t) expected.step(gradients, t);

  const TroupeCudaControl after = from_device(control, 1)[0];
  EXPECT_EQ(after.taken, kSteps - 1);
  EXPECT_EQ(after.skip, 0);
  const std::vector<float> got = from_device(update.values, count);
  for (std::int64_t i = 0; i < count; ++i) {
    // Values are below 1 and round to 6e-8 in each of 3 steps; a step itself is at most 1e-3 long.
    ASSERT_NEAR(got[i], expected.values[i], 5e-7) << "element " << i;
  }
}

TEST_P(CudaPluginAt, WhatIsRecordedRunsWhenItIsLaunched) {
  if (auto devices = plugin().devices(); !devices.ok()) GTEST_SKIP() << devices.error().message;
  ASSERT_EQ(error_text(cuda().use_device(0)), "");
  ASSERT_EQ(error_text(cuda().make_stream(&stream_)), "");
  const std::int64_t count = 1000;
  float* const from = to_device(std::vector<float>(count, 1));
  std::uint16_t* const to = to_device(std::vector<std::uint16_t>(count));

  ASSERT_EQ(error_text(cuda().begin_capture(stream_)), "");
  EXPECT_EQ(error_text(cuda().to_bf16(from, to, count, stream_)), "");
  TroupeCudaGraph* graph = nullptr;
  ASSERT_EQ(error_text(cuda().end_capture(stream_, &graph)), "");
  EXPECT_EQ(from_device(to, count), std::vector<std::uint16_t>(count));
  ASSERT_EQ(error_text(cuda().launch_graph(graph, stream_)), "");
  EXPECT_EQ(from_device(to, count), std::vector<std::uint16_t>(count, 0x3f80));
  EXPECT_EQ(cuda().destroy_graph(graph), 0);
}

struct ProductSizes {
  std::int64_t m, n, k;
};

TEST_P(CudaPluginAt, ProductsAreRowMajorWhateverIsTransposedAndHoweverTheyAreTiled) {
  if (auto devices = plugin().devices(); !devices.ok()) GTEST_SKIP() << devices.error().message;
  ASSERT_EQ(error_text(cuda().use_device(0)), "");
  ASSERT_EQ(error_text(cuda().make_stream(&stream_)), "");
  // Small whole numbers: exact however they are added up.
  const auto value = [](std::int64_t i) { return static_cast<float>(i * 7 % 5 - 2); };
  std::vector<float> values(16384);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<std::int64_t>(i));
  float* const a = to_device(values);
  float* const b = to_device(values);
  float* const bias = to_device(values);
  // Odd, as networks have them, and even; one tile, several, and more than one slice of k.
  for (const auto& [m, n, k] : {ProductSizes{5, 51, 7}, ProductSizes{67, 70, 75}, ProductSizes{1, 1, 200},
                                ProductSizes{36, 40, 72}, ProductSizes{68, 96, 132}}) {
    float* const c = to_device(std::vector<float>(m * n));
    for (int form = 0; form < 16 * (TROUPE_CUDA_TILINGS + 1); ++form) {
      const bool transpose_a = (form & 1) != 0, transpose_b = (form & 2) != 0, linear = (form & 4) != 0;
      const bool tf32 = (form & 8) != 0;
      const int tiling = form / 16;
      SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << " " << transpose_a << transpose_b << linear
                                      << ", tiling " << tiling << (tf32 ? ", TF32" : ""));
      const TroupeCudaProductShape shape = {.m = m,
                                            .n = n,
                                            .k = k,
                                            .transpose_a = transpose_a,
                                            .transpose_b = transpose_b,
                                            .tf32 = tf32,
                                            .bias = linear,
                                            .activation = linear ? 3 : 0,  // ReLU
                                            .tiling = tiling};
      TroupeCudaProduct* product = nullptr;
      const int made = cuda().make_product(&shape, &product);
      ASSERT_EQ(made, 0) << error_text(made) << ": " << cuda().library_error();
      const TroupeCudaKernel* const kernel = cuda().find_kernel(linear ? "linear" : "matmul");
      TroupeCudaCall call = {.inputs = linear ? 3 : 2, .outputs = 1, .product = product};
      call.in[0].data = a;
      call.in[1].data = b;
      call.in[2].data = bias;
      call.out[0] = {.data = c, .rows = m, .cols = n};
      call.workspace = to_device(std::vector<char>(cuda().workspace(kernel, &call) + 1));
      const int run = cuda().launch(kernel, &call, stream_);
      ASSERT_EQ(run, 0) << error_text(run) << ": " << cuda().library_error();
      const std::vector<float> got = from_device(c, m * n);
      int wrong = 0;
      for (std::int64_t i = 0; i < m * n; ++i) {
        const std::int64_t row = i / n, col = i % n;
        float sum = linear ? value(col) : 0;
        for (std::int64_t l = 0; l < k; ++l) {
          sum += value(transpose_a ? l * m + row : row * k + l) * value(transpose_b ? col * k + l : l * n + col);
        }
        if (got[i] != (linear && sum < 0 ? 0 : sum)) ++wrong;
      }
      EXPECT_EQ(wrong, 0);
      cuda().destroy_product(product);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaPluginAt, testing::Values(CUDA_PLUGIN));
INSTANTIATE_TEST_SUITE_P(Emulated, CudaPluginAt, testing::Values(CUDA_EMULATED_PLUGIN));

TEST(CudnnPlugin, LoadsWithoutADriverAndTellsItsVersion) {
  if (std::string(CUDNN_PLUGIN).empty()) GTEST_SKIP() << "built without cuDNN";
  auto plugin = CudnnPlugin::load(CUDNN_PLUGIN);
  ASSERT_TRUE(plugin.ok()) << plugin.error().message;
  int version = 0;
  ASSERT_EQ(plugin->api().version(&version), 0);
  EXPECT_GE(version, 90000);
}

}  // namespace
}  // namespace troupe::gpu
