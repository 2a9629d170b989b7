// The shell, the supervisor and the runtime with small roles: most tests run in virtual time on one thread, a few on
// real threads with the same roles.
#include <troupe/actors/control/runtime.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <troupe/actors/runtime/protocol.hpp>

#include <troupe/tests/actors/test_roles.hpp>

namespace troupe::actors {
namespace {

using testing::Collected;
using testing::counting;
using testing::factory;
using ::testing::HasSubstr;
using testing::never;
using testing::number_frame;
using testing::number_of;

std::unique_ptr<Runtime> make(Topology topology, RuntimeOptions options) {
  return Runtime::make(std::move(topology), std::move(options)).value();
}

class BothModes : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, BothModes, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "VirtualTime" : "Threads"; });

TEST_P(BothModes, AStreamDeliversEverythingOnceAndInOrder) {
  auto collected = std::make_shared<Collected>();
  auto runtime = make(counting(3, 200, 4, collected), {.deterministic = GetParam()});
  EXPECT_EQ(runtime->run(never).value(), Runtime::Ended::kComplete);
  runtime.reset();
  std::sort(collected->numbers.begin(), collected->numbers.end());
  ASSERT_EQ(collected->numbers.size(), 600u);
  for (std::size_t i = 0; i < 600; ++i) EXPECT_EQ(collected->numbers[i], static_cast<std::int64_t>(i / 3));
}

