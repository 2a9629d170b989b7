// Groups of roles on real threads: members step together through collectives while some fail, cuts pause them all and
// others come back. They must never hang, and always agree on how many steps the group has taken.
#include <troupe/actors/control/groups.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/tests/actors/test_roles.hpp>

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;
using testing::factory;
using ::testing::HasSubstr;
using testing::never;

/// What the members of a test's group have done, over all incarnations.
struct Seen {
  std::atomic<std::int64_t> steps{0};   ///< of rank 0's
  std::atomic<std::int64_t> wrong{0};   ///< sums that were not those of the group
  std::atomic<int> largest{0};          ///< group
  std::atomic<std::int64_t> epochs{0};  ///< in which some member has been
  std::atomic<int> fail{-1};            ///< the member that is to fail next
  std::atomic<int> stuck{-1};           ///< the member that is to stop in the middle of a step
  std::atomic<int> stuck_ms{300};       ///< for how long
};

/// Takes steps with its group: each is two sums, of which all or nothing counts.
class Member final : public Role {
 public:
  Member(const RoleIdentity& identity, std::shared_ptr<Seen> seen, std::int64_t limit)
      : seat_(identity.group), index_(static_cast<int>(identity.index)), seen_(std::move(seen)), limit_(limit) {}

  Result<Progress> step(RoleContext&) override {
    const auto view = seat_->view();
    if (!view) return Progress::kIdle;
    collectives::Communicator& group = seat_->communicator();
    if (view->epoch != group.view().epoch) {
      if (!group.reform(*view, 10s).ok()) return Progress::kIdle;  // the next view wakes it
      ++seen_->epochs;
      // One may have finished a step that others have not: the furthest counts.
      float furthest = static_cast<float>(steps_);
      const auto agreed = group.all_reduce({&furthest, 1}, collectives::ReduceOp::kMax, {.name = "steps"})->wait();
      if (!agreed.ok()) return Progress::kIdle;
      steps_ = static_cast<std::int64_t>(furthest);
      seen_->largest = std::max(seen_->largest.load(), view->size);
    }
    int own = index_;
    if (seen_->fail.compare_exchange_strong(own, -1)) return Error{Code::kInternal, "told to fail"};
    own = index_;
    if (seen_->stuck.compare_exchange_strong(own, -1)) {
      group.activity().begin_step(steps_);
      group.activity().enter("input_fn");
      std::this_thread::sleep_for(std::chrono::milliseconds(seen_->stuck_ms));
    }
    for (const char* name : {"first", "second"}) {
      float sum = static_cast<float>(steps_);
      if (!group.all_reduce({&sum, 1}, collectives::ReduceOp::kSum, {.name = name})->wait().ok()) {
        return Progress::kIdle;
      }
      if (sum != static_cast<float>(steps_) * static_cast<float>(view->size)) ++seen_->wrong;
    }
    ++steps_;
    if (view->rank == 0) seen_->steps = steps_;
    if (steps_ < limit_) return Progress::kMore;
    return group.barrier({.name = "end"})->wait().ok() ? Progress::kDone : Progress::kIdle;
  }

  Result<RoleState> save() const override {
    RoleState state;
    state.counters = {{"steps", steps_}};
    return state;
  }
  Status restore(const RoleState& state) override {
    TROUPE_ASSIGN(steps_, state.counter("steps"));
    return {};
  }

 private:
  const std::shared_ptr<GroupSeat> seat_;
  const int index_;
  const std::shared_ptr<Seen> seen_;
  const std::int64_t limit_;
  std::int64_t steps_ = 0;
};

Topology members(std::int64_t count, const std::shared_ptr<Seen>& seen, std::int64_t limit) {
  RoleSpec spec;
  spec.name = "member";
  spec.count = count;
  spec.execution = Execution::kThread;
  spec.group = true;
  spec.completes_run = true;
  spec.restart = {.max_restarts = 100, .first_backoff = 10ms, .max_backoff = 20ms};
  spec.make =
      factory([seen, limit](const RoleIdentity& identity) { return std::make_unique<Member>(identity, seen, limit); });
  Topology topology;
  topology.roles = {spec};
  return topology;
}

