// Programs are compiled for TPUs that are not there, each in a process of its own (pjrt_compile.cpp).
#include <troupe/pjrt/gpu_topology.hpp>
#include <troupe/pjrt/topology.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/tests/pjrt/compile_elsewhere.hpp>
#include <troupe/tests/pjrt/plugins.hpp>

namespace troupe::pjrt {
namespace {

using testing::HasSubstr;

class TpuTopology : public testing::Test {
 protected:
  void SetUp() override {
    if (fetched_plugin("tpu").empty()) GTEST_SKIP() << no_plugin("tpu");
  }
  static Outcome compile(const std::string& topology, const std::string& text, int replicas = 1) {
    return compile_elsewhere("tpu", topology, text, replicas);
  }
};

std::string program(const std::string& type, const std::string& op, const std::string& attributes = "") {
  return fmt::format(R"(module @m {{
  "func.func"() <{{function_type = ({0}, {0}) -> {0}, sym_name = "main"{2}}}> ({{
  ^bb0(%x: {0}, %y: {0}):
    %0 = {1} : ({0}, {0}) -> {0}
    "func.return"(%0) : ({0}) -> ()
  }}) : () -> ()
}}
)",
                     type, op, attributes);
}
const std::string kAdd = R"("stablehlo.add"(%x, %y))";

TEST_F(TpuTopology, CompilesWithoutATpuAndSaysWhatItTakes) {
  const Outcome made =
      compile("v5e:2x2", program("tensor<8x128xf32>", kAdd, ", arg_attrs = [{tf.aliasing_output = 0 : i32}, {}]"));
  ASSERT_TRUE(made.ok) << made.text;
  EXPECT_THAT(made.text, HasSubstr("devices 4\nkind TPU v5 lite\n"));
  EXPECT_THAT(made.text, HasSubstr("attribute coords = [0, 0, 0]"));
  EXPECT_THAT(made.text, HasSubstr("outputs 1\nalias 4096\narguments 8192\n"));
  EXPECT_THAT(made.text, HasSubstr("serialised yes"));
  EXPECT_THAT(made.text, HasSubstr("cost flops = "));
}

TEST_F(TpuTopology, ProgramLargerThanADeviceIsRefusedAsMemory) {
  const Outcome made = compile("v5e:1x1", program("tensor<4x1048576x1024xf32>", kAdd));
  ASSERT_FALSE(made.ok);
  EXPECT_THAT(made.text, HasSubstr("error unavailable pjrt: libtpu.so: PJRT_Compile:"));
  EXPECT_THAT(made.text, HasSubstr("exceeds available HBM (15.75G)"));
}

TEST_F(TpuTopology, UnknownTopologyIsRefused) {
  const Outcome made = compile("v5e:3x3", program("tensor<8xf32>", kAdd));
  ASSERT_FALSE(made.ok);
  EXPECT_FALSE(made.aborted);
  EXPECT_THAT(made.text, HasSubstr("PJRT_TopologyDescription_Create"));
}

TEST_F(TpuTopology, ClientWithoutATpuIsNotFound) {
  const Outcome made = compile("client", "");
  if (made.ok) GTEST_SKIP() << "there is a TPU";
  EXPECT_THAT(made.text, HasSubstr("error not_found pjrt: libtpu.so: PJRT_Client_Create: "));
}

TEST_F(TpuTopology, CompilerThatEndsItsProcessLeavesThisOne) {
  const Outcome made = compile("v5e:1x1", program("tensor<?xf32>", kAdd));
  EXPECT_TRUE(made.aborted) << made.text;
}

TEST(GpuTopology, IsCalledAsAGpuAndHowMany) {
  EXPECT_TRUE(is_gpu_topology("h100"));
  EXPECT_TRUE(is_gpu_topology("h200:8"));
  EXPECT_FALSE(is_gpu_topology("v5e:2x2"));
  const auto topology = [](std::string_view name) { return to_string((*gpu_topology(name))[0]); };
  EXPECT_EQ(topology("h100"), "topology = 1x1x1");
  EXPECT_EQ(topology("a100:8"), "topology = 1x1x8");
  EXPECT_EQ(topology("h200:2x8"), "topology = 1x2x8");
  for (const char* wrong : {"h100:", "h100:0", "h100:2x", "h100:x8", "h100:-1", "h100:4x4x4", "v100:2", ""}) {
    const auto made = gpu_topology(wrong);
    ASSERT_FALSE(made.ok()) << wrong;
    EXPECT_EQ(made.error().code, Code::kInvalidArgument);
    EXPECT_THAT(made.error().message, HasSubstr("expected a100, h100 or h200 and how many"));
  }
}

TEST(GpuTopology, CompilesWithoutAGpu) {
  if (!no_gpu_compiler().empty()) GTEST_SKIP() << no_gpu_compiler();
  const Outcome made = compile_elsewhere(
      "cuda", "h100:2", program("tensor<8x128xf32>", kAdd, ", arg_attrs = [{tf.aliasing_output = 0 : i32}, {}]"));
  ASSERT_TRUE(made.ok) << made.text;
  EXPECT_THAT(made.text, HasSubstr("devices 2\nkind NVIDIA H100 80GB HBM3\n"));
  EXPECT_THAT(made.text, HasSubstr("outputs 1\nalias 4096\narguments 8192\n"));
}

}  // namespace
}  // namespace troupe::pjrt