TEST(Runtime, TwoDeterministicRunsTakeTheSameSteps) {
  std::vector<std::int64_t> runs[2];
  Duration ends[2];
  for (int i = 0; i < 2; ++i) {
    auto collected = std::make_shared<Collected>();
    auto runtime = make(counting(3, 100, 2, collected), {.deterministic = true});
    ASSERT_TRUE(runtime->run(never).ok());
    ends[i] = runtime->clock().now();
    runs[i] = collected->numbers;
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(ends[0], ends[1]);
}

/// Holds frames without taking them until told.
class Holder final : public Role {
 public:
  explicit Holder(std::shared_ptr<std::int64_t> steps) : steps_(std::move(steps)) {}
  Result<Progress> step(RoleContext&) override {
    ++*steps_;
    return Progress::kIdle;
  }

 private:
  std::shared_ptr<std::int64_t> steps_;
};

TEST(Runtime, AProducerStopsAtTheChannelsCapacity) {
  auto collected = std::make_shared<Collected>();
  auto received = std::make_shared<std::int64_t>(0);
  Topology topology = counting(2, 1000, 5, collected);
  topology.roles[1].make = factory([&](const RoleIdentity&) { return std::make_unique<Holder>(received); });
  auto runtime = make(std::move(topology), {.deterministic = true});
  const auto ended = runtime->run(never);
  ASSERT_FALSE(ended.ok());
  EXPECT_THAT(ended.error().message, HasSubstr("standstill: every role waits"));
  // One call at the start, then one for each frame: 2 producers x 5.
  EXPECT_EQ(*received, 1 + 2 * 5);
}

TEST(Runtime, ALatestChannelKeepsOnlyTheNewest) {
  auto collected = std::make_shared<Collected>();
  Topology topology = counting(1, 1000, 1, collected, ChannelKind::kLatest);
  topology.roles[0].completes_run = true;
  topology.roles[1].completes_run = false;
  auto runtime = make(std::move(topology), {.deterministic = true});
  ASSERT_TRUE(runtime->run(never).ok());
  runtime.reset();
  ASSERT_FALSE(collected->numbers.empty());
  EXPECT_TRUE(std::is_sorted(collected->numbers.begin(), collected->numbers.end()));
  EXPECT_LE(collected->numbers.size(), 1000u);
}

// ---- one consumer or one producer of several
// -----------------------------------------------------------------------------------

/// Deals 0 .. limit-1 to its consumers, number n to consumer n % consumers(), as far as each of them has room.
class Dealer final : public Role {
 public:
  explicit Dealer(std::int64_t limit) : limit_(limit) {}
  Result<Progress> step(RoleContext& context) override {
    Outlet& out = context.out("numbers");
    next_.resize(out.consumers());
    bool all = true;
    for (std::size_t c = 0; c < next_.size(); ++c) {
      const std::int64_t number = next_[c] * static_cast<std::int64_t>(next_.size()) + static_cast<std::int64_t>(c);
      if (number >= limit_) continue;
      all = false;
      if (!out.ready(c)) continue;
      out.send_to(c, number_frame(context.pool(), number));
      ++next_[c];
      return Progress::kMore;
    }
    return all ? Progress::kDone : Progress::kIdle;
  }

 private:
  std::int64_t limit_;
  std::vector<std::int64_t> next_;  ///< how many each has been sent
};

Topology dealing(std::int64_t numbers, std::int64_t consumers, ChannelKind kind,
                 std::vector<std::shared_ptr<Collected>> collected) {
  Topology topology = counting(1, numbers, 2, nullptr, kind);
  topology.roles[0].make = factory([=](const RoleIdentity&) { return std::make_unique<Dealer>(numbers); });
  topology.roles[1].count = consumers;
  topology.roles[1].make = factory([=](const RoleIdentity& identity) -> std::unique_ptr<Role> {
    // Without a place to collect in, an instance that never takes a frame.
    const auto& own = collected[static_cast<std::size_t>(identity.index)];
    if (!own) return std::make_unique<Holder>(std::make_shared<std::int64_t>(0));
    return std::make_unique<testing::Collector>(numbers / consumers, own);
  });
  return topology;
}

TEST_P(BothModes, AFrameSentToOneConsumerReachesThatOneAlone) {
  std::vector<std::shared_ptr<Collected>> collected(3);
  for (auto& each : collected) each = std::make_shared<Collected>();
  auto runtime = make(dealing(300, 3, ChannelKind::kStream, collected), {.deterministic = GetParam()});
  EXPECT_EQ(runtime->run(never).value(), Runtime::Ended::kComplete);
  runtime.reset();
  for (std::size_t c = 0; c < 3; ++c) {
    ASSERT_EQ(collected[c]->numbers.size(), 100u);
    for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(collected[c]->numbers[i], static_cast<std::int64_t>(3 * i + c));
  }
}

TEST(Runtime, AFullConsumerIsNotReadyWhileItsNeighbourIs) {
  std::vector<std::shared_ptr<Collected>> collected = {nullptr, std::make_shared<Collected>()};
  auto runtime = make(dealing(100, 2, ChannelKind::kStream, collected), {.deterministic = true});
  EXPECT_THAT(runtime->run(never).error().message, HasSubstr("standstill"));
  runtime.reset();
  EXPECT_EQ(collected[1]->numbers.size(), 50u);
}

TEST(Runtime, OnALatestChannelEachConsumerHasANewestOfItsOwn) {
  std::vector<std::shared_ptr<Collected>> collected(2);
  for (auto& each : collected) each = std::make_shared<Collected>();
  Topology topology = dealing(200, 2, ChannelKind::kLatest, collected);
  topology.roles[0].completes_run = true;
  topology.roles[1].completes_run = false;
  auto runtime = make(std::move(topology), {.deterministic = true});
  ASSERT_TRUE(runtime->run(never).ok());
  runtime.reset();
  for (std::int64_t c = 0; c < 2; ++c) {
    const auto& numbers = collected[static_cast<std::size_t>(c)]->numbers;
    ASSERT_FALSE(numbers.empty());
    for (std::int64_t number : numbers) EXPECT_EQ(number % 2, c);
  }
}

/// Takes everything of producer 1 before anything of producer 0; done after `limit` numbers.
class Choosy final : public Role {
 public:
  Choosy(std::int64_t limit, std::shared_ptr<Collected> collected) : limit_(limit), collected_(std::move(collected)) {}
  Result<Progress> step(RoleContext& context) override {
    Inlet& in = context.in("numbers");
    const auto taken = static_cast<std::int64_t>(collected_->numbers.size());
    if (taken == limit_) return Progress::kDone;
    const std::size_t wanted = taken < limit_ / 2 ? 1 : 0;
    const Frame* next = in.peek(wanted);
    if (next == nullptr) return Progress::kIdle;
    const std::int64_t seen = number_of(*next);
    collected_->numbers.push_back(number_of(in.take(wanted)));
    EXPECT_EQ(collected_->numbers.back(), seen);
    return Progress::kMore;
  }

 private:
  std::int64_t limit_;
  std::shared_ptr<Collected> collected_;
};

/// Counter `index` sends numbers from index * 1000 on.
RoleFactory counters_from(std::int64_t numbers) {
  class From final : public Role {
   public:
    From(std::int64_t first, std::int64_t end) : next_(first), end_(end) {}
    Result<Progress> step(RoleContext& context) override {
      if (next_ == end_) return Progress::kDone;
      if (!context.out("numbers").ready()) return Progress::kIdle;
      context.out("numbers").send(number_frame(context.pool(), next_++));
      return Progress::kMore;
    }

   private:
    std::int64_t next_, end_;
  };
  return factory([numbers](const RoleIdentity& identity) {
    return std::make_unique<From>(identity.index * 1000, identity.index * 1000 + numbers);
  });
}

TEST_P(BothModes, FramesOfOneProducerCanBeTakenWhileThoseOfAnotherWait) {
  auto collected = std::make_shared<Collected>();
  Topology topology = counting(2, 50, 3, collected);
  topology.roles[0].make = counters_from(50);
  topology.roles[1].make = factory([=](const RoleIdentity&) { return std::make_unique<Choosy>(100, collected); });
  auto runtime = make(std::move(topology), {.deterministic = GetParam()});
  EXPECT_EQ(runtime->run(never).value(), Runtime::Ended::kComplete);
  runtime.reset();
  ASSERT_EQ(collected->numbers.size(), 100u);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(collected->numbers[i], static_cast<std::int64_t>(i < 50 ? 1000 + i : i - 50));
  }
}

