// What the NCCL back end does when something fails, over a simulated NCCL and links in memory: every wait ends, with an
// error that says who and why, and the next epoch has right sums. After each test nothing of NCCL's or CUDA's is left,
// no thread is, and nobody but its owner has touched a communicator.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <net/if.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <thread>

#include <troupe/collectives/group_communicator.hpp>
#include <troupe/collectives/in_process.hpp>
#include <troupe/collectives/nccl.hpp>
#include <troupe/tests/collectives/memory_peers.hpp>
#include <troupe/tests/collectives/simulated_nccl/simulated_nccl.hpp>

namespace troupe::collectives {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

std::ptrdiff_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

bool says(const Error& error, const std::string& text) { return error.message.find(text) != std::string::npos; }

/// Members 0..size-1, with links between them and device i for member i.
class NcclFailures : public testing::Test {
 protected:
  void SetUp() override {
    simulated_nccl::reset();
    std::thread([] {}).join();  // a sanitizer's own thread comes with the first one
    threads_ = threads_of_this_process();
  }
  void TearDown() override {
    const simulated_nccl::Counts left = simulated_nccl::counts();
    EXPECT_EQ(left.communicators, 0);
    EXPECT_EQ(left.streams, 0);
    EXPECT_EQ(left.events, 0);
    EXPECT_EQ(left.foreign_calls, 0);
    EXPECT_EQ(left.misuses, 0);
    const auto end = steady_clock::now() + 2s;
    while (threads_of_this_process() > threads_ && steady_clock::now() < end) std::this_thread::sleep_for(1ms);
    EXPECT_LE(threads_of_this_process(), threads_);
  }

  /// One member's end, for the thread that owns it.
  struct Member {
    std::unique_ptr<Peers> peers;
    std::unique_ptr<Communicator> communicator;
  };
  Member make(std::uint32_t id, int device) {
    Member member{.peers = network_.join(id)};
    // No host is named, as between hosts; so the network is.
    auto made = make_nccl_communicator(make_group_communicator(*member.peers, id),
                                       {.device = device, .library = TROUPE_SIMULATED_NCCL, .interface = "lo"});
    EXPECT_TRUE(made.ok()) << made.error().message;
    member.communicator = std::move(*made);
    return member;
  }
  Member make(std::uint32_t id) { return make(id, static_cast<int>(id)); }

  static GroupView view_of(std::uint64_t epoch, std::uint32_t id, const std::vector<std::uint32_t>& ids) {
    GroupView view{.epoch = epoch, .size = static_cast<int>(ids.size())};
    for (std::size_t rank = 0; rank < ids.size(); ++rank) {
      if (ids[rank] == id) view.rank = static_cast<int>(rank);
      view.members.push_back({.id = ids[rank], .name = "member " + std::to_string(ids[rank])});
    }
    return view;
  }
  static Status form(Communicator& communicator, std::uint64_t epoch, std::uint32_t id,
                     const std::vector<std::uint32_t>& ids, Duration timeout = 20s) {
    return communicator.reform(view_of(epoch, id, ids), timeout);
  }
  /// Forms the next epoch and sees that it works.
  static void goes_on(Communicator& communicator, std::uint64_t epoch, std::uint32_t id,
                      const std::vector<std::uint32_t>& ids) {
    const Status formed = form(communicator, epoch, id, ids);
    ASSERT_TRUE(formed.ok()) << formed.error().message;
    sums(communicator);
  }
  static void sums(Communicator& communicator) {
    const auto size = static_cast<float>(communicator.view().size);
    std::vector<float> x(100, static_cast<float>(communicator.view().rank + 1));
    const Status status = communicator.all_reduce(x, ReduceOp::kSum, {.name = "sum", .timeout = 20s})->wait();
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(x, std::vector<float>(100, size * (size + 1) / 2));
  }

