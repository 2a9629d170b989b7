// What TROUPE_MAX_ISA may say, and that this process is held down to what it says (tests/learner/CMakeLists.txt runs
// these tests under each of its values).
#include <troupe/learner/engine/cpu/instruction_set.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>

namespace troupe::learner {
namespace {

TEST(InstructionSet, IsOneOfFourOrAll) {
  EXPECT_EQ(parse_instruction_set("sse41").value(), InstructionSet::kSse41);
  EXPECT_EQ(parse_instruction_set("avx").value(), InstructionSet::kAvx);
  EXPECT_EQ(parse_instruction_set("avx2").value(), InstructionSet::kAvx2);
  EXPECT_EQ(parse_instruction_set("avx512").value(), InstructionSet::kAvx512);
  EXPECT_EQ(parse_instruction_set("").value(), InstructionSet::kAll);
  for (const char* wrong : {"AVX2", "avx2 ", "avx-512", "sse", "all", "\x1b[31m"}) {
    const auto parsed = parse_instruction_set(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, testing::EndsWith("expected sse41, avx, avx2 or avx512"));
    EXPECT_THAT(parsed.error().message, testing::Not(testing::HasSubstr("\x1b")));
  }
}

TEST(InstructionSet, HoldsKernelsAndProductsDown) {
  const char* const variable = std::getenv("TROUPE_MAX_ISA");
  const std::string max = variable == nullptr ? "" : variable;
  ASSERT_TRUE(max_instruction_set().ok()) << max_instruction_set().error().message;
  EXPECT_TRUE(may_use(InstructionSet::kSse41));
  EXPECT_EQ(may_use(InstructionSet::kAvx2), max != "sse41" && max != "avx");
  EXPECT_EQ(may_use(InstructionSet::kAvx512), max.empty() || max == "avx512");
  EXPECT_EQ(may_use(InstructionSet::kAll), max.empty());
  const std::string_view kernels = kernels_f32().instruction_set;
  if (!may_use(InstructionSet::kAvx512)) {
    EXPECT_NE(kernels, "avx512");
    EXPECT_EQ(kernels_f32_avx512(), nullptr);
    EXPECT_FALSE(multiplies_bf16()) << "oneDNN is not held down: only with AVX-512 has it bfloat16 products";
  }
  if (!may_use(InstructionSet::kAvx2)) {
    EXPECT_EQ(kernels, "generic");
    EXPECT_EQ(kernels_f32_avx2(), nullptr);
  }
}

}  // namespace
}  // namespace troupe::learner
