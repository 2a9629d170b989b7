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
using testing::answer_of;
using testing::FakeContext;
using ::testing::HasSubstr;
using testing::parameters_frame;
using testing::request_of;
using testing::rows_of;
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

TEST_F(Staleness, ParametersThatAreOlderOrCannotBeReadLeaveThePolicyAsItIs) {
  VersionedPolicy acting = policy(-1);
  publish(7);
  publish(6);
  ASSERT_TRUE(acting.refresh(context).value());
  EXPECT_EQ(acting.version(), 7);
  EXPECT_TRUE(context.refused.empty());
  auto halves = messages::ParametersBuilder::make(context.pool(), DType::kBF16, 4).value();
  std::ranges::fill(halves.data(), std::byte{0});
  context.in("parameters").frames.push_back(std::move(halves).finish({8, 0, 0, DType::kBF16}));
  context.in("parameters").frames.push_back(context.pool().copy(std::vector<std::byte>(64, std::byte{0x5a})).value());
  EXPECT_TRUE(acting.refresh(context).value());
  EXPECT_EQ(acting.version(), 7);
  ASSERT_EQ(context.refused.size(), 2u);
  EXPECT_THAT(context.refused[0], HasSubstr("parameters of version 8: got bfloat16, expected float32"));
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
  std::unique_ptr<Acting> make() { return remote_acting(columns).make({"actor", 3, 8, 0, 1}, 1).value(); }
  Result<std::optional<std::int64_t>> act() {
    const MutableBatchView outputs{&columns.outputs, 1, {std::as_writable_bytes(std::span(action))}};
    return acting->act(context, rows_of(columns.inputs, kObservation), outputs);
  }
  testing::FakeCaller& calls() { return context.caller("inference"); }
  Frame answer(std::int64_t version, float value) {
    return messages::make_inference_answer(context.pool(), answer_of(version, std::array{value})).value();
  }

  FakeContext context;
  const learner::PolicyColumns columns = testing::small_columns();
  std::unique_ptr<Acting> acting = make();
  std::array<float, 1> action{};
};

TEST_F(Remote, AsksOnceAndHandsTheAnswerOutWithItsVersion) {
  EXPECT_EQ(act().value(), std::nullopt);
  EXPECT_EQ(act().value(), std::nullopt);
  ASSERT_EQ(calls().calls.size(), 1u);
  const auto request = messages::read_inference_request(calls().calls[0].request).value();
  EXPECT_EQ(request.producer, 3u);
  EXPECT_EQ(*request.signature, columns.inputs);
  EXPECT_THAT(request.inputs.as<float>(0), ::testing::ElementsAreArray(kObservation));
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

TEST_F(Remote, OtherColumnsOrRowsThanAskedForAreAnError) {
  (void)act().value();
  const auto two = std::make_shared<const Signature>(Signature{{"action", DType::kF32, {2}}});
  const std::array actions = {1.0f, 2.0f};
  calls().finish(messages::make_inference_answer(context.pool(), {1, two, rows_of(*two, actions)}).value());
  EXPECT_EQ(act().error().message, "inference answer: column 0 is action: float32[2], expected action: float32[1]");
  (void)act().value();
  calls().finish(messages::make_inference_answer(context.pool(), answer_of(1, actions)).value());
  EXPECT_EQ(act().error().message, "inference answer: got 2 rows, expected 1");
}

// ---- InferenceActor
// --------------------------------------------------------------------------------------------------

class InferenceServer : public ::testing::Test {
 protected:
  std::unique_ptr<Role> make(std::int64_t batch_size, Duration max_wait = milliseconds(2),
                             std::int64_t max_versions = -1, std::int64_t rows = 1) {
    return InferenceActor::make({8, rows, batch_size, max_wait, small_policy, {max_versions, {}}},
                                {"inference", 0, 1, 0, 1})
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
  void ask(std::uint32_t producer, std::uint32_t rows = 1) {
    std::vector<float> observations;
    for (std::uint32_t row = 0; row < rows; ++row) {
      const auto one = observation(producer + row);
      observations.insert(observations.end(), one.begin(), one.end());
    }
    context.server("requests")
        .requests.push_back(
            messages::make_inference_request(context.pool(), request_of(producer, observations)).value());
  }
  /// What a policy of its own would answer to this producer.
  static float expected(std::uint32_t producer) {
    const learner::PolicyColumns columns = testing::small_columns();
    const auto seen = observation(producer);
    BatchBuffer action(columns.outputs, 1);
    const auto policy = small_policy().value();
    EXPECT_TRUE(policy->load(testing::small_values(), policy->fingerprint()).ok());
    policy->act(rows_of(columns.inputs, seen), action.mutable_view()).value();
    return action.view().as<float>(0)[0];
  }
  struct Answer {
    std::int64_t parameters_version;
    std::vector<float> action;  ///< one a row
  };
  std::vector<Answer> answers() {
    std::vector<Answer> all;
    for (const Frame& frame : context.server("requests").answers) {
      const auto answer = messages::read_inference_answer(frame).value();
      const auto actions = answer.outputs.as<float>(0);
      all.push_back({answer.parameters_version, {actions.begin(), actions.end()}});
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
  const auto two = std::make_shared<const Signature>(Signature{{"observation", DType::kF32, {2}}});
  const std::array short_one = {1.0f, 2.0f};
  context.server("requests")
      .requests.push_back(messages::make_inference_request(context.pool(), {1, two, rows_of(*two, short_one)}).value());
  ask(1, 2);  // of env actors with one environment each
  context.server("requests").requests.push_back(parameters_frame(context.pool(), 0));
  ask(8);  // there are 8 producers, 0 .. 7
  ask(2);
  EXPECT_EQ(server->step(context).value(), Progress::kIdle);
  ASSERT_EQ(answers().size(), 1u);
  EXPECT_NEAR(answers()[0].action[0], expected(2), 1e-6);
  Report report;
  server->report(report);
  EXPECT_EQ(counter(report, "requests_refused"), 4);
}

TEST_F(InferenceServer, RequestsOfSeveralRowsAreAnsweredWhole) {
  auto server = make(5, milliseconds(2), -1, /*rows=*/2);
  publish(3);
  ask(0, 2);
  ask(2, 2);
  EXPECT_EQ(server->step(context).value(), Progress::kIdle);
  EXPECT_TRUE(answers().empty()) << "four rows of a batch of five";
  ask(4, 2);
  ask(6, 1);
  EXPECT_EQ(server->step(context).value(), Progress::kMore);
  ASSERT_EQ(answers().size(), 3u) << "three requests of two rows, which are a batch of five";
  context.manual_clock.advance(milliseconds(2));
  EXPECT_EQ(server->step(context).value(), Progress::kIdle);
  ASSERT_EQ(answers().size(), 4u);
  for (std::uint32_t i = 0; i < 4; ++i) {
    ASSERT_EQ(answers()[i].action.size(), i < 3 ? 2u : 1u);
    for (std::uint32_t row = 0; row < answers()[i].action.size(); ++row) {
      EXPECT_NEAR(answers()[i].action[row], expected(2 * i + row), 1e-6);
    }
  }
}

}  // namespace
}  // namespace troupe::actors
