// Who chooses actions: the staleness contract of a policy, calls to an inference server, and that server. All by hand,
// without actors and with a clock that the test moves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include <troupe/actors/roles/acting.hpp>
#include <troupe/actors/roles/inference_actor.hpp>
#include <troupe/messages/inference.hpp>
#include <troupe/tests/actors/fake_context.hpp>
#include <troupe/tests/actors/small_policy.hpp>

namespace troupe::actors {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FakeContext;
using ::testing::HasSubstr;
using testing::parameters_frame;
using testing::small_policy;
using testing::version_frame;

constexpr std::array kObservation = {0.5f, -0.25f, 1.0f, 0.0f, 0.125f};

double counter(const Report& report, const std::string& name) {
  for (const Scalar& scalar : report.counters) {
    if (scalar.name == name) return scalar.value;
  }
  ADD_FAILURE() << "no counter " << name;
  return 0;
}

// ---- VersionedPolicy
// -------------------------------------------------------------------------------------------------

class Staleness : public ::testing::Test {
 protected:
  VersionedPolicy policy(std::int64_t max_versions) {
    return {small_policy().value(), {max_versions, {"learner", "parameters"}}};
  }
  void publish(std::int64_t version) {
    context.in("parameters").frames.push_back(parameters_frame(context.pool(), version));
  }
  void announce(std::int64_t version) {
    context.in("versions").frames.push_back(version_frame(context.pool(), version));
  }

  FakeContext context;
};

TEST_F(Staleness, WithoutParametersNobodyActs) {
  VersionedPolicy acting = policy(-1);
  announce(3);
  EXPECT_FALSE(acting.refresh(context).value());
  EXPECT_THAT(acting.waiting_for(), HasSubstr("no parameters have come yet"));
}

TEST_F(Staleness, WithoutABoundOldParametersAct) {
  VersionedPolicy acting = policy(-1);
  publish(0);
  announce(1'000'000);
  EXPECT_TRUE(acting.refresh(context).value());
  EXPECT_EQ(acting.version(), 0);
  EXPECT_EQ(acting.waiting_for(), "");
}

TEST_F(Staleness, ABoundOfZeroWaitsFromTheAnnouncementUntilTheParametersAreThere) {
  VersionedPolicy acting = policy(0);
  publish(7);
  announce(7);
  EXPECT_TRUE(acting.refresh(context).value());
  announce(8);
  EXPECT_FALSE(acting.refresh(context).value());
  EXPECT_EQ(acting.waiting_for(), "parameters newer than version 7: the newest is 8, staleness.max_versions is 0;");
  context.manual_clock.advance(seconds(3));
  publish(8);
  EXPECT_TRUE(acting.refresh(context).value());
  EXPECT_EQ(acting.version(), 8);
  EXPECT_EQ(acting.waiting_for(), "");
  context.manual_clock.advance(seconds(10));
  EXPECT_TRUE(acting.refresh(context).value());
  Report report;
  acting.report(report);
  EXPECT_EQ(counter(report, "stale_wait_s"), 3);
}

TEST_F(Staleness, ParametersAtTheBoundActAndOneVersionOlderDoNot) {
  VersionedPolicy acting = policy(10);
  publish(0);
  announce(10);
  EXPECT_TRUE(acting.refresh(context).value());
  announce(11);
  EXPECT_FALSE(acting.refresh(context).value());
  publish(1);  // on the way when 11 was announced
  EXPECT_TRUE(acting.refresh(context).value());
}

TEST_F(Staleness, NobodyWaitsForADeadLearnerOrParameterStore) {
  for (const std::string role : {"learner", "parameters"}) {
    VersionedPolicy acting = policy(0);
    publish(0);
    announce(1);
    context.dead = {role};
    EXPECT_TRUE(acting.refresh(context).value()) << role;
    context.dead = {};
    EXPECT_FALSE(acting.refresh(context).value()) << role;
  }
}

TEST_F(Staleness, WhenTheLearnerComesBackFromAnOlderCheckpointNobodyWaitsForVersionsThatAreLost) {
  VersionedPolicy acting = policy(0);
  publish(1000);
  announce(1020);  // its parameters were lost with the store
  EXPECT_FALSE(acting.refresh(context).value());
  announce(900);
  publish(900);
  EXPECT_TRUE(acting.refresh(context).value());
}

// ---- RemoteActing
// ----------------------------------------------------------------------------------------------------

class Remote : public ::testing::Test {
 protected:
  std::unique_ptr<Acting> make() { return remote_acting().make({"actor", 3, 8, 0, 1}).value(); }
  Result<std::optional<std::int64_t>> act() { return acting->act(context, kObservation, action); }
  testing::FakeCaller& calls() { return context.caller("inference"); }
  Frame answer(std::int64_t version, float value) {
    return messages::make_inference_answer(context.pool(), {version, std::array{value}}).value();
  }

