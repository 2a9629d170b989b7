// The plug-in is loaded where one was built. Without a GPU its clean refusal is the test; with one, Adam is compared
// with a plain reference on the CPU.
#include <troupe/learner/cuda/cuda_plugin.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace troupe::learner {
namespace {

using testing::HasSubstr;

const std::string kPluginPath = CUDA_PLUGIN;

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
  EXPECT_THAT(plugin.error().message, HasSubstr("has abi 2, expected 1"));
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

TEST(CudaPlugin, DevicesAreNamedOrTheirAbsenceIsExplained) {
  if (kPluginPath.empty()) GTEST_SKIP() << "built without a CUDA compiler";
  auto plugin = CudaPlugin::load(kPluginPath);
  ASSERT_TRUE(plugin.ok()) << plugin.error().message;
  auto devices = plugin->devices();
  if (devices.ok()) {
    ASSERT_FALSE(devices->empty());
    for (const CudaDevice& device : *devices) EXPECT_FALSE(device.name.empty());
    return;
  }
  EXPECT_EQ(devices.error().code, Code::kUnavailable);
  int driver = 0;
  ASSERT_EQ(plugin->api().driver_version(&driver), 0);
  EXPECT_THAT(devices.error().message, HasSubstr(driver == 0 ? "no NVIDIA driver" : "cuda: "));
}

/// Adam in double precision, Kingma and Ba 2015, Algorithm 1.
void reference_adam(std::vector<double>& parameters, const std::vector<float>& gradients, std::vector<double>& first,
                    std::vector<double>& second, const TroupeCudaAdam& options, int step) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    double gradient = gradients[i];
    first[i] = options.beta1 * first[i] + (1.0 - options.beta1) * gradient;
    second[i] = options.beta2 * second[i] + (1.0 - options.beta2) * gradient * gradient;
    double first_hat = first[i] / (1 - std::pow(static_cast<double>(options.beta1), step));
    double second_hat = second[i] / (1 - std::pow(static_cast<double>(options.beta2), step));
    parameters[i] -= options.learning_rate * first_hat / (std::sqrt(second_hat) + options.epsilon);
  }
}

TEST(CudaPlugin, AdamAgreesWithTheReference) {
  if (kPluginPath.empty()) GTEST_SKIP() << "built without a CUDA compiler";
  auto plugin = CudaPlugin::load(kPluginPath);
  ASSERT_TRUE(plugin.ok()) << plugin.error().message;
  if (auto devices = plugin->devices(); !devices.ok()) GTEST_SKIP() << devices.error().message;
  const TroupeCudaApi& cuda = plugin->api();
  const TroupeCudaAdam options = {.learning_rate = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};
  const std::size_t count = 1'234'567;  // more than one pass of the largest grid, and no multiple of a block
  const std::size_t bytes = count * sizeof(float);

  std::vector<float> parameters(count), gradients(count);
  for (std::size_t i = 0; i < count; ++i) {
    parameters[i] = std::sin(static_cast<float>(i));
    gradients[i] = std::cos(0.37f * static_cast<float>(i));
  }
  std::vector<double> expected(parameters.begin(), parameters.end()), first(count), second(count);
  std::vector<float> zeros(count);
  void* buffers[4] = {};  // parameters, gradients, first moment, second moment
  const float* contents[4] = {parameters.data(), gradients.data(), zeros.data(), zeros.data()};
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(cuda.allocate(0, bytes, &buffers[i]), 0);
    ASSERT_EQ(cuda.upload(0, buffers[i], contents[i], bytes), 0);
  }
  for (int step = 1; step <= 3; ++step) {
    ASSERT_EQ(cuda.adam(0, static_cast<float*>(buffers[0]), static_cast<const float*>(buffers[1]),
                        static_cast<float*>(buffers[2]), static_cast<float*>(buffers[3]), count, &options, step),
              0);
    reference_adam(expected, gradients, first, second, options, step);
  }
  ASSERT_EQ(cuda.download(0, parameters.data(), buffers[0], bytes), 0);
  for (void* buffer : buffers) EXPECT_EQ(cuda.release(0, buffer), 0);
  for (std::size_t i = 0; i < count; ++i) {
    // Parameters are below 1 and round to 6e-8 in each of 3 steps; a step itself is at most 1e-3 long.
    ASSERT_NEAR(parameters[i], expected[i], 5e-7) << "element " << i;
  }
}

}  // namespace
}  // namespace troupe::learner