TEST(Runtime, ALatestChannelKeepsTheNewestOfEveryProducer) {
  auto collected = std::make_shared<Collected>();
  Topology topology = counting(2, 100, 1, collected, ChannelKind::kLatest);
  topology.roles[0].make = counters_from(100);
  auto runtime = make(std::move(topology), {.deterministic = true});
  // The collector waits for more than the newest ones, so the run ends in a standstill.
  EXPECT_THAT(runtime->run(never).error().message, HasSubstr("standstill"));
  runtime.reset();
  EXPECT_THAT(collected->numbers, ::testing::Contains(99));
  EXPECT_THAT(collected->numbers, ::testing::Contains(1099));
}

/// Fails once its count of numbers reaches `fail_at`, in every incarnation up to `failures`.
class Crasher final : public Role {
 public:
  Crasher(std::int64_t fail_at, bool fails, bool throws) : fail_at_(fail_at), fails_(fails), throws_(throws) {}
  Result<Progress> step(RoleContext& context) override {
    if (fails_ && next_ == fail_at_) {
      if (throws_) throw std::runtime_error("the environment exploded");
      return Error{Code::kInternal, "the environment exploded"};
    }
    if (!context.out("numbers").ready()) return Progress::kIdle;
    context.out("numbers").send(number_frame(context.pool(), next_++));
    return Progress::kMore;
  }

 private:
  std::int64_t fail_at_;
  bool fails_, throws_;
  std::int64_t next_ = 0;
};

Topology crashing(int failures, int max_restarts, bool throws, std::shared_ptr<Collected> collected) {
  Topology topology = counting(1, 50, 4, std::move(collected));
  topology.roles[0].make = factory([=](const RoleIdentity& identity) {
    return std::make_unique<Crasher>(10, identity.incarnation < failures, throws);
  });
  topology.roles[0].restart.max_restarts = max_restarts;
  return topology;
}

TEST_P(BothModes, ACrashedInstanceIsRestartedWithBackOffAndTheRunGoesOn) {
  for (bool throws : {false, true}) {
    auto collected = std::make_shared<Collected>();
    Topology topology = crashing(3, 5, throws, collected);
    topology.roles[0].restart.first_backoff = std::chrono::milliseconds(20);
    auto runtime = make(std::move(topology), {.deterministic = GetParam()});
    const Duration start = runtime->clock().now();
    EXPECT_EQ(runtime->run(never).value(), Runtime::Ended::kComplete);
    // 20 + 40 + 80 ms of back-off.
    EXPECT_GE(runtime->clock().now() - start, std::chrono::milliseconds(140));
    runtime.reset();
    EXPECT_EQ(collected->numbers.size(), 50u);
  }
}