  FakeContext context;
  std::unique_ptr<Acting> acting = make();
  std::array<float, 1> action{};
};

TEST_F(Remote, AsksOnceAndHandsTheAnswerOutWithItsVersion) {
  EXPECT_EQ(act().value(), std::nullopt);
  EXPECT_EQ(act().value(), std::nullopt);
  ASSERT_EQ(calls().calls.size(), 1u);
  const auto request = messages::read_inference_request(calls().calls[0].request).value();
  EXPECT_EQ(request.producer, 3u);
  EXPECT_THAT(request.observation, ::testing::ElementsAreArray(kObservation));
  EXPECT_EQ(calls().calls[0].deadline, seconds(1));
  EXPECT_THAT(acting->waiting_for(), HasSubstr("inference server"));
  calls().finish(answer(12, 0.5f));
  EXPECT_EQ(act().value(), 12);
  EXPECT_EQ(action[0], 0.5f);
  EXPECT_EQ(act().value(), std::nullopt) << "the next action is another call";
  EXPECT_EQ(calls().calls.size(), 1u);
}

TEST_F(Remote, ACallThatDiedWithTheServerIsMadeAgain) {
  (void)act().value();
  calls().finish(Error{Code::kDeadlineExceeded, "no answer before its deadline"});
  (void)act().value();
  ASSERT_EQ(calls().calls.size(), 1u);
  EXPECT_THAT(acting->waiting_for(), HasSubstr("after 1 failed calls (the last: no answer before its deadline)"));
  calls().finish(answer(1, 0.25f));
  EXPECT_EQ(act().value(), 1);
  Report report;
  acting->report(report);
  EXPECT_EQ(counter(report, "inference_calls_failed"), 1);
}

TEST_F(Remote, RefusalsAndBrokenAnswersAreFollowedByAPause) {
  const std::vector<Result<Frame>> failures = {Error{Code::kUnavailable, "the queue is full"},
                                               parameters_frame(context.pool(), 1)};
  for (const Result<Frame>& failure : failures) {
    (void)act().value();
    calls().finish(failure);
    context.woken_after = Duration{-1};
    (void)act().value();
    EXPECT_TRUE(calls().calls.empty());
    EXPECT_EQ(context.woken_after, milliseconds(100));
    context.manual_clock.advance(context.woken_after);
    (void)act().value();
    ASSERT_EQ(calls().calls.size(), 1u);
    calls().finish(answer(1, 0));
    EXPECT_EQ(act().value(), 1);
  }
}

TEST_F(Remote, GivesUpAfterFiveMinutesNamingTheLastError) {
  for (int i = 0; i <= 300; ++i) {
    ASSERT_TRUE(act().ok()) << i;
    ASSERT_EQ(calls().calls.size(), 1u) << i;
    context.manual_clock.advance(seconds(1));
    calls().finish(Error{Code::kDeadlineExceeded, "no answer before its deadline"});
  }
  EXPECT_EQ(act().error().message,
            "no answer of the inference server in 301 s and 301 calls, the last: no answer before its deadline");
}

TEST_F(Remote, WithoutAServerItWaits) {
  calls().wired = false;
  EXPECT_EQ(act().value(), std::nullopt);
  EXPECT_TRUE(calls().calls.empty());
}

TEST_F(Remote, AnActionOfAnotherSizeIsAnError) {
  (void)act().value();
  calls().finish(messages::make_inference_answer(context.pool(), {1, std::array{1.0f, 2.0f}}).value());
  EXPECT_EQ(act().error().message, "inference answer: got an action of 2 elements, expected 1");
}

// ---- InferenceActor
// --------------------------------------------------------------------------------------------------

class InferenceServer : public ::testing::Test {
 protected:
  std::unique_ptr<Role> make(std::int64_t batch_size, Duration max_wait = milliseconds(2),
                             std::int64_t max_versions = -1) {
    const auto policy = [](std::int64_t rows, learner::Device) { return small_policy(rows); };
    return InferenceActor::make({8, batch_size, max_wait, policy, {max_versions, {}}}, {"inference", 0, 1, 0, 1})
        .value();
  }
  void publish(std::int64_t version) {
    context.in("parameters").frames.push_back(parameters_frame(context.pool(), version));
  }
  /// Each producer sees a world of its own.
  static std::array<float, 5> observation(std::uint32_t producer) {
    std::array<float, 5> values = kObservation;
    values[0] = static_cast<float>(producer) / 8;
    return values;
  }
  void ask(std::uint32_t producer) {
    context.server("requests")
        .requests.push_back(
            messages::make_inference_request(context.pool(), {producer, observation(producer)}).value());
  }
  /// What a policy of its own would answer to this producer.
  static float expected(std::uint32_t producer) {
    float action = 0;
    small_policy().value()->act(observation(producer), {&action, 1}).value();
    return action;
  }
  std::vector<messages::InferenceAnswer> answers() {
    std::vector<messages::InferenceAnswer> all;
    for (const Frame& frame : context.server("requests").answers) {
      all.push_back(messages::read_inference_answer(frame).value());
    }
    return all;
  }

