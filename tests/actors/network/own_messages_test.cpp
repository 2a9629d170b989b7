// Types of a user's own between two nodes with real links: a bandit that is asked for rewards, whose messages are one
// opaque and one checked. What fits arrives; what does not is refused where it comes in, counted and said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <future>
#include <span>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/network/node_network.hpp>
#include <troupe/transport/authority.hpp>

#include <troupe/tests/actors/node_options.hpp>
#include <troupe/tests/actors/test_roles.hpp>
#include <troupe/tests/transport/eventually.hpp>

namespace troupe::actors {
namespace {

using testing::factory;
using ::testing::HasSubstr;
using troupe::testing::eventually;

constexpr std::chrono::seconds kOwnPatience{60};

template <typename T>
Frame frame_of(messages::FramePool& pool, const T& value) {
  return pool.copy(std::as_bytes(std::span(&value, 1))).value();
}

template <typename T>
T value_of(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), std::min(sizeof(value), bytes.size()));
  return value;
}

/// What the gambler has got.
struct Winnings {
  std::atomic<int> answers = 0;
  std::atomic<int> failures = 0;
  std::atomic<bool> enough = false;
};

/// Pulls one arm after the other.
class Gambler final : public Role {
 public:
  explicit Gambler(std::shared_ptr<Winnings> winnings) : winnings_(std::move(winnings)) {}
  Result<Progress> step(RoleContext& context) override {
    if (winnings_->enough) return Progress::kDone;
    context.wake_after(std::chrono::milliseconds(10));
    Caller& bandit = context.caller("pull");
    if (!bandit.ready()) return Progress::kIdle;
    bandit.call(frame_of(context.pool(), pulls_++ % 3), std::chrono::milliseconds(500), [this](Result<Frame> reward) {
      const bool good = reward.ok() && reward->size() == sizeof(double);
      ++(good ? winnings_->answers : winnings_->failures);
    });
    return Progress::kMore;
  }

 private:
  std::shared_ptr<Winnings> winnings_;
  int pulls_ = 0;
};

/// Answers with `reward`.
class Bandit final : public Role {
 public:
  explicit Bandit(double reward) : reward_(reward) {}
  Result<Progress> step(RoleContext& context) override {
    Server& pulls = context.server("pull");
    while (!pulls.empty()) {
      auto [pull, answer] = pulls.take();
      if (pull.size() != sizeof(int)) return Error{Code::kInvalidArgument, "no arm"};
      answer(frame_of(context.pool(), reward_));
    }
    return Progress::kIdle;
  }

 private:
  double reward_;
};

Status finite_reward(std::span<const std::byte> bytes) {
  if (bytes.size() == sizeof(double) && std::isfinite(value_of<double>(bytes))) return {};
  return Error{Code::kInvalidArgument, "expected one finite number"};
}

class OwnMessages : public ::testing::Test {
 protected:
  OwnMessages() : authority_(transport::Authority::create("test", std::chrono::system_clock::now()).value()) {}

  Topology topology(double reward) {
    RoleSpec gambler, bandit;
    gambler.name = "gambler";
    gambler.outlets = {{.name = "pull", .type = "Pull", .kind = ChannelKind::kRequest, .answer = "Reward"}};
    gambler.completes_run = true;
    gambler.make = factory([winnings = winnings_](const RoleIdentity&) -> std::unique_ptr<Role> {
      return std::make_unique<Gambler>(winnings);
    });
    bandit.name = "bandit";
    bandit.inlets = {{.name = "pull", .type = "Pull", .kind = ChannelKind::kRequest, .answer = "Reward"}};
    bandit.make =
        factory([reward](const RoleIdentity&) -> std::unique_ptr<Role> { return std::make_unique<Bandit>(reward); });
    Topology made;
    made.roles = {gambler, bandit};
    made.channels = {{"gambler", "pull", "bandit", "pull", 2}};
    made.messages = {{.name = "Pull", .max_bytes = sizeof(int)},
                     {.name = "Reward", .max_bytes = sizeof(double), .check = finite_reward}};
    return made;
  }

