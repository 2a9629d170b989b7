// Checkpoints: round trip, retention, damage of every byte, hostile directories, and a writer that is killed.
#include <troupe/messages/checkpoint.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/core/sha256.hpp>

#include <troupe/tests/messages/checkpoint_samples.hpp>

namespace troupe::messages {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::expect_sample;
using ::testing::HasSubstr;
using testing::ScratchDirectory;
using testing::write_sample;

std::vector<std::string> entries(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

void overwrite(const fs::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void patch(const fs::path& path, std::size_t at, std::byte value) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(value));
}

TEST(Checkpoint, RoundTripKeepsEverything) {
  const ScratchDirectory scratch;
  const std::string path = write_sample({scratch.checkpoints()}, 123).value();
  EXPECT_EQ(path, scratch.checkpoints() + "/step-000000123");
  EXPECT_THAT(entries(path), ElementsAre("counters.chunks", "env-actor.chunks", "manifest.json", "replay.chunks",
                                         "tensors.safetensors"));
  const OpenCheckpoint opened = open_newest_checkpoint(scratch.checkpoints()).value();
  EXPECT_EQ(opened.learner_step, 123);
  EXPECT_EQ(opened.path, path);
  EXPECT_TRUE(opened.rejected.empty());
  expect_sample(opened);
  EXPECT_EQ(opened.find_tensor("missing"), nullptr);
  EXPECT_EQ(opened.find_role("missing"), nullptr);
  EXPECT_EQ(opened.counter("missing").error().code, Code::kNotFound);
}

TEST(Checkpoint, TensorsStayValidWhenItMoves) {
  const ScratchDirectory scratch;
  ASSERT_TRUE(write_sample({scratch.checkpoints()}, 1).ok());
  OpenCheckpoint first = open_newest_checkpoint(scratch.checkpoints()).value();
  const OpenCheckpoint second = std::move(first);
  expect_sample(second);
}

TEST(Checkpoint, KeepsTheNewestAndReplacesTheSameStep) {
  const ScratchDirectory scratch;
  const CheckpointWriteOptions options{scratch.checkpoints(), 2};
  for (std::int64_t step : {5, 30, 200, 200}) ASSERT_TRUE(write_sample(options, step).ok());
  EXPECT_THAT(entries(options.directory), ElementsAre("step-000000030", "step-000000200"));
  expect_sample(open_newest_checkpoint(options.directory).value());
}

TEST(Checkpoint, DamagedOnesNeitherCountAsKeptNorAreRemoved) {
  const ScratchDirectory scratch;
  CheckpointWriteOptions options{scratch.checkpoints(), 2};
  for (std::int64_t step : {1, 2}) ASSERT_TRUE(write_sample(options, step).ok());
  options.damaged = {"step-000000002"};
  ASSERT_TRUE(write_sample(options, 3).ok());
  EXPECT_THAT(entries(options.directory), ElementsAre("step-000000001", "step-000000002", "step-000000003"));
  ASSERT_TRUE(write_sample(options, 4).ok());
  EXPECT_THAT(entries(options.directory), ElementsAre("step-000000002", "step-000000003", "step-000000004"));
}

TEST(Checkpoint, UnknownEntriesAreReportedAndLeftAndLeftoversRemoved) {
  const ScratchDirectory scratch;
  const fs::path directory = scratch.checkpoints();
  fs::create_directories(directory / "my notes");
  fs::create_directories(directory / "step-12");
  fs::create_directories(directory / ".unfinished-step-000000001" / "x");
  ASSERT_TRUE(write_sample({directory.string()}, 7).ok());
  EXPECT_THAT(open_newest_checkpoint(directory.string()).value().unknown, ElementsAre("my notes", "step-12"));
  EXPECT_THAT(entries(directory), ElementsAre("my notes", "step-000000007", "step-12"));
}

TEST(Checkpoint, EveryFlippedByteAndEveryTruncationIsFoundAndNamed) {
  const ScratchDirectory scratch;
  const CheckpointWriteOptions options{scratch.checkpoints()};
  ASSERT_TRUE(write_sample(options, 100).ok());
  const fs::path damaged = write_sample(options, 200).value();
  for (const std::string& name : entries(damaged)) {
    const fs::path path = damaged / name;
    const std::vector<std::byte> good = read_file(path.string(), 1 << 20).value();
    const auto expect_found = [&](const std::string& what) {
      const auto opened = open_newest_checkpoint(options.directory);
      ASSERT_TRUE(opened.ok()) << name << ": " << what;
      ASSERT_EQ(opened->learner_step, 100) << name << ": " << what << " went unseen";
      ASSERT_EQ(opened->rejected.size(), 1u);
      ASSERT_EQ(opened->rejected[0].name, "step-000000200");
      ASSERT_THAT(opened->rejected[0].reason, HasSubstr("step-000000200: " + name + ": "));
    };
    // Changed in place: a file system flushes a file that is truncated and written anew, which takes milliseconds.
    for (std::size_t at = 0; at < good.size(); ++at) {
      patch(path, at, good[at] ^ static_cast<std::byte>(1 << (at % 8)));
      ASSERT_NO_FATAL_FAILURE(expect_found("flip at " + std::to_string(at)));
      patch(path, at, good[at]);
    }
    ASSERT_EQ(open_newest_checkpoint(options.directory).value().learner_step, 200) << "restored";
    patch(path, good.size(), std::byte{0});
    ASSERT_NO_FATAL_FAILURE(expect_found("one byte more"));
    for (std::size_t size = good.size(); size-- > 0;) {
      fs::resize_file(path, size);
      ASSERT_NO_FATAL_FAILURE(expect_found("truncated to " + std::to_string(size)));
    }
    fs::remove(path);
    const auto opened = open_newest_checkpoint(options.directory);
    ASSERT_EQ(opened.value().learner_step, 100) << name << " is missing";
    EXPECT_THAT(opened->rejected[0].reason, HasSubstr(name));
    overwrite(path, good);
  }
  EXPECT_EQ(open_newest_checkpoint(options.directory).value().learner_step, 200) << "all restored";
}

TEST(Checkpoint, FilesSwappedBetweenCheckpointsAreFound) {
  const ScratchDirectory scratch;
  const CheckpointWriteOptions options{scratch.checkpoints()};
  const fs::path one = write_sample(options, 1).value(), two = write_sample(options, 2).value();
  fs::copy_file(one / "replay.chunks", two / "replay.chunks", fs::copy_options::overwrite_existing);
  EXPECT_THAT(open_newest_checkpoint(options.directory).value().rejected[0].reason,
              HasSubstr("replay.chunks: SHA-256"));
  fs::remove_all(two);
  fs::rename(one, two);
  EXPECT_EQ(open_newest_checkpoint(options.directory).error().message,
            options.directory + ": none of 1 checkpoints is usable; step-000000002: manifest.json: is of step 1");
}

TEST(Checkpoint, NoneAtAllIsItsOwnError) {
  const ScratchDirectory scratch;
  EXPECT_EQ(open_newest_checkpoint(scratch.checkpoints()).error().code, Code::kNotFound);
}

TEST(Checkpoint, LinksAreRefused) {
  const ScratchDirectory scratch;
  const CheckpointWriteOptions options{scratch.checkpoints()};
  const fs::path path = write_sample(options, 1).value();
  fs::rename(path / "replay.chunks", scratch.path() / "elsewhere");
  fs::create_symlink(scratch.path() / "elsewhere", path / "replay.chunks");
  EXPECT_THAT(open_newest_checkpoint(options.directory).error().message, HasSubstr("symbolic link"));
  fs::rename(path, scratch.path() / "whole");
  fs::create_directory_symlink(scratch.path() / "whole", path);
  EXPECT_THAT(open_newest_checkpoint(options.directory).error().message, HasSubstr("links are refused"));
}

/// A manifest with a right hash of its own, as an attacker who knows the format would write it.
std::string forged(const std::string& name, const std::string& bytes) {
  const std::string body = R"({"files":[{"bytes":)" + bytes + R"(,"name":")" + name +
                           R"(","sha256":"00"}],"format":1,"learner_step":1,"run_id":"run-1"})";
  return "{\n  \"manifest\": {\n    \"files\": [\n      {\n        \"bytes\": " + bytes + ",\n        \"name\": \"" +
         name + "\",\n        \"sha256\": \"00\"\n      }\n    ],\n    \"format\": 1,\n    \"learner_step\": 1,\n    " +
         "\"run_id\": \"run-1\"\n  },\n  \"sha256\": \"" + sha256_hex(std::as_bytes(std::span(body))) + "\"\n}\n";
}