TEST_P(BothModes, OneFailureMoreThanTheBudgetEndsTheRunNamingTheInstance) {
  auto collected = std::make_shared<Collected>();
  auto runtime = make(crashing(100, 2, false, collected), {.deterministic = GetParam()});
  const auto ended = runtime->run(never);
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().message, "counter: the environment exploded (after 2 restarts)");
}

TEST_P(BothModes, ALostDeviceEndsTheRunAtOnceBecauseThisProcessWillNotGetItBack) {
  Topology topology = counting(1, 50, 4, std::make_shared<Collected>());
  topology.roles[0].make = [](const RoleIdentity& identity) -> Result<std::unique_ptr<Role>> {
    EXPECT_EQ(identity.incarnation, 0);
    return Error{Code::kLost, "the GPU is gone"};
  };
  topology.roles[0].restart.max_restarts = 5;
  auto runtime = make(std::move(topology), {.deterministic = GetParam()});
  const auto ended = runtime->run(never);
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code, Code::kLost);
  EXPECT_EQ(ended.error().message, "counter: the GPU is gone");
}

TEST(Runtime, AFactoryThatFailsEndsTheRun) {
  Topology topology = counting(1, 10, 1, std::make_shared<Collected>());
  topology.roles[0].make = [](const RoleIdentity&) -> Result<std::unique_ptr<Role>> {
    return Error{Code::kNotFound, "no such environment"};
  };
  auto runtime = make(std::move(topology), {.deterministic = true});
  EXPECT_EQ(runtime->run(never).error().message, "counter: no such environment");
}

TEST(Runtime, ABrokenTopologyIsRefusedBeforeAnythingIsSpawned) {
  Topology topology = counting(1, 10, 1, std::make_shared<Collected>());
  topology.channels.clear();
  EXPECT_EQ(Runtime::make(std::move(topology), {}).error().code, Code::kInvalidArgument);
}

TEST_P(BothModes, ACheckpointIsAConsistentCutFromWhichTheRunGoesOn) {
  // Cut in the middle, throw the rest of the run away, resume from the cut: nothing is lost and nothing comes twice.
  std::shared_ptr<const Cut> cut;
  {
    auto collected = std::make_shared<Collected>();
    auto runtime = make(counting(3, 2000, 4, collected),
                        {.deterministic = GetParam(), .write_cut = [&](std::shared_ptr<const Cut> taken) {
                           cut = std::move(taken);
                           return Status();
                         }});
    int calls = 0;
    ASSERT_EQ(runtime->run([&] { return ++calls > (GetParam() ? 1500 : 0); }).value(), Runtime::Ended::kInterrupted);
    ASSERT_TRUE(runtime->checkpoint().ok());
    ASSERT_TRUE(runtime->run(never).ok());
  }
  ASSERT_NE(cut, nullptr);
  auto collected = std::make_shared<Collected>();
  auto runtime = make(counting(3, 2000, 4, collected), {.deterministic = GetParam(), .resume_from = cut});
  ASSERT_TRUE(runtime->run(never).ok());
  runtime.reset();
  std::sort(collected->numbers.begin(), collected->numbers.end());
  ASSERT_EQ(collected->numbers.size(), 6000u);
  for (std::size_t i = 0; i < 6000; ++i) ASSERT_EQ(collected->numbers[i], static_cast<std::int64_t>(i / 3));
}

