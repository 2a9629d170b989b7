// The text that the builder writes, without a plug-in.
#include <troupe/learner/graph/hlo.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace troupe::learner::hlo {
namespace {

using testing::HasSubstr;

TEST(Hlo, WritesModulesInTheGenericForm) {
  Builder to;
  const Value x = to.argument({{2, 3}}), y = to.argument({{3}});
  const std::array results{x * broadcast(y, {2, 3}, {1}) + 1};
  const std::string text = to.module("small", results, {0, -1});
  EXPECT_EQ(text, R"(module @small {
  "func.func"() <{arg_attrs = [{tf.aliasing_output = 0 : i32}, {}], function_type = (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>), sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%0: tensor<2x3xf32>, %1: tensor<3xf32>):
    %4 = "stablehlo.constant"() <{value = dense<1.0> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
    %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<2x3xf32>
    %3 = "stablehlo.multiply"(%0, %2) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %5 = "stablehlo.add"(%3, %4) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    "func.return"(%5) : (tensor<2x3xf32>) -> ()
  }) : () -> ()
}
)");
}

std::string constant(double value, Element element = Element::kF32) {
  Builder to;
  const std::array results{to.constant(value, {{}, element})};
  const std::string text = to.module("m", results);
  const std::size_t begin = text.find("dense<");
  return text.substr(begin, text.find('>', begin) + 1 - begin);
}

TEST(Hlo, NumbersAreThoseThatWereMeant) {
  EXPECT_EQ(constant(0), "dense<0.0>");
  EXPECT_EQ(constant(0.1), "dense<0.1>");
  EXPECT_EQ(constant(-1e-10), "dense<-1.0e-10>");
  EXPECT_EQ(constant(1e20), "dense<1.0e+20>");
  EXPECT_EQ(constant(16777216), "dense<16777216.0>");
  EXPECT_EQ(constant(std::numeric_limits<float>::lowest()), "dense<-3.4028235e+38>");
  EXPECT_EQ(constant(-INFINITY), "dense<0xFF800000>");
  EXPECT_EQ(constant(INFINITY, Element::kBF16), "dense<0x7F80>");
  EXPECT_EQ(constant(NAN), "dense<0x7FC00000>");
  EXPECT_EQ(constant(-3, Element::kI32), "dense<-3>");
  EXPECT_EQ(constant(4294967295.0, Element::kU32), "dense<4294967295>");
  EXPECT_EQ(constant(0.1, Element::kF64), "dense<0.1>");
  EXPECT_EQ(constant(1, Element::kBool), "dense<true>");
}

TEST(Hlo, ConstantsAreWrittenOnce) {
  Builder to;
  EXPECT_EQ(to.constant(1, {{2}}).id, to.constant(1, {{2}}).id);
  EXPECT_NE(to.constant(1, {{2}}).id, to.constant(1, {{3}}).id);
  EXPECT_EQ(to.iota({{4}, Element::kI32}, 0).id, to.iota({{4}, Element::kI32}, 0).id);
  const std::vector<float> values{1, 2}, alike{7, 7};
  EXPECT_EQ(to.constant(values, {2}).id, to.constant(values, {2}).id);
  EXPECT_EQ(to.constant(alike, {2}).id, to.constant(7, {{2}}).id);
  EXPECT_THAT(to.module("m", {}), HasSubstr("dense<\"0x0000803F00000040\">"));
}

TEST(Hlo, ProductsAreWholeFloatsUnlessTheProgramIsOfBfloat16) {
  for (const bool bf16 : {false, true}) {
    Builder to(bf16);
    const Value a = to.argument({{2, 3}}), b = to.argument({{3, 4}});
    const DotAxes axes{.a_sum = {1}, .b_sum = {0}};
    const std::array narrow{dot(a, b, axes, Product::kNarrow)};
    EXPECT_EQ(narrow[0].type, (Type{{2, 4}}));
    const std::string text = to.module("m", narrow);
    EXPECT_THAT(text, HasSubstr(bf16 ? "(tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xf32>"
                                     : "(tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>"));
    EXPECT_THAT(text, HasSubstr(bf16 ? "precision DEFAULT" : "precision HIGHEST"));
    const std::array exact{dot(a, b, axes, Product::kExact)};
    EXPECT_THAT(to.module("m", exact), HasSubstr("(tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>"));
  }
}

TEST(Hlo, OfTwoBranchesOneRuns) {
  Builder to;
  const Value x = to.argument({{2}}), y = to.argument({{2}}), yes = to.argument({{}, Element::kBool});
  const std::vector<Value> made = to.choose(
      yes,
      [&] {
        return std::vector{x + y, y};
      },
      [&] {
        return std::vector{x, x};
      });
  ASSERT_EQ(made.size(), 2U);
  EXPECT_THAT(to.module("m", made), HasSubstr(R"(
    %4, %5 = "stablehlo.if"(%2) ({
    %3 = "stablehlo.add"(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    "stablehlo.return"(%3, %1) : (tensor<2xf32>, tensor<2xf32>) -> ()
    }, {
    "stablehlo.return"(%0, %0) : (tensor<2xf32>, tensor<2xf32>) -> ()
    }) : (tensor<i1>) -> (tensor<2xf32>, tensor<2xf32>)
    "func.return"(%4, %5))"));
}

TEST(Hlo, WhatChangesNothingIsNotWritten) {
  Builder to;
  const Value x = to.argument({{2, 3}});
  EXPECT_EQ(reshape(x, {2, 3}).id, x.id);
  EXPECT_EQ(broadcast(x, {2, 3}, {0, 1}).id, x.id);
  EXPECT_EQ(slice(x, {0, 0}, {2, 3}).id, x.id);
  EXPECT_EQ(pad(x, 0, {.low = {0, 0}, .high = {0, 0}}).id, x.id);
  EXPECT_EQ(convert(x, Element::kF32).id, x.id);
  EXPECT_EQ(sum(x, {}).id, x.id);
  const std::array parts{x};
  EXPECT_EQ(concat(parts, 0).id, x.id);
}

}  // namespace
}  // namespace troupe::learner::hlo
