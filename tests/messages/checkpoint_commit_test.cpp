// The order of system calls in a commit, and a failure or a death at each of them. The program is linked with
// --wrap for the calls below, so that the library under test runs through the counters here.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include <troupe/messages/checkpoint_files.hpp>
#include <troupe/tests/messages/checkpoint_samples.hpp>

namespace {

/// Called before each wrapped call; returns 0 to go on or an errno to fail with.
std::function<int(const std::string& call, const std::string& file)> hook;

std::string file_of(int fd) {
  char path[4096];
  const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof(path));
  const std::string full(path, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return full.substr(full.rfind('/') + 1);
}

bool stopped(const std::string& call, const std::string& file) {
  if (!hook) return false;
  const int error = hook(call, file);
  errno = error;
  return error != 0;
}

}  // namespace

extern "C" {
int __real_fsync(int fd);
ssize_t __real_write(int fd, const void* data, size_t size);
int __real_rename(const char* old_path, const char* new_path);
int __real_renameat2(int from, const char* old_path, int to, const char* new_path, unsigned flags);

int __wrap_fsync(int fd) { return stopped("fsync", file_of(fd)) ? -1 : __real_fsync(fd); }
ssize_t __wrap_write(int fd, const void* data, size_t size) {
  return stopped("write", file_of(fd)) ? -1 : __real_write(fd, data, size);
}
int __wrap_rename(const char* old_path, const char* new_path) {
  return stopped("rename", std::filesystem::path(new_path).filename()) ? -1 : __real_rename(old_path, new_path);
}
int __wrap_renameat2(int from, const char* old_path, int to, const char* new_path, unsigned flags) {
  return stopped("exchange", std::filesystem::path(new_path).filename())
             ? -1
             : __real_renameat2(from, old_path, to, new_path, flags);
}
}

namespace troupe::messages {
namespace {

using testing::expect_sample;
using testing::ScratchDirectory;
using testing::write_sample;

struct HookGuard {
  ~HookGuard() { hook = nullptr; }
};

TEST(CheckpointCommit, FilesThenDirectoryThenRenameThenParent) {
  const ScratchDirectory scratch;
  const HookGuard guard;
  std::vector<std::string> calls;
  hook = [&](const std::string& call, const std::string& file) {
    const std::string entry = call + " " + file;
    if (calls.empty() || calls.back() != entry) calls.push_back(entry);  // several writes of a file in a row: one
    return 0;
  };
  ASSERT_TRUE(write_sample({scratch.checkpoints()}, 1).ok());
  EXPECT_THAT(calls, ::testing::ElementsAre(
                         "fsync " + scratch.path().filename().string(),  // the new directory `checkpoints` itself
                         "write tensors.safetensors", "fsync tensors.safetensors",  //
                         "write replay.chunks", "fsync replay.chunks",              //
                         "fsync env-actor.chunks",                                  // empty
                         "write counters.chunks", "fsync counters.chunks",          //
                         "write manifest.json", "fsync manifest.json",              //
                         "fsync .unfinished-step-000000001", "rename step-000000001", "fsync checkpoints"));
}

/// Number of wrapped calls of writing one checkpoint beside an earlier one.
int count_calls(const CheckpointWriteOptions& options, std::int64_t step) {
  int calls = 0;
  hook = [&](const std::string&, const std::string&) {
    ++calls;
    return 0;
  };
  EXPECT_TRUE(write_sample(options, step).ok());
  hook = nullptr;
  return calls;
}

TEST(CheckpointCommit, AFailureOfAnyCallIsReportedAndLeavesTheEarlierOne) {
  const ScratchDirectory scratch;
  const HookGuard guard;
  const CheckpointWriteOptions options{scratch.checkpoints()};
  ASSERT_TRUE(write_sample(options, 1).ok());
  const int total = count_calls(options, 2);
  ASSERT_GT(total, 10);
  for (int error : {EIO, ENOSPC}) {
    for (int failing = 1; failing <= total; ++failing) {
      int call_number = 0;
      std::string failed;
      hook = [&](const std::string& call, const std::string& file) {
        if (++call_number != failing) return 0;
        failed = call + " " + file;
        return error;
      };
      const auto written = write_sample(options, 3);
      hook = nullptr;
      ASSERT_FALSE(written.ok()) << failed;
      EXPECT_EQ(written.error().code, Code::kIo) << failed;
      EXPECT_THAT(written.error().message, ::testing::HasSubstr(failed.substr(0, failed.find(' '))));
      if (error == ENOSPC) {
        EXPECT_THAT(written.error().message, ::testing::HasSubstr("No space left"));
      }
      const OpenCheckpoint opened = open_newest_checkpoint(options.directory).value();
      expect_sample(opened);
      EXPECT_TRUE(opened.unknown.empty()) << "left behind: " << opened.unknown[0];
      // Only the last call, the fsync of the parent, comes after the rename.
      EXPECT_EQ(opened.learner_step, failing == total ? 3 : 2) << failed;
      std::filesystem::remove_all(options.directory + "/step-000000003");
    }
  }
}

TEST(CheckpointCommit, ADeathAtAnyCallLeavesAUsableOne) {
  const ScratchDirectory scratch;
  const HookGuard guard;
  const CheckpointWriteOptions options{scratch.checkpoints()};
  ASSERT_TRUE(write_sample(options, 1).ok());
  const int total = count_calls(options, 2);
  for (int dying = 1; dying <= total; ++dying) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int call_number = 0;
      hook = [&](const std::string&, const std::string&) {
        if (++call_number == dying) _exit(42);
        return 0;
      };
      (void)write_sample(options, 3);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(WEXITSTATUS(status), 42);
    const OpenCheckpoint opened = open_newest_checkpoint(options.directory).value();
    expect_sample(opened);
    EXPECT_TRUE(opened.rejected.empty());
    EXPECT_EQ(opened.learner_step, dying == total ? 3 : 2);
  }
  ASSERT_TRUE(write_sample(options, 4).ok()) << "what the dead writers left must not stop the next one";
  EXPECT_TRUE(open_newest_checkpoint(options.directory).value().unknown.empty());
}

// As NFS, CephFS and Lustre answer, and kernels that do not have the call.
class WithoutExchange : public ::testing::TestWithParam<int> {
 protected:
  static int answer(const std::string& call) { return call == "exchange" ? GetParam() : 0; }
};

TEST_P(WithoutExchange, CheckpointsAreWrittenAndReplaced) {
  const ScratchDirectory scratch;
  const HookGuard guard;
  const CheckpointWriteOptions options{scratch.checkpoints()};
  int exchanges = 0;
  hook = [&](const std::string& call, const std::string&) {
    exchanges += call == "exchange" ? 1 : 0;
    return answer(call);
  };
  ASSERT_TRUE(write_sample(options, 1).ok());
  EXPECT_EQ(exchanges, 0) << "a new name needs no exchange";
  for (int i = 0; i < 2; ++i) {
    const auto written = write_sample(options, 1);
    ASSERT_TRUE(written.ok()) << written.error().message;
    EXPECT_EQ(*written, options.directory + "/step-000000001");
    const OpenCheckpoint opened = open_newest_checkpoint(options.directory).value();
    expect_sample(opened);
    EXPECT_TRUE(opened.unknown.empty()) << "left behind: " << opened.unknown[0];
  }
  EXPECT_EQ(exchanges, 2);
}

TEST_P(WithoutExchange, ADeathAtAnyCallOfAReplacementLeavesOneOfTheTwo) {
  const ScratchDirectory scratch;
  const HookGuard guard;
  const CheckpointWriteOptions options{scratch.checkpoints()};
  ASSERT_TRUE(write_sample(options, 1).ok());
  ASSERT_TRUE(write_sample(options, 2).ok());
  int total = 0;
  hook = [&](const std::string& call, const std::string&) {
    ++total;
    return answer(call);
  };
  ASSERT_TRUE(write_sample(options, 2).ok());
  for (int dying = 1; dying <= total; ++dying) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int call_number = 0;
      hook = [&](const std::string& call, const std::string&) {
        if (++call_number == dying) _exit(42);
        return answer(call);
      };
      (void)write_sample(options, 2);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(WEXITSTATUS(status), 42);
    const OpenCheckpoint opened = open_newest_checkpoint(options.directory).value();
    expect_sample(opened);
    EXPECT_TRUE(opened.rejected.empty());
    EXPECT_EQ(opened.learner_step, 2) << "death at call " << dying << " of " << total;
    EXPECT_TRUE(verify_checkpoint(options.directory, "step-000000002").ok());
  }
  hook = [](const std::string& call, const std::string&) { return answer(call); };
  ASSERT_TRUE(write_sample(options, 2).ok()) << "what the dead writers left must not stop the next one";
  EXPECT_TRUE(open_newest_checkpoint(options.directory).value().unknown.empty());
}

