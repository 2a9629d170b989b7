#pragma once
// Small checkpoints whose whole content follows from their step, so that a reader can tell a mixture from a whole.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <troupe/messages/checkpoint.hpp>

namespace troupe::messages::testing {

/// A directory of this test's own, removed at its end.
class ScratchDirectory {
 public:
  ScratchDirectory() : path_(make()) {}
  ~ScratchDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  std::string checkpoints() const { return (path_ / "checkpoints").string(); }
  std::filesystem::path path() const { return path_; }

 private:
  static std::filesystem::path make() {
    std::string name = ::testing::TempDir() + "troupe_checkpoint_XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    return name;
  }
  std::filesystem::path path_;
};

/// Writes the sample of `step`.
inline Result<std::string> write_sample(const CheckpointWriteOptions& options, std::int64_t step) {
  std::vector<float> weights(6, static_cast<float>(step));
  std::vector<std::byte> chunk(11, static_cast<std::byte>(step));
  CheckpointContents contents{.run_id = "run-1", .learner_step = step};
  contents.tensors = {{"critic/parameters", DType::kF32, {2, 3}, std::as_bytes(std::span(weights))}};
  contents.roles = {{"replay", {chunk, {}, chunk}}, {"env-actor", {}}};
  contents.counters = {{"env_steps", 10 * step}, {"rng/0", -1}};
  return write_checkpoint(options, contents);
}

/// Everything in `checkpoint` is the sample of its step.
inline void expect_sample(const OpenCheckpoint& checkpoint) {
  const std::int64_t step = checkpoint.learner_step;
  EXPECT_EQ(checkpoint.run_id, "run-1");
  const TensorBytes* tensor = checkpoint.find_tensor("critic/parameters");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->shape, (Shape{2, 3}));
  std::vector<float> weights(6);
  ASSERT_EQ(tensor->bytes.size(), 24u);
  std::memcpy(weights.data(), tensor->bytes.data(), 24);
  EXPECT_EQ(weights, std::vector<float>(6, static_cast<float>(step)));
  const std::vector<std::byte> chunk(11, static_cast<std::byte>(step));
  const auto* replay = checkpoint.find_role("replay");
  ASSERT_NE(replay, nullptr);
  EXPECT_EQ(*replay, (std::vector<std::vector<std::byte>>{chunk, {}, chunk}));
  const auto* actor = checkpoint.find_role("env-actor");
  ASSERT_NE(actor, nullptr);
  EXPECT_TRUE(actor->empty());
  EXPECT_EQ(checkpoint.counter("env_steps").value(), 10 * step);
  EXPECT_EQ(checkpoint.counter("rng/0").value(), -1);
}

}  // namespace troupe::messages::testing
