#include <troupe/actors/control/run_checkpoint.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/tests/actors/test_roles.hpp>

namespace troupe::actors {
namespace {

class RunCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    directory = std::filesystem::path(::testing::TempDir()) /
                ("run_checkpoint_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(directory);
    topology = testing::counting(2, 10, 4, std::make_shared<testing::Collected>());
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  std::shared_ptr<const Cut> sample_cut() {
    Cut cut;
    for (int i = 0; i < 3; ++i) {
      auto state = std::make_shared<InstanceState>();
      state->role.counters = {{"next", i}};
      state->role.chunks = {{std::byte{1}, std::byte(i)}, {}};
      state->role.tensors.push_back({"w/0", DType::kF32, {2}, std::vector<std::byte>(8, std::byte(i))});
      cut.instances.push_back({i < 2 ? "counter-" + std::to_string(i) : "collector", state});
    }
    auto collector = std::make_shared<InstanceState>(*cut.instances[2].state);
    collector->waiting.emplace_back(EdgeId{0, 1, 0}, testing::number_frame(pool, 42));
    cut.instances[2].state = collector;
    return std::make_shared<const Cut>(std::move(cut));
  }
  messages::OpenCheckpoint store(const Cut& cut) {
    auto contents = to_contents(topology, cut, {{"run/wall_ms", 5}});
    contents.run_id = "test";
    EXPECT_TRUE(messages::write_checkpoint({directory.string(), 2, {}}, contents).ok());
    return messages::open_newest_checkpoint(directory.string()).value();
  }

  std::filesystem::path directory;
  messages::FramePool pool;
  Topology topology;
};

TEST_F(RunCheckpoint, EverythingComesBackUnderItsInstance) {
  const auto cut = sample_cut();
  const auto checkpoint = store(*cut);
  EXPECT_EQ(checkpoint.counter("run/wall_ms").value(), 5);
  EXPECT_NE(checkpoint.find_tensor("counter-1/w/0"), nullptr);
  const auto restored = to_cut(topology, checkpoint).value();
  ASSERT_EQ(restored->instances.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const InstanceState& state = *restored->instances[i].state;
    EXPECT_EQ(state.role.counter("next").value(), static_cast<std::int64_t>(i));
    EXPECT_EQ(state.role.chunks, cut->instances[i].state->role.chunks);
    ASSERT_EQ(state.role.tensors.size(), 1u);
    EXPECT_EQ(state.role.tensors[0].name, "w/0");
    EXPECT_EQ(state.role.tensors[0].bytes, cut->instances[i].state->role.tensors[0].bytes);
  }
  ASSERT_EQ(restored->instances[2].state->waiting.size(), 1u);
  EXPECT_EQ(restored->instances[2].state->waiting[0].first, (EdgeId{0, 1, 0}));
  EXPECT_EQ(testing::number_of(restored->instances[2].state->waiting[0].second), 42);
}

TEST_F(RunCheckpoint, AnotherTopologyIsRefused) {
  const auto checkpoint = store(*sample_cut());
  topology.roles[0].count = 3;
  EXPECT_EQ(to_cut(topology, checkpoint).error().code, Code::kShapeMismatch);
}

}  // namespace
}  // namespace troupe::actors
