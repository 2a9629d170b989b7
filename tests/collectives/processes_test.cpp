// Shared memory between real processes: ranks are forked, one of them is killed or stopped. Children talk to the test
// by a piece of memory and end with _exit; every wait has a deadline, so a hang is a failed test and not a stuck one.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <troupe/collectives/reduce.hpp>
#include <troupe/collectives/shareable_memory.hpp>
#include <troupe/collectives/shared_memory.hpp>

namespace troupe::collectives {
namespace {

using namespace std::chrono_literals;

constexpr int kMostRanks = 4;

/// What the processes of a test share. Zero bytes to begin with.
struct Board {
  struct Rank {
    std::atomic<int> calls;  // that it has completed
    std::atomic<int> code;   // 1 + Code of its first failure
    std::array<char, 500> message;
    std::atomic<std::uint64_t> result;  // of the last call, whatever the body makes of it
  };
  std::array<Rank, kMostRanks> ranks;
  std::array<std::atomic<int>, 8> has_ticket;  // by epoch
  std::array<std::array<char, 128>, 8> ticket;
};

/// A rank's values: of its own, which are copied, or where the others can take them.
class Values {
 public:
  Values(std::size_t count, float value, bool shareable)
      : shareable_(make_shareable(shareable ? count * sizeof(float) : 0)),
        own_(shareable ? 0 : count),
        all_(shareable ? std::span(reinterpret_cast<float*>(shareable_.get()), count) : std::span(own_)) {
    std::ranges::fill(all_, value);
  }
  std::span<float> all() { return all_; }

 private:
  ShareableArray shareable_;
  std::vector<float> own_;
  std::span<float> all_;
};

class GroupOfProcesses : public testing::Test {
 protected:
  using Body = std::function<void(int rank, Communicator&, Board::Rank& mine)>;

  void SetUp() override {
    void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    board_ = static_cast<Board*>(memory);
  }
  void TearDown() override {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    munmap(board_, sizeof(Board));
  }

  std::unique_ptr<Communicator> make() {
    return make_shared_memory_communicator(
        [this](const GroupView& view, std::string mine, auto deadline) -> Result<std::string> {
          auto& ticket = board_->ticket[view.epoch];
          if (view.rank == 0) {
            std::memcpy(ticket.data(), mine.c_str(), mine.size() + 1);
            board_->has_ticket[view.epoch] = 1;
          }
          while (board_->has_ticket[view.epoch] == 0) {
            if (std::chrono::steady_clock::now() > deadline) return Error{Code::kDeadlineExceeded, "no ticket"};
            std::this_thread::sleep_for(1ms);
          }
          return std::string(ticket.data());
        });
  }

  /// One process for each rank; each joins epoch 1 and runs the body.
  void start(int ranks, const Body& body) {
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        Board::Rank& mine = board_->ranks[static_cast<std::size_t>(rank)];
        const auto communicator = make();
        keep(communicator->reform({.epoch = 1, .rank = rank, .size = ranks}, 10s), mine);
        if (mine.code == 0) body(rank, *communicator, mine);
        _exit(0);
      }
      children_.push_back(child);
    }
  }
  static bool keep(const Status& status, Board::Rank& mine) {
    if (status.ok()) return true;
    std::strncpy(mine.message.data(), status.error().message.c_str(), mine.message.size() - 1);
    mine.code = 1 + static_cast<int>(status.error().code);
    return false;
  }
  bool await(const std::function<bool()>& condition, Duration timeout = 20s) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }
  /// All-reduces until the test says by has_ticket[7] that a member is gone: what a node does then is to abort the
  /// epoch from a thread of its own.
  void call_until_told(Communicator& communicator, std::span<float> values, ReduceOp op, const char* what,
                       Board::Rank& mine) {
    std::thread node([&] {
      while (board_->has_ticket[7] == 0) std::this_thread::sleep_for(1ms);
      communicator.abort(what, 1);
    });
    while (keep(communicator.all_reduce(values, op, {.name = "x", .timeout = 20s})->wait(), mine)) ++mine.calls;
    node.join();
  }
  void await_end(std::size_t rank) {
    ASSERT_TRUE(await([&] { return waitpid(children_[rank], nullptr, WNOHANG) == children_[rank]; })) << rank;
    children_[rank] = 0x7fffffff;  // nobody
  }

  Board* board_ = nullptr;
  std::vector<pid_t> children_;
};

/// The parameter: whether values lie in shareable memory.
class SharedMemoryProcesses : public GroupOfProcesses, public testing::WithParamInterface<bool> {};

