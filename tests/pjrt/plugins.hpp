#pragma once
// Tests that need a plug-in are skipped where it is neither named in the environment nor fetched, and say so.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include <troupe/pjrt/client.hpp>
#include <troupe/pjrt/find_plugin.hpp>
#include <troupe/pjrt/topology.hpp>

namespace troupe::pjrt {

/// Of "cpu", "cuda" or "tpu"; empty where there is none.
inline std::filesystem::path fetched_plugin(const std::string& kind) {
  auto found = find_plugin(kind);
  return found.ok() ? *found : std::filesystem::path();
}
inline std::string no_plugin(const std::string& kind) {
  return "no PJRT plug-in: tools/bootstrap.sh pjrt " + kind + " fetches it";
}

/// Why nothing can be compiled for NVIDIA's GPUs here; empty where it can.
inline std::string no_gpu_compiler() {
  if (fetched_plugin("cuda").empty()) return no_plugin("cuda");
  const Status found = prepare_cuda_to_compile();
  return found.ok() ? "" : found.error().message;
}

/// The client of the processor, with four devices; one for the whole program, because XLA starts many threads.
inline std::shared_ptr<const Client> cpu_client() {
  static const std::shared_ptr<const Client> client = [] {
    auto plugin = Plugin::open(fetched_plugin("cpu"));
    EXPECT_TRUE(plugin.ok()) << plugin.error().message;
    auto made = Client::make(*plugin, {{"cpu_device_count", std::int64_t{4}}});
    EXPECT_TRUE(made.ok()) << made.error().message;
    return *made;
  }();
  return client;
}

/// Skips where the processor's plug-in is not there.
class CpuPluginTest : public testing::Test {
 protected:
  void SetUp() override {
    if (fetched_plugin("cpu").empty()) GTEST_SKIP() << no_plugin("cpu");
    client_ = cpu_client();
  }
  std::shared_ptr<const Client> client_;
};

}  // namespace troupe::pjrt