  FakeContext context;
};

TEST_F(InferenceServer, AFullBatchIsAnsweredAtOnceAsByAPolicyForEachAlone) {
  auto server = make(3);
  publish(5);
  for (std::uint32_t producer : {2u, 0u, 7u}) ask(producer);
  EXPECT_EQ(server->step(context).value(), Progress::kIdle);
  ASSERT_EQ(answers().size(), 3u);
  EXPECT_NEAR(answers()[0].action[0], expected(2), 1e-6);
  EXPECT_NEAR(answers()[1].action[0], expected(0), 1e-6);
  EXPECT_NEAR(answers()[2].action[0], expected(7), 1e-6);
  EXPECT_NE(expected(2), expected(7));
  for (const auto& answer : answers()) EXPECT_EQ(answer.parameters_version, 5);
}

TEST_F(InferenceServer, APartBatchIsRunWhenItsFirstObservationHasWaited) {
  auto server = make(3);
  publish(5);
  ask(0);
  EXPECT_EQ(server->step(context).value(), Progress::kIdle);
  EXPECT_EQ(context.woken_after, milliseconds(2));
  context.manual_clock.advance(milliseconds(1));
  ask(1);
  EXPECT_EQ(server->step(context).value(), Progress::kIdle);
  EXPECT_EQ(context.woken_after, milliseconds(1));
  EXPECT_TRUE(answers().empty());
  context.manual_clock.advance(milliseconds(1));
  EXPECT_EQ(server->step(context).value(), Progress::kIdle);
  EXPECT_EQ(answers().size(), 2u);
  Report report;
  server->report(report);
  EXPECT_EQ(counter(report, "requests"), 2);
  EXPECT_EQ(counter(report, "batches"), 1);
}

TEST_F(InferenceServer, MoreThanABatchTakesSeveralSteps) {
  auto server = make(2, Duration::zero());
  publish(0);
  for (std::uint32_t producer = 0; producer < 5; ++producer) ask(producer);
  EXPECT_EQ(server->step(context).value(), Progress::kMore);
  EXPECT_EQ(answers().size(), 2u);
  EXPECT_EQ(server->step(context).value(), Progress::kMore);
  EXPECT_EQ(server->step(context).value(), Progress::kIdle);
  ASSERT_EQ(answers().size(), 5u);
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_NEAR(answers()[i].action[0], expected(i), 1e-6) << i;
}

TEST_F(InferenceServer, RequestsWaitForParametersThatMayAct) {
  auto server = make(1, Duration::zero(), /*max_versions=*/0);
  ask(0);
  EXPECT_EQ(server->step(context).value(), Progress::kIdle);
  EXPECT_THAT(server->waiting_for(), HasSubstr("no parameters"));
  publish(4);
  EXPECT_EQ(server->step(context).value(), Progress::kIdle);
  EXPECT_EQ(answers().size(), 1u);
  context.in("versions").frames.push_back(version_frame(context.pool(), 5));
  ask(0);
  EXPECT_EQ(server->step(context).value(), Progress::kIdle);
  EXPECT_THAT(server->waiting_for(), HasSubstr("staleness.max_versions is 0"));
  EXPECT_EQ(answers().size(), 1u);
  publish(5);
  EXPECT_EQ(server->step(context).value(), Progress::kIdle);
  ASSERT_EQ(answers().size(), 2u);
  EXPECT_EQ(answers()[1].parameters_version, 5);
}

TEST_F(InferenceServer, ARequestThatWasMadeAgainIsAnsweredOnce) {
  auto server = make(2, Duration::zero());
  for (int i = 0; i < 100; ++i) {
    ask(0);
    ASSERT_EQ(server->step(context).value(), Progress::kIdle);
  }
  publish(0);
  EXPECT_EQ(server->step(context).value(), Progress::kIdle);
  EXPECT_EQ(answers().size(), 1u);
}

TEST_F(InferenceServer, RequestsThatThePolicyCannotTakeAreRefusedAndTheOthersAnswered) {
  auto server = make(1, Duration::zero());
  publish(0);
  context.server("requests")
      .requests.push_back(messages::make_inference_request(context.pool(), {1, std::array{1.0f, 2.0f}}).value());
  context.server("requests").requests.push_back(parameters_frame(context.pool(), 0));
  ask(8);  // there are 8 producers, 0 .. 7
  ask(2);
  EXPECT_EQ(server->step(context).value(), Progress::kIdle);
  ASSERT_EQ(answers().size(), 1u);
  EXPECT_NEAR(answers()[0].action[0], expected(2), 1e-6);
  Report report;
  server->report(report);
  EXPECT_EQ(counter(report, "requests_refused"), 3);
}

}  // namespace
}  // namespace troupe::actors