TEST(Checkpoint, ForgedManifestsCannotLeaveTheDirectoryOrClaimMemory) {
  const ScratchDirectory scratch;
  const CheckpointWriteOptions options{scratch.checkpoints()};
  const fs::path path = write_sample(options, 1).value();
  const auto refusal = [&](const std::string& name, const std::string& bytes) {
    const std::string text = forged(name, bytes);
    overwrite(path / "manifest.json", std::as_bytes(std::span(text)));
    return open_newest_checkpoint(options.directory).error().message;
  };
  for (const char* name : {"../../etc/passwd", "/etc/passwd", "a/b", "..", ".hidden", ""}) {
    EXPECT_THAT(refusal(name, "5"), HasSubstr("letters, digits")) << name;
  }
  EXPECT_THAT(refusal("replay.chunks", "18446744073709551615"), HasSubstr("the manifest says 18446744073709551615"));
  EXPECT_THAT(refusal("missing.chunks", "5"), HasSubstr("missing.chunks: is missing"));
  overwrite(path / "manifest.json", std::vector<std::byte>((1 << 20) + 1));
  EXPECT_THAT(open_newest_checkpoint(options.directory).error().message, HasSubstr("expected at most 1048576"));
}

TEST(Checkpoint, BadContentsAreRefusedAndChangeNothing) {
  const ScratchDirectory scratch;
  const auto refusal = [&](CheckpointContents contents, int keep = 2) {
    return write_checkpoint({scratch.checkpoints(), keep}, contents).error().message;
  };
  EXPECT_THAT(refusal({.run_id = "r"}, 1), HasSubstr("keep is 1, expected at least 2"));
  EXPECT_THAT(refusal({.run_id = "../r"}), HasSubstr("run id"));
  EXPECT_THAT(refusal({.run_id = "r", .learner_step = -1}), HasSubstr("learner step is -1"));
  EXPECT_THAT(refusal({.run_id = "r", .roles = {{"../replay", {}}}}), HasSubstr("../replay"));
  EXPECT_THAT(refusal({.run_id = "r", .roles = {{"counters", {}}}}), HasSubstr("role counters"));
  EXPECT_THAT(refusal({.run_id = "r", .roles = {{"a", {}}, {"a", {}}}}), HasSubstr("comes twice"));
  EXPECT_THAT(refusal({.run_id = "r", .counters = {{"a", 1}, {"a", 2}}}), HasSubstr("counter a comes twice"));
  EXPECT_FALSE(fs::exists(scratch.checkpoints()));
}

TEST(Checkpoint, AWriterKilledAtRandomMomentsLeavesTheLastGoodOne) {
  const ScratchDirectory scratch;
  const CheckpointWriteOptions options{scratch.checkpoints()};
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(write_sample(options, 0).ok());
  const auto duration = std::chrono::steady_clock::now() - start;  // disks differ: kills must hit inside of writes
  Rng rng(99);
  std::int64_t last = 0;
  for (int round = 0; round < 40; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (std::int64_t step = last + 1;; ++step) {
        if (!write_sample(options, step).ok()) _exit(1);
      }
    }
    std::this_thread::sleep_for(duration * (3 * rng.uniform()));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed before it was killed";
    const auto opened = open_newest_checkpoint(options.directory);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    ASSERT_TRUE(opened->rejected.empty()) << opened->rejected[0].reason;
    ASSERT_GE(opened->learner_step, last);
    expect_sample(*opened);
    last = opened->learner_step;
  }
  EXPECT_GT(last, 5) << "the writer hardly ever got anywhere: the test shows little";
}

}  // namespace
}  // namespace troupe::messages