TEST_P(WithoutExchange, AFailureOfAnyCallOfAReplacementLeavesOneOfTheTwo) {
  const ScratchDirectory scratch;
  const HookGuard guard;
  const CheckpointWriteOptions options{scratch.checkpoints()};
  ASSERT_TRUE(write_sample(options, 2).ok());
  int total = 0;
  hook = [&](const std::string& call, const std::string&) {
    ++total;
    return answer(call);
  };
  ASSERT_TRUE(write_sample(options, 2).ok());
  for (int failing = 1; failing <= total; ++failing) {
    int call_number = 0;
    std::string failed;
    hook = [&](const std::string& call, const std::string& file) {
      if (++call_number != failing) return answer(call);
      failed = call + " " + file;
      return EIO;
    };
    const auto written = write_sample(options, 2);
    hook = nullptr;
    ASSERT_FALSE(written.ok()) << failed;
    const OpenCheckpoint opened = open_newest_checkpoint(options.directory).value();
    expect_sample(opened);
    EXPECT_EQ(opened.learner_step, 2) << failed;
  }
}

INSTANTIATE_TEST_SUITE_P(Answers, WithoutExchange, ::testing::Values(EINVAL, ENOSYS, EOPNOTSUPP),
                         [](const auto& info) { return std::string(strerrorname_np(info.param)); });

TEST(CheckpointCommit, KeepsWhatItIsToldTo) {
  const ScratchDirectory scratch;
  const CheckpointWriteOptions options{scratch.checkpoints(), kKeepAll};
  for (std::int64_t step = 1; step <= 5; ++step) ASSERT_TRUE(write_sample(options, step).ok());
  std::filesystem::create_directory(options.directory + "/.unfinished-step-000000009");
  std::filesystem::create_directory(options.directory + "/mine");
  const std::vector<std::int64_t> kept = {2, 4, 7};
  keep_checkpoints(options.directory, kept);
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(options.directory)) {
    left.push_back(entry.path().filename());
  }
  EXPECT_THAT(left, ::testing::UnorderedElementsAre("step-000000002", "step-000000004", "mine"));
}

}  // namespace
}  // namespace troupe::messages
