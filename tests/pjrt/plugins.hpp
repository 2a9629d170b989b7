#pragma once
// Where the tests find plug-ins: TROUPE_TEST_PJRT_CPU and TROUPE_TEST_PJRT_TPU name one, else it is what
// `tools/bootstrap.sh pjrt cpu` or `pjrt tpu` has fetched. Without one its tests are skipped and say so.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include <troupe/pjrt/client.hpp>

namespace troupe::pjrt {

/// Of "cpu" or "tpu"; empty where there is none.
inline std::filesystem::path fetched_plugin(const std::string& kind) {
  namespace fs = std::filesystem;
  if (const char* given = std::getenv(kind == "cpu" ? "TROUPE_TEST_PJRT_CPU" : "TROUPE_TEST_PJRT_TPU")) return given;
  const char *xdg = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  const fs::path cache = (xdg != nullptr ? fs::path(xdg) : fs::path(home == nullptr ? "" : home) / ".cache") / "troupe";
  std::error_code ignored;  // no cache, no plug-in
  for (const auto& folder : fs::directory_iterator(cache, ignored)) {
    if (!folder.path().filename().string().starts_with("pjrt-" + kind + "-")) continue;
    for (const auto& file : fs::directory_iterator(folder.path(), ignored)) {
      if (file.path().extension() == ".so") return file.path();
    }
  }
  return {};
}
inline std::string no_plugin(const std::string& kind) {
  return "no PJRT plug-in: tools/bootstrap.sh pjrt " + kind + " fetches it";
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