  std::unique_ptr<NodeNetwork> network(const std::string& name, const std::string& role, const Topology& plan,
                                       std::optional<transport::Address> chief) {
    std::vector<std::string> roles = {role};
    if (!chief) roles.push_back("chief");
    NodeNetworkOptions options;
    options.self = {"test", roles, name};
    options.credentials =
        authority_.issue(options.self, std::chrono::system_clock::now(), std::chrono::hours(1)).value();
    options.listen = {"127.0.0.1", 0};
    options.chief = chief;
    options.topology = &plan;
    return NodeNetwork::make(std::move(options)).value();
  }

  RuntimeOptions runtime(const std::string& name, const std::string& role, NodeNetwork& network) const {
    RuntimeOptions options = testing::node_options(network, {"test", {role}, name}, name == kChiefNode ? 1 : 2,
                                                   {{"chief", {{"gambler", {0}}}}, {"casino", {{"bandit", {0}}}}});
    options.deterministic = in_step_;
    return options;
  }

  /// Runs both nodes until `until`; what the chief's network has refused meanwhile.
  std::map<std::string, std::uint64_t> play(const Topology& plan, const std::function<bool()>& until) {
    const auto head = network("chief", "gambler", plan, std::nullopt);
    const auto casino = network("casino", "bandit", plan, head->address());
    const auto run = [&plan](RuntimeOptions options) {
      return std::async(std::launch::async, [&plan, options = std::move(options)]() -> Status {
        TROUPE_ASSIGN(const auto made, Runtime::make(plan, options));
        TROUPE_TRY(made->run([] { return false; }));
        return {};
      });
    };
    auto first = run(runtime("chief", "gambler", *head));
    auto second = run(runtime("casino", "bandit", *casino));
    EXPECT_TRUE(eventually(until, kOwnPatience));
    const auto refused = head->refused();
    winnings_->enough = true;
    const Status one = first.get(), other = second.get();
    EXPECT_TRUE(one.ok()) << one.error().message;
    EXPECT_TRUE(other.ok()) << other.error().message;
    return refused;
  }

  transport::Authority authority_;
  bool in_step_ = false;  ///< the nodes, as those of a deterministic run
  std::shared_ptr<Winnings> winnings_ = std::make_shared<Winnings>();
};

TEST_F(OwnMessages, OfABanditArriveBetweenNodes) {
  const auto refused = play(topology(0.5), [&] { return winnings_->answers > 100; });
  EXPECT_EQ(winnings_->failures, 0);
  EXPECT_THAT(refused, ::testing::IsEmpty());
}

TEST_F(OwnMessages, ThatTheirCheckRefusesAreDroppedAndCounted) {
  const auto refused = play(topology(std::nan("")), [&] { return winnings_->failures > 2; });
  EXPECT_EQ(winnings_->answers, 0);
  EXPECT_GT(refused.at("TRP-S706"), 2U);
}

TEST_F(OwnMessages, OfTypesThatNobodyHasRegisteredAreRefusedBeforeAnythingBegins) {
  Topology plan = topology(0.5);
  plan.messages.pop_back();
  const auto alone = network("chief", "gambler", plan, std::nullopt);
  const auto made = Runtime::make(plan, runtime("chief", "gambler", *alone));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message,
            "topology: role \"gambler\": port \"pull\" carries \"Reward\", which nobody has registered: no other node "
            "would let it in\ntopology: role \"bandit\": port \"pull\" carries \"Reward\", which nobody has "
            "registered: no other node would let it in");
}

TEST_F(OwnMessages, ThatAreTooLongEndTheirSenderWithOneError) {
  Topology plan = topology(0.5);
  plan.messages[0].max_bytes = 3;
  auto runtime = Runtime::make(plan, {}).value();  // in one process too, so that a run is the same wherever it is
  const auto ended = runtime->run([] { return false; });
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().message, "gambler: sent on pull: Pull: got 4 bytes, expected 1 .. 3");
}

TEST_F(OwnMessages, ArriveBetweenNodesThatGoInStep) {
  in_step_ = true;
  const auto refused = play(topology(0.5), [&] { return winnings_->answers > 100; });
  EXPECT_EQ(winnings_->failures, 0);
  EXPECT_THAT(refused, ::testing::IsEmpty());
}

TEST_F(OwnMessages, ThatAreRefusedHoldUpNoRound) {
  in_step_ = true;
  const auto refused = play(topology(std::nan("")), [&] { return winnings_->failures > 2; });
  EXPECT_EQ(winnings_->answers, 0);
  EXPECT_GT(refused.at("TRP-S706"), 2U);
}

}  // namespace
}  // namespace troupe::actors
