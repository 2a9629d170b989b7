// What a chief says to nodes that join, to which of them it gives instances, and what it does not promise as long as
// its journal cannot be written.
#include <troupe/actors/control/chief_actor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <set>

#include <troupe/tests/actors/chief_fixture.hpp>
#include <troupe/tests/actors/test_roles.hpp>

namespace troupe::actors {
namespace {

using messages::Control;
using messages::ControlKind;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::LoneChief;

/// The disk under the journal.
struct JournalDisk {
  ChiefJournal kept;
  std::string broken;  ///< why nothing can be written
  std::string unread;  ///< why nothing can be read
  int tries = 0;
};

class Chief : public ::testing::Test {
 protected:
  RuntimeOptions options(std::vector<PlacedNode> placement) {
    RuntimeOptions options;
    options.chief.placement = std::move(placement);
    options.checkpoint_period = checkpoint_period_;
    options.write_cut = [](std::shared_ptr<const Cut>) { return Status(); };
    options.chief.journal.save = [this](const ChiefJournal& journal) -> Status {
      ++disk_.tries;
      if (!disk_.broken.empty()) return Error{Code::kIo, disk_.broken};
      disk_.kept = journal;
      return {};
    };
    options.chief.journal.load = [this]() -> Result<ChiefJournal> {
      if (!disk_.unread.empty()) return Error{Code::kIo, disk_.unread};
      return disk_.kept;
    };
    return options;
  }
  LoneChief& chief() {
    if (!chief_) begin({{"chief", {}}, {"taker", {{"collector", {0}}}}, {"worker", {{"counter", {0, 1, 2}}}}});
    return *chief_;
  }
  void begin(std::vector<PlacedNode> placement) {
    chief_.emplace(options(std::move(placement)), topology_, disk_.kept);
  }
  /// Node "worker" of birth 7 hosts both instances, and they are up.
  void begin_with_one_worker(const RestartPolicy& restart = {}) {
    topology_ = testing::counting(1, 10, 2, nullptr);
    for (RoleSpec& role : topology_.roles) role.restart = restart;
    begin({{"chief", {}}, {"worker", {{"collector", {0}}, {"counter", {0}}}}});
    Control join = join_of("worker", 7);
    join.texts = {"collector", "counter"};
    chief().hear("worker", join);
    say("worker", ControlKind::kUp, 7, 1, {{"collector", 0, 0, 0, false}});
    say("worker", ControlKind::kUp, 7, 1, {{"counter", 0, 0, 0, false}});
  }
  /// The process goes, and another one comes.
  void next_chief() { chief_.reset(); }

  static Control join_of(const std::string& node, std::uint64_t birth, std::uint32_t incarnation = 0) {
    Control join;
    join.kind = ControlKind::kJoin;
    join.protocol = messages::kControlProtocol;
    join.birth = birth;
    join.incarnation = incarnation;
    join.nodes = {{node, 0, "127.0.0.1", 7000}};
    join.texts = {node == "taker" ? "collector" : "counter"};
    return join;
  }
  void say(const std::string& node, ControlKind kind, std::uint64_t birth, std::uint32_t incarnation,
           std::vector<messages::ControlInstance> instances = {}) {
    Control control;
    control.kind = kind;
    control.birth = birth;
    control.incarnation = incarnation;
    control.instances = std::move(instances);
    chief().hear(node, std::move(control));
  }
  /// The incarnations of the instances that the chief has ordered to be started.
  std::vector<std::uint32_t> spawned() {
    std::vector<std::uint32_t> incarnations;
    for (const auto& [node, order] : chief().told(ControlKind::kSpawn)) {
      incarnations.push_back(order.instances.front().incarnation);
    }
    return incarnations;
  }
  std::vector<std::uint32_t> welcomed() {
    std::vector<std::uint32_t> incarnations;
    for (const auto& [node, welcome] : chief().told(ControlKind::kWelcome)) incarnations.push_back(welcome.incarnation);
    return incarnations;
  }
  using Numbers = std::vector<std::uint32_t>;

