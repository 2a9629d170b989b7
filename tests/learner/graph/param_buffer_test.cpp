#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <troupe/learner/graph/param_buffer.hpp>

namespace troupe::learner {
namespace {

ParamLayout layout() {
  ParamLayout made{.group = "net"};
  made.add("net/w", {3, 7});
  made.add("net/b", {7});
  return made;
}

TEST(ParamBuffer, AlignsEveryTensorAndSlotToCacheLines) {
  ParamBuffer buffer(layout(), {"adam_m", "adam_v"});
  EXPECT_EQ(buffer.values().size(), 48U);  // 21 padded to 32, 7 padded to 16
  for (const ParamEntry& entry : buffer.layout().entries) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.tensor(entry).data()) % 64, 0U);
  }
  for (std::size_t slot = 0; slot < 2; ++slot) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.slot(slot).data()) % 64, 0U);
    EXPECT_THAT(buffer.slot(slot), testing::Each(0.0F));
  }
}

TEST(ParamBuffer, FingerprintTellsLayoutsApart) {
  const std::uint64_t same = layout().fingerprint();
  EXPECT_EQ(same, layout().fingerprint());
  ParamLayout transposed{.group = "net"}, renamed = layout(), other_group = layout(), longer = layout();
  transposed.add("net/w", {7, 3});
  transposed.add("net/b", {7});
  renamed.entries[1].name = "net/c";
  other_group.group = "critic";
  longer.add("net/c", {1});
  for (const ParamLayout& different : {transposed, renamed, other_group, longer}) {
    EXPECT_NE(different.fingerprint(), same);
  }
}

TEST(ParamBuffer, LoadsOnlyWhatHasItsLayout) {
  ParamBuffer buffer(layout());
  const std::vector<float> values(48, 2.0F), few(47, 3.0F);
  EXPECT_TRUE(buffer.load(values, buffer.fingerprint()).ok());
  EXPECT_THAT(buffer.values(), testing::Each(2.0F));
  for (const Status& refused :
       {buffer.load(few, buffer.fingerprint()), buffer.load(values, buffer.fingerprint() + 1)}) {
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::kShapeMismatch);
    EXPECT_THAT(refused.error().message, testing::HasSubstr("\"net\""));
  }
  EXPECT_THAT(buffer.values(), testing::Each(2.0F));
}

}  // namespace
}  // namespace troupe::learner