/// What a rank's values lie in cannot be opened by the others.
class SharedMemoryRefusals : public GroupOfProcesses {
 protected:
  static void close_shareable_files() {
    for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const std::string path = std::filesystem::read_symlink(file.path(), error).string();
      if (!error && path.starts_with("/memfd:troupe-values")) close(std::stoi(file.path().filename().string()));
    }
  }
};

TEST_P(SharedMemoryProcesses, GiveEveryRankTheBitsOfTheTree) {
  constexpr std::size_t kSizes[] = {1, 1000, 300'001};  // one step, three steps, and more chunks than buffers
  const auto value = [](int rank, std::size_t i) { return 1.0f / static_cast<float>(3 + rank + i % 977); };
  start(3, [&](int rank, Communicator& communicator, Board::Rank& mine) {
    for (const std::size_t size : kSizes) {
      std::vector<std::vector<float>> inputs(3, std::vector<float>(size));
      for (int r = 0; r < 3; ++r) {
        for (std::size_t i = 0; i < size; ++i) inputs[static_cast<std::size_t>(r)][i] = value(r, i);
      }
      std::vector<float> wanted(size);
      reduce(std::array<const float*, 3>{inputs[0].data(), inputs[1].data(), inputs[2].data()},
             std::array<double, 3>{1, 2, 3}, ReduceOp::kMean, size, wanted.data());
      Values own(size, 0, GetParam());
      std::ranges::copy(inputs[static_cast<std::size_t>(rank)], own.all().begin());
      if (!keep(communicator.all_reduce(own.all(), ReduceOp::kMean, {.name = "x", .weight = 1.0 + rank})->wait(),
                mine)) {
        return;
      }
      if (std::ranges::equal(own.all(), wanted)) ++mine.calls;
      std::ranges::fill(own.all(), static_cast<float>(rank));
      if (!keep(communicator.broadcast(own.all(), 2, {.name = "y"})->wait(), mine)) return;
      if (std::ranges::count(own.all(), 2.0f) == std::ssize(own.all())) ++mine.calls;
    }
    (void)communicator.barrier({.name = "end"})->wait();
  });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    await_end(rank);
    EXPECT_EQ(board_->ranks[rank].calls, 6) << board_->ranks[rank].message.data();
  }
}