/// Comes back from its first step once it is released.
class Stuck final : public Role {
 public:
  struct Gate {
    std::atomic<bool> reached = false, open = false;
  };
  explicit Stuck(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  Result<Progress> step(RoleContext&) override {
    gate_->reached = true;
    while (!gate_->open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Progress::kIdle;
  }

 private:
  std::shared_ptr<Gate> gate_;
};

TEST(Runtime, ACutThatSomebodyHoldsUpFailsNamingIt) {
  auto gate = std::make_shared<Stuck::Gate>();
  Topology topology = counting(1, 10, 1, std::make_shared<Collected>());
  topology.roles[0].make = factory([&](const RoleIdentity&) { return std::make_unique<Stuck>(gate); });
  auto runtime = make(std::move(topology), {.cut_deadline = std::chrono::milliseconds(200),
                                            .write_cut = [](std::shared_ptr<const Cut>) { return Status(); }});
  ASSERT_TRUE(runtime->run([&] { return gate->reached.load(); }).ok());
  const auto status = runtime->checkpoint();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(status.error().message, HasSubstr("from counter"));
  gate->open = true;
}

TEST(Runtime, WritingACutMayTakeLongerThanCapturingIt) {
  auto runtime = make(counting(1, 10, 1, std::make_shared<Collected>()),
                      {.cut_deadline = std::chrono::milliseconds(100), .write_cut = [](std::shared_ptr<const Cut>) {
                         std::this_thread::sleep_for(std::chrono::milliseconds(600));  // a slow disk, or a large table
                         return Status();
                       }});
  ASSERT_TRUE(runtime->run([] { return true; }).ok());
  const auto status = runtime->checkpoint(std::chrono::seconds(10));
  EXPECT_TRUE(status.ok()) << status.error().message;
}

/// Fails so long after it is told to.
class FailsWhenTold final : public Role {
 public:
  struct Told {
    std::atomic<bool> to_fail{false};
    std::atomic<bool> fails{false};
    Duration after{};
  };
  explicit FailsWhenTold(std::shared_ptr<Told> told) : told_(std::move(told)) {}
  Result<Progress> step(RoleContext&) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!told_->to_fail) return Progress::kMore;
    std::this_thread::sleep_for(told_->after);
    told_->fails = true;
    return Error{Code::kInternal, "told to fail"};
  }

 private:
  const std::shared_ptr<Told> told_;
};

TEST(Runtime, ACutAfterTheEndNamesWhoHasFailedSince) {
  for (const bool in_the_cut : {false, true}) {
    SCOPED_TRACE(in_the_cut ? "in the middle of the cut" : "before the cut");
    auto told = std::make_shared<FailsWhenTold::Told>();
    if (in_the_cut) told->after = std::chrono::milliseconds(300);
    Topology topology = counting(1, 10, 1, std::make_shared<Collected>());
    RoleSpec bystander;
    bystander.name = "bystander";
    bystander.execution = Execution::kThread;
    bystander.make = factory([told](const RoleIdentity&) { return std::make_unique<FailsWhenTold>(told); });
    topology.roles.push_back(bystander);
    auto runtime = make(std::move(topology), {.write_cut = [](std::shared_ptr<const Cut>) { return Status(); }});
    ASSERT_EQ(runtime->run(never).value(), Runtime::Ended::kComplete);
    told->to_fail = true;
    if (!in_the_cut) {
      while (!told->fails) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    const auto begin = std::chrono::steady_clock::now();
    for (int again = 0; again < 2; ++again) {
      const auto cut = runtime->checkpoint();
      ASSERT_FALSE(cut.ok());
      EXPECT_EQ(cut.error().message, "cut: bystander: told to fail");
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  }
}

TEST(Runtime, TheOnlyAnswerOfAShortRunIsTold) {
  std::vector<std::string> told;
  auto runtime = make(counting(1, 1'000'000, 1, std::make_shared<Collected>()),
                      {.tell_status = [&told](std::string status) { told.push_back(std::move(status)); },
                       .status_period = std::chrono::hours(1)});
  int asked = 0;
  ASSERT_EQ(runtime->run([&asked] { return ++asked > 1; }).value(), Runtime::Ended::kInterrupted);
  runtime->wait(std::chrono::seconds(1));
  runtime.reset();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told.front(), HasSubstr("collector"));
}

TEST(Runtime, ACutAfterTheEndIsWithoutWhoMayBeMissing) {
  auto told = std::make_shared<FailsWhenTold::Told>();
  told->after = std::chrono::milliseconds(300);
  Topology topology = counting(1, 10, 1, std::make_shared<Collected>());
  RoleSpec bystander;
  bystander.name = "bystander";
  bystander.execution = Execution::kThread;
  bystander.restart.quarantine = true;
  bystander.make = factory([told](const RoleIdentity&) { return std::make_unique<FailsWhenTold>(told); });
  topology.roles.push_back(bystander);
  auto runtime = make(std::move(topology), {.write_cut = [](std::shared_ptr<const Cut>) { return Status(); }});
  ASSERT_EQ(runtime->run(never).value(), Runtime::Ended::kComplete);
  told->to_fail = true;
  const auto cut = runtime->checkpoint();
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code, Code::kUnavailable) << "so that it is tried again";
  EXPECT_EQ(cut.error().message, "cut: bystander: told to fail");
  EXPECT_TRUE(runtime->checkpoint().ok());
}