TEST(Groups, AllMembersTakeAllStepsTogether) {
  auto seen = std::make_shared<Seen>();
  auto runtime = Runtime::make(members(3, seen, 500), {}).value();
  EXPECT_EQ(runtime->run(never).value(), Runtime::Ended::kComplete);
  EXPECT_EQ(seen->steps, 500);
  EXPECT_EQ(seen->largest, 3);
  EXPECT_EQ(seen->wrong, 0);
  EXPECT_EQ(seen->epochs, 3);  // one each: nothing has changed
}

TEST(Groups, AMemberThatFailsIsMissedAndComesBack) {
  auto seen = std::make_shared<Seen>();
  auto runtime = Runtime::make(members(3, seen, std::numeric_limits<std::int64_t>::max()), {}).value();
  const auto until = std::chrono::steady_clock::now() + 30s;
  int failures = 0;
  std::int64_t next = 50;
  const auto ended = runtime->run([&] {
    if (seen->steps >= next && failures < 3) {
      seen->fail = failures++;  // each of them once, rank 0 first
      next = seen->steps + 50;
    }
    return (failures == 3 && seen->steps >= next + 200) || std::chrono::steady_clock::now() > until;
  });
  ASSERT_TRUE(ended.ok()) << ended.error().message;
  EXPECT_LT(std::chrono::steady_clock::now(), until)
      << "after " << failures << " failures, " << seen->steps << " steps";
  EXPECT_EQ(seen->wrong, 0);
  runtime->stop();
}

TEST(Groups, CutsPauseAGroupWithoutHarm) {
  auto seen = std::make_shared<Seen>();
  std::atomic<int> cuts{0};
  std::atomic<std::int64_t> apart{0};  ///< cuts in which two members are more than one step apart
  RuntimeOptions options;
  options.write_cut = [&](const std::shared_ptr<const Cut>& cut) -> Status {
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
    for (const Cut::Instance& instance : cut->instances) {
      const std::int64_t steps = instance.state->role.counter("steps").value();
      least = std::min(least, steps);
      most = std::max(most, steps);
    }
    apart += most - least > 1;
    ++cuts;
    return {};
  };
  options.checkpoint_period = 20ms;
  auto runtime = Runtime::make(members(4, seen, std::numeric_limits<std::int64_t>::max()), std::move(options)).value();
  const auto until = std::chrono::steady_clock::now() + 30s;
  const auto ended = runtime->run([&] {
    if (cuts == 10) seen->stuck = 1;  // a cut that comes in the middle of a long step
    return (cuts >= 25 && seen->steps > 100) || std::chrono::steady_clock::now() > until;
  });
  ASSERT_TRUE(ended.ok()) << ended.error().message;
  EXPECT_LT(std::chrono::steady_clock::now(), until) << cuts << " cuts, " << seen->steps << " steps";
  EXPECT_EQ(apart, 0);
  EXPECT_EQ(seen->wrong, 0);
  runtime->stop();
}