TEST_P(SharedMemoryProcesses, GoOnWithoutARankThatWasKilled) {
  start(3, [&](int rank, Communicator& communicator, Board::Rank& mine) {
    Values x(100'000, 1.0f, GetParam());
    call_until_told(communicator, x.all(), ReduceOp::kMax, "a member died", mine);
    const Status reformed = communicator.reform({.epoch = 2, .rank = rank == 0 ? 0 : 1, .size = 2}, 10s);
    std::ranges::fill(x.all(), 1.0f);
    if (reformed.ok() && communicator.all_reduce(x.all(), ReduceOp::kSum, {.name = "y"})->wait().ok()) {
      mine.result = static_cast<std::uint64_t>(std::ranges::count(x.all(), 2.0f));
    }
    (void)communicator.barrier({.name = "end"})->wait();
  });
  ASSERT_TRUE(await([&] { return board_->ranks[1].calls > 20; })) << board_->ranks[1].message.data();
  kill(children_[1], SIGKILL);
  await_end(1);
  const auto killed = std::chrono::steady_clock::now();
  board_->has_ticket[7] = 1;  // the word that a member died
  for (const std::size_t rank : {0U, 2U}) {
    await_end(rank);
    EXPECT_EQ(board_->ranks[rank].code, 1 + static_cast<int>(Code::kCancelled)) << board_->ranks[rank].message.data();
    EXPECT_NE(std::string(board_->ranks[rank].message.data()).find("a member died"), std::string::npos);
    EXPECT_EQ(board_->ranks[rank].result, 100'000U) << "the two that are left work together";
  }
  EXPECT_LT(std::chrono::steady_clock::now() - killed, 5s);  // milliseconds, and a slow machine's scheduling
}

TEST_P(SharedMemoryProcesses, NameARankThatIsStoppedAtTheDeadline) {
  start(2, [&](int rank, Communicator& communicator, Board::Rank& mine) {
    Values x(100'000, 1.0f, GetParam());
    const auto timeout = rank == 0 ? Duration(300ms) : Duration(20s);
    for (;;) {
      communicator.activity().begin_step(mine.calls);
      communicator.activity().enter("input_fn");
      std::this_thread::sleep_for(1ms);
      const Status status = communicator.all_reduce(x.all(), ReduceOp::kMax, {.name = "x", .timeout = timeout})->wait();
      if (!keep(status, mine)) return;
      ++mine.calls;
    }
  });
  ASSERT_TRUE(await([&] { return board_->ranks[0].calls > 10; }));
  kill(children_[1], SIGSTOP);
  await_end(0);
  EXPECT_EQ(board_->ranks[0].code, 1 + static_cast<int>(Code::kDeadlineExceeded));
  const std::string message = board_->ranks[0].message.data();
  EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
  EXPECT_NE(message.find("all_reduce(x)"), std::string::npos) << message;
  kill(children_[1], SIGCONT);  // comes back to a group that is broken, and gets the same answer
  await_end(1);
  EXPECT_EQ(std::string(board_->ranks[1].message.data()), message);
}

// Wherever it was stopped, in a call or between two: what it still writes when it comes back reaches nobody.
TEST_P(SharedMemoryProcesses, KeepTheirValuesFromARankThatWasStopped) {
  constexpr std::size_t kCount = 1'000'000;
  constexpr int kTries = 6;
  for (int turn = 0; turn < kTries; ++turn) {
    SCOPED_TRACE(turn);
    start(3, [&](int rank, Communicator& communicator, Board::Rank& mine) {
      Values x(kCount, 1e38f, GetParam());  // soon infinite, which nothing that is done later makes good
      call_until_told(communicator, x.all(), ReduceOp::kSum, "a member was stopped", mine);
      if (rank == 1) return;  // the one that was stopped
      if (!communicator.reform({.epoch = 2, .rank = rank / 2, .size = 2}, 10s).ok()) return;
      mine.result = 1;
      while (board_->has_ticket[6] == 0) {
        std::ranges::fill(x.all(), 3.0f);
        if (!communicator.all_reduce(x.all(), ReduceOp::kSum, {.name = "y"})->wait().ok()) return;
        if (std::ranges::count(x.all(), 6.0f) != static_cast<std::ptrdiff_t>(kCount)) mine.result = 1000;
        // All leave in the same turn.
        float ends = rank == 0 && board_->ranks[0].result >= 10 ? 1.0f : 0.0f;
        if (!communicator.all_reduce({&ends, 1}, ReduceOp::kSum, {.name = "ends"})->wait().ok()) return;
        if (ends != 0) return;
        ++mine.result;
      }
    });
    ASSERT_TRUE(await([&] { return board_->ranks[1].calls > 20; })) << board_->ranks[1].message.data();
    std::this_thread::sleep_for(std::chrono::microseconds(700 * turn));
    kill(children_[1], SIGSTOP);
    board_->has_ticket[7] = 1;
    ASSERT_TRUE(await([&] { return board_->ranks[2].result > 2; })) << board_->ranks[2].message.data();
    kill(children_[1], SIGCONT);
    for (const std::size_t rank : {1U, 0U, 2U}) await_end(rank);
    for (const std::size_t rank : {0U, 2U}) {
      EXPECT_GE(board_->ranks[rank].result, 9U);
      EXPECT_LT(board_->ranks[rank].result, 1000U) << "another's values stood in them";
    }
    std::memset(static_cast<void*>(board_), 0, sizeof(Board));
    children_.clear();
  }
}

TEST_F(SharedMemoryRefusals, LetAllRanksCopy) {
  start(3, [&](int rank, Communicator& communicator, Board::Rank& mine) {
    Values x(50'000, 1.0f + static_cast<float>(rank), true);
    if (rank == 1) close_shareable_files();
    for (int i = 0; i < 3; ++i) {
      if (!keep(communicator.all_reduce(x.all(), ReduceOp::kMax, {.name = "x"})->wait(), mine)) return;
      if (std::ranges::count(x.all(), 3.0f) == std::ssize(x.all())) ++mine.calls;
    }
    (void)communicator.barrier({.name = "end"})->wait();
  });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    await_end(rank);
    EXPECT_EQ(board_->ranks[rank].calls, 3) << board_->ranks[rank].message.data();
  }
}

INSTANTIATE_TEST_SUITE_P(Values, SharedMemoryProcesses, testing::Bool(),
                         [](const auto& info) { return info.param ? "Shareable" : "Own"; });

TEST(SharedMemoryTicket, IsRefusedWhenItLeadsToNoGroup) {
  const auto reform_with = [](const std::string& ticket) {
    const auto communicator = make_shared_memory_communicator(
        [&](const GroupView&, std::string, auto) -> Result<std::string> { return ticket; });
    return communicator->reform({.epoch = 1, .rank = 1, .size = 2}, 1s);
  };
  EXPECT_EQ(reform_with("1 2 3 no ticket").error().code, Code::kCorrupt);
  EXPECT_EQ(reform_with("999999999 3 4096 5").error().code, Code::kUnavailable);  // no such process
  const int other = memfd_create("other", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(other, 4096), 0);
  EXPECT_EQ(reform_with(std::to_string(getpid()) + " " + std::to_string(other) + " 4096 5").error().code,
            Code::kCorrupt);
  close(other);
}

}  // namespace
}  // namespace troupe::collectives
