// The map against std::unordered_map, with keys that collide often.
#include <troupe/replay/slot_map.hpp>

#include <gtest/gtest.h>

#include <unordered_map>

#include <troupe/core/rng.hpp>

namespace troupe::replay {
namespace {

TEST(SlotMap, AgreesWithAPlainMapUnderRandomOperations) {
  SlotMap map;
  std::unordered_map<Key, Slot> plain;
  Rng rng(1);
  for (int i = 0; i < 200000; ++i) {
    const Key key = rng.below(3000) << (rng.below(2) * 20);
    if (rng.below(3) > 0) {
      const auto slot = static_cast<Slot>(rng.below(1000));
      map.put(key, slot);
      plain[key] = slot;
    } else if (plain.erase(key) == 1) {
      map.erase(key);
    }
    const Key other = rng.below(3000) << (rng.below(2) * 20);
    const auto found = plain.find(other);
    ASSERT_EQ(map.find(other), found == plain.end() ? SlotMap::kNone : found->second) << "operation " << i;
  }
}

TEST(SlotMapDeathTest, ErasingAnUnknownKeyIsABug) {
  SlotMap map;
  EXPECT_DEATH(map.erase(5), "unknown key 5");
}

}  // namespace
}  // namespace troupe::replay