TEST(Groups, TheStatusNamesMembersAndWhoHoldsThemUp) {
  auto seen = std::make_shared<Seen>();
  seen->stuck_ms = 3500;
  auto runtime = Runtime::make(members(3, seen, std::numeric_limits<std::int64_t>::max()), {}).value();
  EXPECT_EQ(runtime->run([&] { return seen->steps > 20; }).value(), Runtime::Ended::kInterrupted);
  const auto group = [&] { return nlohmann::json::parse(runtime->status().value())["groups"][0]; };
  auto whole = group();
  EXPECT_EQ(whole["name"], "member");
  EXPECT_EQ(whole["epoch"], "1.1");
  EXPECT_EQ(whole["seats"], 3);
  EXPECT_EQ(whole["members"], (nlohmann::json{"member-0", "member-1", "member-2"}));
  EXPECT_EQ(whole["missing"], nlohmann::json::array());
  EXPECT_EQ(whole["hang"], "");
  seen->stuck = 1;
  std::string hang;
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (hang.empty() && std::chrono::steady_clock::now() < until) {
    hang = group()["hang"];
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_THAT(hang, HasSubstr("member-0 waits "));
  EXPECT_THAT(hang, HasSubstr(" s for all_reduce(first) of step "));
  EXPECT_THAT(hang, HasSubstr("member-1 is in input_fn of step "));
  runtime->stop();
}

TEST(Groups, MembersOfADeterministicRunTakeTurns) {
  for (const std::int64_t count : {1, 2, 3, 8}) {
    Duration first{};
    for (int run = 0; run < 2; ++run) {
      auto seen = std::make_shared<Seen>();
      auto runtime = Runtime::make(members(count, seen, 100), {.deterministic = true});
      ASSERT_TRUE(runtime.ok()) << runtime.error().message;
      EXPECT_EQ((*runtime)->run(never).value(), Runtime::Ended::kComplete);
      EXPECT_EQ(seen->steps, 100);
      EXPECT_EQ(seen->largest, count);
      EXPECT_EQ(seen->wrong, 0);
      EXPECT_EQ(seen->epochs, count);
      const Duration end = (*runtime)->stop();
      if (run == 0) first = end;
      EXPECT_EQ(end, first) << "as many turns, on the virtual clock";
    }
  }
}

TEST(Groups, ADeterministicMemberThatFailsComesBack) {
  auto seen = std::make_shared<Seen>();
  auto runtime = Runtime::make(members(3, seen, 400), {.deterministic = true}).value();
  int failures = 0;
  const auto ended = runtime->run([&] {
    if (seen->steps >= 50 * (failures + 1) && failures < 3) seen->fail = failures++;
    return false;
  });
  EXPECT_EQ(ended.value(), Runtime::Ended::kComplete);
  EXPECT_EQ(failures, 3);
  EXPECT_EQ(seen->steps, 400);
  EXPECT_EQ(seen->wrong, 0);
}

TEST(Groups, CutsPauseADeterministicGroup) {
  auto seen = std::make_shared<Seen>();
  int cuts = 0;
  RuntimeOptions options{.deterministic = true, .checkpoint_period = 20ms};
  options.write_cut = [&](const std::shared_ptr<const Cut>& cut) -> Status {
    EXPECT_EQ(cut->instances.size(), 3U);
    ++cuts;
    return {};
  };
  auto runtime = Runtime::make(members(3, seen, 2000), std::move(options)).value();
  EXPECT_EQ(runtime->run(never).value(), Runtime::Ended::kComplete);
  EXPECT_GT(cuts, 10);
  EXPECT_EQ(seen->steps, 2000);
  EXPECT_EQ(seen->wrong, 0);
}

/// Whoever has an even index waits for the others, who never come.
class Lonely final : public Role {
 public:
  explicit Lonely(const RoleIdentity& identity) : seat_(identity.group), waits_(identity.index % 2 == 0) {}

  Result<Progress> step(RoleContext&) override {
    const auto view = seat_->view();
    if (!view) return Progress::kIdle;
    collectives::Communicator& group = seat_->communicator();
    if (view->epoch == group.view().epoch) return Progress::kIdle;
    TROUPE_TRY(group.reform(*view, 1h));
    if (waits_) (void)group.barrier({.name = "alone", .timeout = 1h})->wait();
    return Progress::kIdle;
  }

 private:
  const std::shared_ptr<GroupSeat> seat_;
  const bool waits_;
};

TEST(Groups, AMemberThatNobodyJoinsIsAStandstillAndEndsAllTheSame) {
  Topology topology = members(2, nullptr, 0);
  topology.roles[0].make = factory([](const RoleIdentity& identity) { return std::make_unique<Lonely>(identity); });
  auto runtime = Runtime::make(std::move(topology), {.deterministic = true}).value();
  const auto ended = runtime->run(never);
  ASSERT_FALSE(ended.ok());
  EXPECT_THAT(ended.error().message, HasSubstr("standstill: every role waits for another"));
  runtime->stop();  // must not wait for the barrier
}

TEST(Groups, StopsWhileADeterministicMemberWaits) {
  auto seen = std::make_shared<Seen>();
  auto runtime =
      Runtime::make(members(3, seen, std::numeric_limits<std::int64_t>::max()), {.deterministic = true}).value();
  for (int turns = 1; turns < 40; ++turns) {  // also between two members' parts of one step
    int left = turns + 200;
    EXPECT_EQ(runtime->run([&] { return --left == 0; }).value(), Runtime::Ended::kInterrupted);
  }
  EXPECT_GT(seen->steps, 100);
  runtime->stop();
}

}  // namespace
}  // namespace troupe::actors
