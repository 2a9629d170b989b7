// Programs are compiled for TPUs that are not there, each in a process of its own (pjrt_compile.cpp).
#include <troupe/pjrt/topology.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/tests/pjrt/compile_for_tpu.hpp>
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
    return compile_for_tpu(topology, text, replicas);
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

}  // namespace
}  // namespace troupe::pjrt