  /// body(id, its end) on one thread for each member.
  void run(std::uint32_t members, const std::function<void(std::uint32_t, Member&)>& body) {
    std::vector<std::thread> threads;
    for (std::uint32_t id = 0; id < members; ++id) {
      threads.emplace_back([&, id] {
        Member member = make(id);
        if (member.communicator) body(id, member);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  /// Until the call stands on the device and the device does not run it.
  static void until_it_waits(Work& work, int device) {
    const auto end = steady_clock::now() + 10s;
    while (simulated_nccl::waiting(device) == 0) {
      ASSERT_FALSE(work.done());
      ASSERT_LT(steady_clock::now(), end);
      std::this_thread::sleep_for(100us);
    }
  }

  MemoryNetwork network_;
  std::ptrdiff_t threads_ = 0;
};

TEST_F(NcclFailures, ARankThatDiesInACollectiveEndsItForTheOthersWhoGoOn) {
  run(3, [&](std::uint32_t id, Member& member) {
    Communicator& communicator = *member.communicator;
    ASSERT_NO_FATAL_FAILURE(goes_on(communicator, 1, id, {0, 1, 2}));
    if (id == 1) simulated_nccl::stop_device(1);
    std::vector<float> x(50, 1.0f);
    auto work = communicator.all_reduce(x, ReduceOp::kSum, {.name = "grad", .timeout = 20s});
    if (id == 1) {
      until_it_waits(*work, 1);
      network_.silence(1);
      simulated_nccl::kill_device(1, 50ms);
      return;
    }
    const auto start = steady_clock::now();
    const Status status = work->wait();
    EXPECT_LT(steady_clock::now() - start, 5s);  // 50 ms and a slow machine's scheduling
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kCancelled);
    EXPECT_TRUE(says(status.error(), "remote process exited")) << status.error().message;
    work.reset();
    goes_on(communicator, 2, id, {0, 2});
  });
}

TEST_F(NcclFailures, ARankThatFallsSilentIsNamedAtTheDeadline) {
  run(3, [&](std::uint32_t id, Member& member) {
    Communicator& communicator = *member.communicator;
    ASSERT_NO_FATAL_FAILURE(goes_on(communicator, 1, id, {0, 1, 2}));
    communicator.activity().begin_step(412);
    communicator.activity().enter("compute");
    if (id == 1) simulated_nccl::stop_device(1);
    std::vector<float> x(50, 1.0f);
    const auto start = steady_clock::now();
    auto work = communicator.all_reduce(x, ReduceOp::kSum, {.name = "grad", .timeout = 500ms});
    if (id == 1) {
      until_it_waits(*work, 1);
      network_.silence(1);
      return;
    }
    const Status status = work->wait();
    EXPECT_LT(steady_clock::now() - start, 3s);  // 1.1 s at most, and a slow machine's scheduling
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kDeadlineExceeded) << status.error().message;
    EXPECT_TRUE(says(status.error(), "step 412: ")) << status.error().message;
    EXPECT_TRUE(says(status.error(), "rank 1 (member 1) has not entered barrier(roll call); it does not answer for"))
        << status.error().message;
    EXPECT_EQ(communicator.activity().now().what, "compute");
    work.reset();
    goes_on(communicator, 2, id, {0, 2});
  });
}

TEST_F(NcclFailures, ADeviceThatHangsWhileItsProcessAnswersEndsAtTheDeadline) {
  run(2, [&](std::uint32_t id, Member& member) {
    Communicator& communicator = *member.communicator;
    ASSERT_NO_FATAL_FAILURE(goes_on(communicator, 1, id, {0, 1}));
    if (id == 1) simulated_nccl::stop_device(1);
    std::vector<float> x(50, 1.0f);
    const auto start = steady_clock::now();
    const Status status = communicator.all_reduce(x, ReduceOp::kSum, {.name = "grad", .timeout = 200ms})->wait();
    EXPECT_LT(steady_clock::now() - start, 3s);
    ASSERT_FALSE(status.ok());
    EXPECT_TRUE(epoch_is_over(status.error())) << status.error().message;
    EXPECT_TRUE(says(status.error(), "all_reduce(grad), which all ranks have entered, is not done on device") ||
                says(status.error(), "it is in all_reduce(grad)"))
        << status.error().message;
    simulated_nccl::start_device(1);
    goes_on(communicator, 2, id, {0, 1});
  });
}

TEST_F(NcclFailures, AMismatchIsNamedBeforeNcclHangsInIt) {
  run(3, [&](std::uint32_t id, Member& member) {
    Communicator& communicator = *member.communicator;
    ASSERT_NO_FATAL_FAILURE(goes_on(communicator, 1, id, {0, 1, 2}));
    std::vector<float> x(50, 1.0f);
    const auto start = steady_clock::now();
    const std::span<float> mine = std::span(x).first(id == 2 ? 20 : 50);
    const Status status = communicator.all_reduce(mine, ReduceOp::kSum, {.name = "grad", .timeout = 20s})->wait();
    EXPECT_LT(steady_clock::now() - start, 2s);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kShapeMismatch);
    EXPECT_TRUE(says(status.error(), "rank 2 calls all_reduce \"grad\" float32[20] sum")) << status.error().message;
    EXPECT_TRUE(says(status.error(), "calls all_reduce \"grad\" float32[50] sum")) << status.error().message;
    EXPECT_EQ(x, std::vector<float>(50, 1.0f)) << "no value is touched";
    EXPECT_EQ(simulated_nccl::waiting(static_cast<int>(id)), 0) << "NCCL has not been called";
    goes_on(communicator, 2, id, {0, 1, 2});
  });
}

/// Two ranks of which one's device does not run, so that both wait on their devices; then rank 0 is aborted from
/// outside.
class NcclAborts : public NcclFailures {
 protected:
  /// within: of abort() at the rank that is aborted.
  void abort_and_go_on(Duration within) {
    run(2, [&](std::uint32_t id, Member& member) {
      Communicator& communicator = *member.communicator;
      ASSERT_NO_FATAL_FAILURE(goes_on(communicator, 1, id, {0, 1}));
      if (id == 1) simulated_nccl::stop_device(1);
      std::vector<float> x(50, 1.0f);
      auto work = communicator.all_reduce(x, ReduceOp::kSum, {.name = "grad", .timeout = 20s});
      until_it_waits(*work, static_cast<int>(id));
      std::atomic<steady_clock::rep> aborted = 0;
      std::thread aborter;
      if (id == 0) {
        aborter = std::thread([&] {
          std::this_thread::sleep_for(50ms);
          aborted = steady_clock::now().time_since_epoch().count();
          communicator.abort("because");
        });
      }
      const Status status = work->wait();
      const auto ended = steady_clock::now();
      std::fill(x.begin(), x.end(), 7.0f);  // the buffer is the caller's again
      if (aborter.joinable()) {
        aborter.join();
        EXPECT_LT(ended - steady_clock::time_point(steady_clock::duration(aborted)), within);
      }
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code, Code::kCancelled);
      EXPECT_TRUE(says(status.error(), "rank 0 aborted: because")) << status.error().message;
      std::this_thread::sleep_for(20ms);
      if (id == 1) simulated_nccl::start_device(1);
      goes_on(communicator, 2, id, {0, 1});
      EXPECT_EQ(x, std::vector<float>(50, 7.0f)) << "the device wrote to a buffer that it had given back";
    });
  }
};

TEST_F(NcclAborts, FromAnotherThreadWithinMilliseconds) { abort_and_go_on(500ms); }  // 3 ms on a quiet machine

TEST_F(NcclAborts, WithoutRevoke) {
  simulated_nccl::refuse_revoke();
  abort_and_go_on(500ms);
}

TEST_F(NcclAborts, WhileADeviceDoesNotHearOfIt) {
  simulated_nccl::deafen_device(0);
  run(2, [&](std::uint32_t id, Member& member) {
    Communicator& communicator = *member.communicator;
    ASSERT_NO_FATAL_FAILURE(goes_on(communicator, 1, id, {0, 1}));
    if (id == 1) simulated_nccl::stop_device(1);
    std::vector<float> x(50, 1.0f);
    const auto start = steady_clock::now();
    const Status status = communicator.all_reduce(x, ReduceOp::kSum, {.name = "grad", .timeout = 200ms})->wait();
    EXPECT_LT(steady_clock::now() - start, 6s);  // 3 s at most, and a slow machine's scheduling
    ASSERT_FALSE(status.ok());
    if (id == 1) simulated_nccl::start_device(1);
    goes_on(communicator, 2, id, {0, 1});
  });
}

TEST_F(NcclFailures, AnInitThatNeverCompletesEndsAtItsDeadline) {
  simulated_nccl::stop_device(1);
  run(3, [&](std::uint32_t id, Member& member) {
    Communicator& communicator = *member.communicator;
    const auto start = steady_clock::now();
    const Status formed = form(communicator, 1, id, {0, 1, 2}, 400ms);
    EXPECT_LT(steady_clock::now() - start, 3s);
    ASSERT_FALSE(formed.ok());
    EXPECT_TRUE(epoch_is_over(formed.error())) << formed.error().message;
    EXPECT_TRUE(says(formed.error(), "ncclCommInitRankConfig")) << formed.error().message;
    std::vector<float> none;
    EXPECT_EQ(communicator.all_reduce(none, ReduceOp::kSum, {.name = "x"})->wait().error().message,
              formed.error().message);
    simulated_nccl::start_device(1);
    goes_on(communicator, 2, id, {0, 1, 2});
  });
}

TEST_F(NcclFailures, AnInitEndsWhenItIsAborted) {
  simulated_nccl::stop_device(1);
  run(2, [&](std::uint32_t id, Member& member) {
    Communicator& communicator = *member.communicator;
    std::thread aborter([&] {
      if (id == 1) return;
      std::this_thread::sleep_for(100ms);
      communicator.abort("because", 1);
    });
    const auto start = steady_clock::now();
    const Status formed = form(communicator, 1, id, {0, 1}, 20s);
    EXPECT_LT(steady_clock::now() - start, 5s);
    aborter.join();
    ASSERT_FALSE(formed.ok());
    EXPECT_EQ(formed.error().code, Code::kCancelled) << formed.error().message;
    simulated_nccl::start_device(1);
    goes_on(communicator, 2, id, {0, 1});
  });
}

TEST_F(NcclFailures, TwoRanksOnOneDeviceAreNamedToAll) {
  std::atomic<bool> moved = false;
  std::vector<std::thread> threads;
  for (std::uint32_t id = 0; id < 3; ++id) {
    threads.emplace_back([&, id] {
      const auto start = steady_clock::now();
      Member member = make(id, id == 2 ? 2 : 0);
      const Status formed = form(*member.communicator, 1, id, {0, 1, 2});
      EXPECT_LT(steady_clock::now() - start, 5s);
      ASSERT_FALSE(formed.ok());
      EXPECT_TRUE(says(formed.error(), "on device 0: ncclCommInitRankConfig: invalid usage")) << formed.error().message;
      EXPECT_TRUE(says(formed.error(), "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 0") ||
                  says(formed.error(), "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 0"))
          << formed.error().message;
      if (id == 1) {
        member.communicator.reset();
        member = make(1, 1);
        moved = true;
      }
      while (!moved) std::this_thread::sleep_for(1ms);
      goes_on(*member.communicator, 2, id, {0, 1, 2});
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(NcclFailures, OneRanksErrorOfNcclReachesThoseWhoseDevicesWait) {
  run(3, [&](std::uint32_t id, Member& member) {
    Communicator& communicator = *member.communicator;
    ASSERT_NO_FATAL_FAILURE(goes_on(communicator, 1, id, {0, 1, 2}));
    if (id == 1) simulated_nccl::refuse_next_collective(1);
    std::vector<float> x(50, 1.0f);
    const auto start = steady_clock::now();
    const Status status = communicator.all_reduce(x, ReduceOp::kMean, {.name = "grad", .timeout = 20s})->wait();
    EXPECT_LT(steady_clock::now() - start, 5s);  // 50 ms, and a slow machine's scheduling
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, id == 1 ? Code::kInternal : Code::kCancelled);
    EXPECT_TRUE(says(status.error(), "nccl: rank 1 on device 1: all_reduce(grad): unhandled system error"))
        << status.error().message;
    goes_on(communicator, 2, id, {0, 1, 2});
  });
}

TEST_F(NcclFailures, ARankThatIsDoneMayLeaveWhileAnotherIsNot) {
  std::atomic<bool> left = false;
  run(2, [&](std::uint32_t id, Member& member) {
    Communicator& communicator = *member.communicator;
    ASSERT_NO_FATAL_FAILURE(goes_on(communicator, 1, id, {0, 1}));
    std::vector<float> x(50, static_cast<float>(id));
    auto work = communicator.all_reduce(x, ReduceOp::kSum, {.name = "last", .timeout = 20s});
    if (id == 0) {
      ASSERT_TRUE(work->wait().ok());
      work.reset();
      member.communicator.reset();
      left = true;
      return;
    }
    const int before = simulated_nccl::collectives();
    while (simulated_nccl::waiting(1) == 0 && simulated_nccl::collectives() == before) {
      if (work->done()) break;
    }
    while (!left) std::this_thread::sleep_for(1ms);
    const Status status = work->wait();
    EXPECT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(x, std::vector<float>(50, 1.0f));
  });
}

TEST_F(NcclFailures, AShortDeadlineEndsAWaitBehindALongOne) {
  run(2, [&](std::uint32_t id, Member& member) {
    Communicator& communicator = *member.communicator;
    ASSERT_NO_FATAL_FAILURE(goes_on(communicator, 1, id, {0, 1}));
    if (id == 1) {
      std::this_thread::sleep_for(1s);
      return;
    }
    std::vector<float> x(50);
    std::vector<float> y(50);
    const auto start = steady_clock::now();
    auto first = communicator.all_reduce(x, ReduceOp::kSum, {.name = "first", .timeout = 20s});
    auto second = communicator.all_reduce(y, ReduceOp::kSum, {.name = "second", .timeout = 100ms});
    const Status status = second->wait();
    EXPECT_LT(steady_clock::now() - start, 3s);
    ASSERT_FALSE(status.ok());
    EXPECT_TRUE(epoch_is_over(status.error()));
    EXPECT_TRUE(says(status.error(), "rank 1 (member 1) has not entered all_reduce(first)")) << status.error().message;
  });
}

TEST_F(NcclFailures, ValuesOfWeight0AreUnreadWhateverDeviceTheThreadHasChosen) {
  run(2, [&](std::uint32_t id, Member& member) {
    Communicator& communicator = *member.communicator;
    ASSERT_NO_FATAL_FAILURE(goes_on(communicator, 1, id, {0, 1}));
    ASSERT_EQ(cudaSetDevice(7), cudaSuccess);
    std::vector<float> x(50, id == 0 ? std::numeric_limits<float>::quiet_NaN() : 3.0f);
    const Status status =
        communicator.all_reduce(x, ReduceOp::kMean, {.name = "x", .weight = static_cast<double>(id)})->wait();
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(x, std::vector<float>(50, 3.0f));
    EXPECT_EQ(simulated_nccl::counts().operators, 0);
  });
}

class NcclNetwork : public NcclFailures {
 protected:
  static Result<std::unique_ptr<Communicator>> make_over(InProcessHub& hub, const std::string& interface) {
    return make_nccl_communicator(hub.make(), {.library = TROUPE_SIMULATED_NCCL, .interface = interface});
  }
  /// An interface of this host that is not loopback, or nothing.
  static std::string other_interface() {
    std::string name;
    struct if_nameindex* all = if_nameindex();
    for (const struct if_nameindex* one = all; one && one->if_name && name.empty(); ++one) {
      if (std::string(one->if_name) != "lo") name = one->if_name;
    }
    if_freenameindex(all);
    return name;
  }
};

TEST_F(NcclNetwork, MustBeNamedBetweenHosts) {
  InProcessHub hub;
  auto made = make_over(hub, "");
  ASSERT_TRUE(made.ok()) << made.error().message;
  Communicator& communicator = **made;
  GroupView view{.epoch = 1, .rank = 0, .size = 2, .members = {{.id = 0, .host = "a"}, {.id = 1, .host = "b"}}};
  const Status refused = communicator.reform(view, 100ms);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(says(refused.error(), "rank 0 is on host \"a\" and rank 1 on host \"b\"")) << refused.error().message;
  EXPECT_TRUE(says(refused.error(), "NcclOptions::interface")) << refused.error().message;
  EXPECT_EQ(communicator.view().size, 0) << "nothing changed";
  view.members = {{.id = 0}, {.id = 1}};
  EXPECT_EQ(communicator.reform(view, 100ms).error().code, Code::kInvalidArgument) << "nobody says where they are";
  view.members = {{.id = 0, .host = "a"}, {.id = 1, .host = "a"}};
  EXPECT_EQ(communicator.reform(view, 100ms).error().code, Code::kDeadlineExceeded)
      << "one host: only rank 1 is missing";
}

TEST_F(NcclNetwork, MustBeOneOfThisHostAndOneOfThisProcess) {
  InProcessHub hub;
  const auto unknown = make_over(hub, "nowhere0");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(says(unknown.error(), "interface is \"nowhere0\", expected one of this host's: "))
      << unknown.error().message;
  EXPECT_TRUE(says(unknown.error(), "lo")) << unknown.error().message;
  ASSERT_TRUE(make_over(hub, "lo").ok());
  ASSERT_TRUE(make_over(hub, "").ok()) << "the same";
  const std::string other = other_interface();
  if (other.empty()) GTEST_SKIP() << "this host has no interface besides loopback";
  const auto second = make_over(hub, other);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(says(second.error(), "confined to that before")) << second.error().message;
}

using NcclNetworkDeathTest = NcclNetwork;

/// In a process that has not chosen yet.
#define EXPECT_TRUE_IN_A_NEW_PROCESS(...)         \
  GTEST_FLAG_SET(death_test_style, "threadsafe"); \
  EXPECT_EXIT(std::_Exit((__VA_ARGS__)() ? 0 : 1), testing::ExitedWithCode(0), "")

TEST_F(NcclNetworkDeathTest, IsLoopbackUnlessItIsNamed) {
  EXPECT_TRUE_IN_A_NEW_PROCESS([] {
    setenv("NCCL_SOCKET_IFNAME", "eth0", 1);
    InProcessHub hub;
    auto made = make_over(hub, "");
    return made.ok() && (*made)->reform({.epoch = 1}, 20s).ok() && simulated_nccl::interface() == "=lo" &&
           std::string(std::getenv("NCCL_RAS_ENABLE")) == "0" && std::string(std::getenv("NCCL_IB_DISABLE")) == "1";
  });
}

TEST_F(NcclNetworkDeathTest, IsTheNamedOneFromTheFirstCommunicatorOn) {
  const std::string other = other_interface();
  if (other.empty()) GTEST_SKIP() << "this host has no interface besides loopback";
  EXPECT_TRUE_IN_A_NEW_PROCESS([&] {
    unsetenv("NCCL_IB_DISABLE");
    setenv("NCCL_COMM_ID", "10.0.0.1:1234", 1);
    InProcessHub hub;
    auto made = make_over(hub, other);
    return made.ok() && (*made)->reform({.epoch = 1}, 20s).ok() && simulated_nccl::interface() == "=" + other &&
           !std::getenv("NCCL_COMM_ID") && !std::getenv("NCCL_IB_DISABLE");
  });
}

}  // namespace
}  // namespace troupe::collectives
