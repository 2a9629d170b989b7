// A host without anything but a token meets a chief, over loopback.
#include <troupe/transport/join.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include <troupe/tests/apps/test_directory.hpp>
#include <troupe/transport/dial.hpp>
#include <troupe/transport/listener.hpp>

namespace troupe::transport {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

const Identity kChief{"run-1", {"chief", "learner"}, "node-0"};
const Identity kJoiningNode{"run-1", {"actor"}, "actor-3"};

/// A chief that answers every joining peer at once, on the listener's own thread, which only a test may do.
class JoinTest : public apps::TestDirectory {
 protected:
  JoinTest() { authority_.save(folder()).value(); }
  std::string folder() const { return (path() / "security").string(); }
  std::unique_ptr<Listener> chief(const Identity& identity = kChief) {
    const auto admit = [](const Identity&) -> Status { return {}; };
    const auto answer = [this](std::unique_ptr<Link> link) {
      const auto node = answer_join(*link, authority_, tokens_, now_, 5s);
      answers_.push_back(node.ok() ? to_uri(*node).value() : node.error().message);
    };
    const Credentials credentials = authority_.issue(identity, now_).value();
    return Listener::start({"127.0.0.1", 0}, credentials, {.admit = admit}, answer).value();
  }
  JoinToken token(const Listener& chief) {
    return tokens_.issue(authority_, kJoiningNode, chief.address(), now_).value();
  }

  const SteadyClock clock_{};
  const WallTime now_ = std::chrono::system_clock::now();
  const Authority authority_ = Authority::create("run-1", now_).value();
  TokenLedger tokens_{folder(), clock_};
  std::vector<std::string> answers_;  // the listener's thread writes; read after stop()
};

TEST_F(JoinTest, ATokenBecomesACertificateOfTheNodesOwn) {
  const auto listener = chief();
  const JoinToken ticket = token(*listener);
  const auto credentials = join(ticket, 5s);
  ASSERT_TRUE(credentials.ok()) << credentials.error().message;
  EXPECT_EQ(check(*credentials).value().identity, kJoiningNode);
  EXPECT_NE(credentials->key, ticket.join.key);
  EXPECT_THAT(join(ticket, 5s).error().message, HasSubstr("says: TRP-S712 join token was used already"));
  listener->stop();
  EXPECT_EQ(answers_,
            (std::vector<std::string>{"troupe://run-1/actor/actor-3", "TRP-S712 join token was used already"}));
}

TEST_F(JoinTest, TheTokenIsShownOnlyToTheChiefOfTheRun) {
  // Another node of the run, and another run's chief with a token's bearer that trusts it no more than anybody.
  const auto node = chief({"run-1", {"actor"}, "node-5"});
  EXPECT_EQ(join(token(*node), 5s).error().message,
            "TRP-S710 peer certificate rejected: it is of troupe://run-1/actor/node-5, expected the chief");
  const Authority other = Authority::create("run-1", now_).value();
  const auto fake = Listener::start({"127.0.0.1", 0}, other.issue(kChief, now_).value(),
                                    {.admit = [](const Identity&) -> Status { return {}; }}, [](auto) {});
  EXPECT_THAT(join(token(**fake), 5s).error().message, HasSubstr("not issued by this run's authority"));
  node->stop();
  for (const std::string& answer : answers_) EXPECT_THAT(answer, ::testing::Not(HasSubstr("troupe://")));
  EXPECT_TRUE(join(token(*chief()), 5s).ok()) << "those tokens were not used up, nor is the chief annoyed";
}

TEST_F(JoinTest, WhatIsNoRequestIsRefusedWithTheReason) {
  const auto listener = chief();
  const auto answer = [&](std::string_view request) {
    const auto link = Link::open(dial(listener->address(), 5s).value(), token(*listener).join, {.admit = only(kChief)});
    EXPECT_TRUE((*link)->send(FrameKind::kControl, std::as_bytes(std::span(request)), 5s).ok());
    const auto got = (*link)->receive(5s);
    if (!got.ok()) return got.error().message;
    return std::string(reinterpret_cast<const char*>(got->payload.data()), got->payload.size());
  };
  EXPECT_EQ(answer(""), "-TRP-S712 join token is not one of this run");
  EXPECT_EQ(answer("hello"), "-TRP-S712 join token is not one of this run");
  const std::string id = token(*listener).id;
  EXPECT_THAT(answer(id), HasSubstr("-authority: not a certificate request"));
  EXPECT_EQ(answer(id + make_request().request), "-TRP-S712 join token was used already");
}

TEST_F(JoinTest, ATokenForANameThatIsTakenIsRefused) {
  const auto admit = [](const Identity&) -> Status { return {}; };
  const auto answer = [this](std::unique_ptr<Link> link) {
    const auto taken = [](const Identity& node) -> Status {
      return Error{Code::kInvalidArgument, "no " + node.node + " here"};
    };
    (void)answer_join(*link, authority_, tokens_, now_, 5s, taken);
  };
  const auto listener =
      Listener::start({"127.0.0.1", 0}, authority_.issue(kChief, now_).value(), {.admit = admit}, answer).value();
  EXPECT_THAT(join(token(*listener), 5s).error().message, HasSubstr("says: no actor-3 here"));
}

TEST_F(JoinTest, WaitsNoLongerThanItWasTold) {
  const auto admit = [](const Identity&) -> Status { return {}; };
  std::unique_ptr<Link> silent;  // lets in, and never answers
  const auto listener = Listener::start({"127.0.0.1", 0}, authority_.issue(kChief, now_).value(), {.admit = admit},
                                        [&](std::unique_ptr<Link> link) { silent = std::move(link); });
  const Duration start = clock_.now();
  EXPECT_EQ(join(token(**listener), 500ms).error().code, Code::kDeadlineExceeded);
  EXPECT_LT(clock_.now() - start, 5s);
  std::stop_source source;
  auto stopped = std::async(std::launch::async, [&] { return join(token(**listener), 60s, source.get_token()); });
  source.request_stop();
  EXPECT_EQ(stopped.get().error().code, Code::kUnavailable);
  EXPECT_LT(clock_.now() - start, 20s);
}

}  // namespace
}  // namespace troupe::transport
