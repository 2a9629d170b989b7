// The engine of PJRT by the suite for all, on the processor's plug-in where it was fetched; on a device that is not the
// first one where asked for (`./troupe test -C Slow -R pjrt_program`).
#include <cstdlib>

#include <fmt/format.h>

#include <troupe/learner/engine/pjrt/pjrt_clients.hpp>
#include <troupe/tests/learner/engine/engine_conformance.hpp>
#include <troupe/tests/learner/engine/pjrt/cpu_plugin.hpp>

namespace troupe::learner {
namespace {

EngineUnderTest on(const char* name, int device) {
  return {.name = name, .device = {"pjrt:cpu", device}, .before = need_cpu_plugin};
}

INSTANTIATE_TEST_SUITE_P(Pjrt, EngineConformance, ::testing::Values(on("pjrt_cpu", 0)),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(SlowPjrt, EngineConformance, ::testing::Values(on("pjrt_cpu_another_device", 3)),
                         [](const auto& info) { return info.param.name; });

TEST(PjrtClients, APluginThatIsNotThereIsOneErrorThatSaysWhatToDo) {
  const auto missing = find_pjrt_plugin("pjrt:no-such-name");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message,
            "device pjrt:no-such-name: no plug-in \"no-such-name\" in PJRT_NAMES_AND_LIBRARY_PATHS, and none is "
            "fetched; add it there, or name a file as pjrt:/PATH/TO/PLUGIN.so");
  Graph graph(2);
  graph.output("y", affine(graph.input("x", {3}), 2, 0));
  const auto program = Program::compile(graph, {.device = {"pjrt:/no/such/file.so", 0}});
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().code, Code::kNotFound);
}

TEST(PjrtClients, ADeviceThatThePluginHasNotIsRefused) {
  need_cpu_plugin();
  if (IsSkipped()) return;
  Graph graph(2);
  graph.output("y", affine(graph.input("x", {3}), 2, 0));
  const auto program = Program::compile(graph, {.device = {"pjrt:cpu", kPjrtCpuDevices}});
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.error().message, ::testing::HasSubstr("has 8 devices, expected 0 to 7"));
}

TEST(PjrtClients, SumsOnProcessorsAreYnnpacksUnlessTheUsersFlagsSay) {
  need_cpu_plugin();
  if (IsSkipped()) return;
  const auto client = pjrt_client("pjrt:cpu").value();
  const auto flags = compile_flags(*client);
  ASSERT_EQ(flags.size(), 1U);  // the pinned plug-in knows it
  setenv("XLA_FLAGS", fmt::format("--{}=", flags[0].name).c_str(), 1);
  EXPECT_TRUE(compile_flags(*client).empty());
  unsetenv("XLA_FLAGS");
}

}  // namespace
}  // namespace troupe::learner