  JournalDisk disk_;
  Duration checkpoint_period_{};
  Topology topology_ = testing::counting(3, 10, 2, nullptr);
  std::optional<LoneChief> chief_;
};

TEST_F(Chief, AJoinOfBeforeTheFirstWelcomeDoesNotMisleadTheNextChief) {
  chief().hear("taker", join_of("taker", 7));
  ASSERT_EQ(welcomed(), Numbers{1});
  say("taker", ControlKind::kUp, 7, 1, {{"collector", 0, 0, 0, false}});
  next_chief();
  // What the node said to the first chief before it was let in comes again, ahead of what it says now.
  chief().hear("taker", join_of("taker", 7));
  Control now = join_of("taker", 7, 1);
  now.instances = {{"collector", 0, 0, 0, false}};
  chief().hear("taker", now);
  ASSERT_EQ(welcomed().back(), 2u);
  const Numbers incarnations = spawned();
  ASSERT_FALSE(incarnations.empty());
  EXPECT_EQ(incarnations.back(), 1u) << "the one that runs was ordered to be replaced";
  // The node carries it out; the chief must know the new one.
  say("taker", ControlKind::kUp, 7, 2, {{"collector", 0, 1, 0, false}});
  EXPECT_FALSE(chief().told(ControlKind::kStart).empty()) << "else the run waits for ever";
}

TEST_F(Chief, AJoinThatWasOvertakenRestartsNothing) {
  chief().hear("taker", join_of("taker", 7));
  say("taker", ControlKind::kUp, 7, 1, {{"collector", 0, 0, 0, false}});
  ASSERT_EQ(spawned(), Numbers{0});
  chief().hear("taker", join_of("taker", 7));
  EXPECT_EQ(welcomed(), Numbers{1});
  chief().pass(milliseconds(500));
  EXPECT_EQ(spawned(), Numbers{}) << "it was taken for an instance that has gone";
}

TEST_F(Chief, NodesThatJoinHostAsManyInstancesOfElasticRolesAsTheyOffer) {
  for (RoleSpec& role : topology_.roles) role.elastic = true;
  const auto offer = [&](const std::string& node, std::uint64_t birth, std::vector<std::string> roles,
                         std::int64_t instances) {
    Control join = join_of(node, birth);
    join.texts = std::move(roles);
    join.counters = {{"instances", instances}};
    chief().hear(node, join);
  };
  const auto started = [&] {
    std::vector<std::string> names;
    std::set<std::uint32_t> numbers;
    for (const auto& [node, order] : chief().told(ControlKind::kSpawn)) {
      const messages::ControlInstance& instance = order.instances.front();
      names.push_back(fmt::format("{} {}-{}", node, instance.role, instance.index));
      numbers.insert(instance.number);
    }
    EXPECT_EQ(numbers.size(), names.size()) << "each has a number of its own";
    return names;
  };
  using Names = std::vector<std::string>;
  offer("one", 1, {"counter"}, 2);
  offer("two", 2, {"counter", "collector"}, 2);
  EXPECT_EQ(started(), (Names{"one counter-3", "one counter-4", "two counter-5", "two counter-6", "two collector-1",
                              "two collector-2"}));
  // The next chief has them from the journal, before their nodes say anything.
  next_chief();
  offer("three", 3, {"collector"}, 1);
  EXPECT_EQ(started(), Names{"three collector-3"});
  offer("two", 22, {"counter", "collector"}, 1);
  EXPECT_EQ(started(), (Names{"two counter-5", "two counter-6", "two collector-1", "two collector-2"}))
      << "what a node had it has again";
  // Whoever has left makes room.
  say("two", ControlKind::kLeave, 22, 2);
  offer("four", 4, {"counter"}, 3);
  EXPECT_EQ(started(), (Names{"four counter-5", "four counter-6", "four counter-7"}));
}

TEST_F(Chief, NodesThatOfferNothingThatIsWantedAreRefused) {
  topology_.roles[0].elastic = true;
  const auto answer = [&](std::vector<std::string> roles, std::int64_t instances) -> std::string {
    Control join = join_of("stranger", 9);
    join.texts = std::move(roles);
    join.counters = {{"instances", instances}};
    chief().hear("stranger", join);
    const auto refused = chief().told(ControlKind::kRefuse);
    return refused.empty() ? "welcome" : refused[0].second.text;
  };
  EXPECT_EQ(answer({"collector"}, 1), "TRP-E163 node stranger is not part of this run");
  EXPECT_EQ(answer({}, 1), "TRP-E163 node stranger is not part of this run");
  for (const std::int64_t instances : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{65}, std::int64_t{1} << 62}) {
    EXPECT_EQ(answer({"counter"}, instances),
              fmt::format("TRP-E163 node stranger offers to host {} instances, expected 1 .. 64", instances));
  }
  EXPECT_EQ(answer({"counter"}, 64), "welcome");
  EXPECT_EQ(chief().told(ControlKind::kSpawn).size(), 64U);
}

TEST_F(Chief, WithoutARoomForItsJournalNoIncarnationIsGivenOut) {
  chief();
  disk_.broken = "write chief.json: No space left on device (0 KiB free)";
  chief().hear("taker", join_of("taker", 7));
  EXPECT_EQ(welcomed(), Numbers{});
  const auto refused = chief().told(ControlKind::kRefuse);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].second.code, Code::kUnavailable) << "it asks again";
  EXPECT_THAT(refused[0].second.text, HasSubstr("TRP-E503 the chief's journal cannot be written: write chief.json: No "
                                                "space left on device"));
  EXPECT_THAT(chief().status(), HasSubstr(R"("trouble":["TRP-E503 the chief's journal cannot be written)"));
  const int tries = disk_.tries;
  for (int i = 0; i < 10; ++i) {
    chief().hear("taker", join_of("taker", 7));
    chief().pass(milliseconds(200));
  }
  EXPECT_LE(disk_.tries - tries, 11) << "the disk is tried in its own time, however often nodes ask";
  EXPECT_EQ(welcomed(), Numbers{});
  EXPECT_EQ(spawned(), Numbers{});
  disk_.broken.clear();
  chief().pass(milliseconds(300));
  chief().hear("taker", join_of("taker", 7));
  EXPECT_EQ(welcomed(), Numbers{1});
  EXPECT_EQ(spawned(), Numbers{0});
  EXPECT_EQ(disk_.kept.nodes["taker"], 1u);
  EXPECT_THAT(chief().status(), HasSubstr(R"("trouble":[])"));
}

TEST_F(Chief, AnInstanceIsRestartedOnlyWhenTheJournalHasItsNumber) {
  for (RoleSpec& role : topology_.roles) role.restart = {.max_restarts = 5, .first_backoff = milliseconds(100)};
  chief().hear("taker", join_of("taker", 7));
  say("taker", ControlKind::kUp, 7, 1, {{"collector", 0, 0, 0, false}});
  ASSERT_EQ(spawned(), Numbers{0});
  disk_.broken = "fsync chief.json: Input/output error";
  say("taker", ControlKind::kFailed, 7, 1, {{"collector", 0, 0, 0, false}});
  for (int i = 0; i < 10; ++i) {
    chief().pass(milliseconds(100));
    say("taker", ControlKind::kAlive, 7, 1);
  }
  EXPECT_EQ(spawned(), Numbers{});
  disk_.broken.clear();
  chief().pass(milliseconds(500));
  EXPECT_EQ(spawned(), Numbers{1});
  EXPECT_EQ(disk_.kept.instances["collector"], 1u);
}

TEST_F(Chief, ACheckpointWhoseNumberCannotBeKeptFailsAndTheNextOneIsTaken) {
  begin_with_one_worker();
  disk_.broken = "write chief.json: Input/output error";
  chief().checkpoint();
  ASSERT_EQ(chief().checkpoints().size(), 1u);
  EXPECT_EQ(chief().checkpoints()[0].error->code, Code::kUnavailable);
  EXPECT_THAT(chief().checkpoints()[0].error->message, HasSubstr("TRP-E503"));
  EXPECT_TRUE(chief().told(ControlKind::kCut).empty());
  disk_.broken.clear();
  chief().pass(milliseconds(300));
  chief().checkpoint();
  const auto cuts = chief().told(ControlKind::kCut);
  ASSERT_EQ(cuts.size(), 1u);
  EXPECT_EQ(cuts[0].second.number, disk_.kept.cuts_begun);
}

TEST_F(Chief, ACutThatNobodyAskedForEndsWithoutAWordWhenTheRunIsToStop) {
  checkpoint_period_ = milliseconds(400);
  begin_with_one_worker();
  chief().pass(milliseconds(450));
  ASSERT_EQ(chief().told(ControlKind::kCut).size(), 1u);
  ::testing::internal::CaptureStderr();
  chief().stop();
  chief().pass(milliseconds(450));
  EXPECT_TRUE(chief().told(ControlKind::kCut).empty()) << "it is time again, and nodes are leaving";
  say("worker", ControlKind::kLeave, 7, 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::Not(HasSubstr("TRP-E601")));
}

TEST_F(Chief, ATermThatIsNotKeptIsNotSpokenIn) {
  disk_.broken = "write chief.json: No space left on device (0 KiB free)";
  chief().hear("taker", join_of("taker", 7));
  EXPECT_EQ(welcomed(), Numbers{});
  disk_.broken.clear();
  chief().pass(milliseconds(300));
  EXPECT_EQ(disk_.kept.term, 1u);
  chief().hear("taker", join_of("taker", 7));
  EXPECT_EQ(welcomed(), Numbers{1});
}

TEST_F(Chief, ATermThatAnotherChiefHasTakenMeanwhileEndsTheOneThatCouldNotKeepIt) {
  disk_.broken = "write chief.json: No space left on device (0 KiB free)";
  chief();
  disk_.kept.term = 1;  // the other one found room first
  disk_.broken.clear();
  chief().pass(milliseconds(300));
  ASSERT_TRUE(chief().ended().has_value());
  EXPECT_EQ(chief().ended()->error->code, Code::kCancelled);
  EXPECT_TRUE(disk_.kept.nodes.empty());
}

TEST_F(Chief, ARunThatIsCompleteTakesBackWhoWasDownForItsLastCheckpoint) {
  topology_ = testing::counting(1, 10, 2, nullptr);
  for (RoleSpec& role : topology_.roles) role.restart = {.max_restarts = 5};
  begin({{"chief", {}}, {"taker", {{"collector", {0}}}}, {"worker", {{"counter", {0}}}}});
  chief().hear("worker", join_of("worker", 7));
  say("worker", ControlKind::kUp, 7, 1, {{"counter", 0, 0, 0, false}});
  chief().hear("taker", join_of("taker", 8));
  say("taker", ControlKind::kUp, 8, 1, {{"collector", 0, 0, 0, false}});
  for (int i = 0; i < 15; ++i) {  // the worker is silent
    chief().pass(milliseconds(100));
    say("taker", ControlKind::kAlive, 8, 1);
  }
  ASSERT_THAT(chief().status(), HasSubstr(R"("name":"worker","state":"dead")"));
  say("taker", ControlKind::kDone, 8, 1, {{"collector", 0, 0, 0, false}});
  ASSERT_TRUE(chief().ended().has_value());
  EXPECT_FALSE(chief().ended()->error.has_value());
  (void)spawned();
  chief().checkpoint();
  chief().pass(milliseconds(100));
  EXPECT_TRUE(chief().told(ControlKind::kCut).empty()) << "it would be without the worker's part";
  chief().hear("worker", join_of("worker", 9));
  EXPECT_EQ(spawned(), Numbers{1});
  say("worker", ControlKind::kUp, 9, 2, {{"counter", 0, 1, 0, false}});
  chief().pass(milliseconds(100));
  EXPECT_FALSE(chief().told(ControlKind::kCut).empty());
}

/// Counters complete the run; those of node "b" are away from the start of each test on.
class ChiefOfTwoHosts : public Chief {
 protected:
  void SetUp() override {
    topology_ = testing::counting(2, 10, 2, nullptr);
    for (RoleSpec& role : topology_.roles) {
      role.completes_run = role.name == "counter";
      role.restart = {.max_restarts = 5, .quarantine = role.name == "counter"};
    }
    begin({{"chief", {}}, {"taker", {{"collector", {0}}}}, {"a", {{"counter", {0}}}}, {"b", {{"counter", {1}}}}});
    chief().hear("taker", join_of("taker", 8));
    say("taker", ControlKind::kUp, 8, 1, {{"collector", 0, 0, 0, false}});
    chief().hear("a", join_of("a", 6));
    say("a", ControlKind::kUp, 6, 1, {{"counter", 0, 0, 1, false}});
    chief().hear("b", join_of("b", 7));
    say("b", ControlKind::kUp, 7, 1, {{"counter", 1, 0, 2, false}});
    pass(1500);
    ASSERT_THAT(chief().status(), HasSubstr(R"("name":"b","state":"dead")"));
  }
  void pass(int ms) {
    for (int i = 0; i < ms / 100; ++i) {
      chief().pass(milliseconds(100));
      for (const auto& [node, birth] : {std::pair("taker", 8), std::pair("a", 6)}) {
        say(node, ControlKind::kAlive, static_cast<std::uint64_t>(birth), 1);
      }
    }
  }
};

TEST_F(ChiefOfTwoHosts, ARunIsCompleteWithoutAnInstanceThatStaysAway) {
  say("a", ControlKind::kDone, 6, 1, {{"counter", 0, 0, 1, false}});
  pass(5000);
  EXPECT_FALSE(chief().ended().has_value()) << "it may come back";
  pass(6000);
  ASSERT_TRUE(chief().ended().has_value());
  EXPECT_FALSE(chief().ended()->error.has_value()) << chief().ended()->error->message;
  chief().checkpoint();
  pass(2500);
  EXPECT_FALSE(chief().told(ControlKind::kCut).empty()) << "and so is its last checkpoint";
}

TEST_F(ChiefOfTwoHosts, ARunWaitsForAnInstanceThatComesBack) {
  say("a", ControlKind::kDone, 6, 1, {{"counter", 0, 0, 1, false}});
  pass(5000);
  chief().hear("b", join_of("b", 9));
  say("b", ControlKind::kUp, 9, 2, {{"counter", 1, 1, 2, false}});
  for (int i = 0; i < 150; ++i) {
    pass(100);
    say("b", ControlKind::kAlive, 9, 2);
  }
  EXPECT_FALSE(chief().ended().has_value());
  say("b", ControlKind::kDone, 9, 2, {{"counter", 1, 1, 2, false}});
  EXPECT_TRUE(chief().ended().has_value());
}

TEST_F(ChiefOfTwoHosts, ARunIsNotCompleteWhileNobodyIsDone) {
  pass(30'000);
  EXPECT_FALSE(chief().ended().has_value());
}

TEST_F(Chief, ACompleteRunWhoseInstanceDoesNotComeBackSaysWhoAndWhy) {
  begin_with_one_worker({.max_restarts = 5, .first_backoff = std::chrono::seconds(100)});
  Control failed;
  failed.kind = ControlKind::kFailed;
  failed.birth = 7;
  failed.incarnation = 1;
  failed.instances = {{"counter", 0, 0, 0, false}};
  failed.failed = true;
  failed.text = "counter: out of numbers";
  chief().hear("worker", failed);
  say("worker", ControlKind::kDone, 7, 1, {{"collector", 0, 0, 0, false}});
  ASSERT_TRUE(chief().ended().has_value());
  chief().checkpoint();
  for (int i = 0; i < 10; ++i) {
    chief().pass(milliseconds(100));
    say("worker", ControlKind::kAlive, 7, 1);
  }
  ASSERT_EQ(chief().checkpoints().size(), 1u);
  EXPECT_EQ(chief().checkpoints()[0].error->message, "cut: counter is being restarted (counter: out of numbers)");
}

TEST_F(Chief, AnInstanceGoesOnlyToANodeWhoseCertificateHasItsRole) {
  Control join = join_of("taker", 7);
  join.texts = {"counter"};
  chief().hear("taker", join);
  EXPECT_EQ(welcomed(), Numbers{});
  const auto refused = chief().told(ControlKind::kRefuse);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].second.code, Code::kInvalidArgument);
  EXPECT_EQ(refused[0].second.text,
            "TRP-E164 node taker is to run collector, but its certificate is for the roles counter");
  chief().hear("taker", join_of("taker", 8));
  EXPECT_EQ(welcomed(), Numbers{1}) << "the right one is not kept out by it";
}

}  // namespace
}  // namespace troupe::actors