// ---- request channels
// ------------------------------------------------------------------------------------------------

/// Calls with 0..calls-1, one after the other, and collects the answers or errors.
class CallingRole final : public Role {
 public:
  CallingRole(std::int64_t calls, Duration deadline, std::shared_ptr<std::vector<Result<std::int64_t>>> answers)
      : calls_(calls), deadline_(deadline), answers_(std::move(answers)) {}
  Result<Progress> step(RoleContext& context) override {
    Caller& caller = context.caller("ask");
    while (sent_ < calls_ && caller.ready()) {
      caller.call(number_frame(context.pool(), sent_++), deadline_, [this](Result<Frame> answer) {
        answers_->push_back(answer.ok() ? Result<std::int64_t>(number_of(*answer)) : answer.error());
      });
    }
    return static_cast<std::int64_t>(answers_->size()) == calls_ ? Progress::kDone : Progress::kIdle;
  }

 private:
  std::int64_t calls_;
  Duration deadline_;
  std::int64_t sent_ = 0;
  std::shared_ptr<std::vector<Result<std::int64_t>>> answers_;
};

enum class Serving { kDoubles, kIgnores, kDrops };

class ServingRole final : public Role {
 public:
  explicit ServingRole(Serving how) : how_(how) {}
  Result<Progress> step(RoleContext& context) override {
    Server& server = context.server("answer");
    while (how_ != Serving::kIgnores && !server.empty()) {
      auto [frame, answer] = server.take();
      if (how_ == Serving::kDoubles) answer(number_frame(context.pool(), 2 * number_of(frame)));
    }
    return Progress::kIdle;
  }

 private:
  Serving how_;
};

std::vector<Result<std::int64_t>> ask(Serving how, bool deterministic) {
  auto answers = std::make_shared<std::vector<Result<std::int64_t>>>();
  RoleSpec client;
  client.name = "client";
  client.outlets = {{"ask", "Number", ChannelKind::kRequest}};
  client.completes_run = true;
  client.make = factory(
      [=](const RoleIdentity&) { return std::make_unique<CallingRole>(20, std::chrono::milliseconds(50), answers); });
  RoleSpec server;
  server.name = "server";
  server.inlets = {{"answer", "Number", ChannelKind::kRequest}};
  server.make = factory([how](const RoleIdentity&) { return std::make_unique<ServingRole>(how); });
  Topology topology;
  topology.roles = {client, server};
  topology.channels = {{"client", "ask", "server", "answer", 3}};
  auto runtime = make(std::move(topology), {.deterministic = deterministic});
  EXPECT_TRUE(runtime->run(never).ok());
  runtime.reset();
  return *answers;
}

TEST_P(BothModes, ACallIsAnswered) {
  const auto answers = ask(Serving::kDoubles, GetParam());
  ASSERT_EQ(answers.size(), 20u);
  for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].value(), static_cast<std::int64_t>(2 * i));
}

TEST_P(BothModes, AnUnansweredCallEndsAtItsDeadline) {
  // The first three fill the server's queue for good; those that follow find it full.
  const auto answers = ask(Serving::kIgnores, GetParam());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].error().code, i < 3 ? Code::kDeadlineExceeded : Code::kUnavailable) << i;
  }
}

TEST_P(BothModes, ADroppedCallIsCancelled) {
  for (const auto& answer : ask(Serving::kDrops, GetParam())) EXPECT_EQ(answer.error().code, Code::kCancelled);
}

}  // namespace
}  // namespace troupe::actors
