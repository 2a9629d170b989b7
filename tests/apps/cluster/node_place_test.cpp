// What a node that joins with a token keeps, and that a fresh token wins over whatever an earlier run has left in the
// folder; names that a joining node may not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <troupe/apps/cluster/node_place.hpp>
#include <troupe/tests/apps/test_directory.hpp>
#include <troupe/transport/join.hpp>
#include <troupe/transport/listener.hpp>

namespace troupe::apps {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using transport::Authority;
using transport::Credentials;
using transport::Identity;

const Identity kNode{"run-1", {"actor"}, "actor-3"};

/// A run with a chief that trades tokens.
class TokenRun {
 public:
  TokenRun(const std::filesystem::path& folder, const std::string& name)
      : authority_(Authority::create(name, std::chrono::system_clock::now()).value()), folder_(folder / "security") {
    std::filesystem::create_directories(folder);
    authority_.save(folder_.string()).value();
    ledger_ = std::make_unique<transport::TokenLedger>(folder_.string(), clock_);
    const auto admit = [](const Identity&) -> Status { return {}; };
    const auto answer = [this](std::unique_ptr<transport::Link> link) {
      (void)transport::answer_join(*link, authority_, *ledger_, std::chrono::system_clock::now(), 5s);
    };
    const Identity chief{name, {"chief"}, "chief"};
    listener_ =
        transport::Listener::start({"127.0.0.1", 0}, authority_.issue(chief, std::chrono::system_clock::now()).value(),
                                   {.admit = admit}, answer)
            .value();
  }
  /// A file with a token for the node of this name.
  std::string token(const std::string& node, const std::filesystem::path& file,
                    transport::WallTime when = std::chrono::system_clock::now()) {
    const auto token =
        ledger_->issue(authority_, {authority_.run(), {"actor"}, node}, listener_->address(), when).value();
    save_join_token(token, file.string()).value();
    return file.string();
  }
  const Authority& authority() const { return authority_; }
  std::string address() const { return transport::to_string(listener_->address()); }

 private:
  const SteadyClock clock_{};
  const Authority authority_;
  const std::filesystem::path folder_;
  std::unique_ptr<transport::TokenLedger> ledger_;
  std::unique_ptr<transport::Listener> listener_;
};

class NodePlaceTest : public TestDirectory {
 protected:
  Result<actors::NodePlace> join(const std::string& token) { return join_run({.token = token}, {path() / "joined"}); }
  std::filesystem::path kept(const std::string& node = "actor-3") const { return path() / "joined/nodes" / node; }
  void keep(const Credentials& credentials, const std::string& node = "actor-3") {
    std::filesystem::create_directories(path() / "joined/nodes");
    save_credentials(credentials, kept(node).string()).value();
  }
  std::string chief_address() const { return text_of(path() / "joined/chief.address"); }

  TokenRun run_{path() / "run", "run-1"};
};

TEST_F(NodePlaceTest, ATokenIsTradedOnceAndItsCredentialsAreUsedFromThenOn) {
  const std::string token = run_.token("actor-3", path() / "a.token");
  const auto first = join(token);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->network.self, kNode);
  const auto again = join(token);
  ASSERT_TRUE(again.ok()) << again.error().message << ", although the token is used up";
  EXPECT_EQ(again->network.credentials.certificate, first->network.credentials.certificate);
  std::filesystem::remove(token);
  const auto without = join(token);
  ASSERT_TRUE(without.ok()) << without.error().message;
  EXPECT_EQ(without->network.credentials.certificate, first->network.credentials.certificate);
}

TEST_F(NodePlaceTest, AFreshTokenWinsOverWhatIsInTheFolder) {
  const auto now = std::chrono::system_clock::now();
  const Authority twin = Authority::create("run-1", now).value();  // the same name, after RUN/security was deleted
  const Authority other = Authority::create("run-0", now).value();
  struct Case {
    const char* what;
    Credentials credentials;
  };
  const std::vector<Case> cases = {
      {"another run's", other.issue({"run-0", {"actor"}, "actor-3"}, now).value()},
      {"another authority's", twin.issue(kNode, now).value()},
      {"expired", run_.authority().issue(kNode, now - 48h, 24h).value()},
      {"not valid yet", run_.authority().issue(kNode, now + 48h, 24h).value()},
      {"for another role", run_.authority().issue({"run-1", {"learner"}, "actor-3"}, now).value()}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    std::filesystem::remove_all(path() / "joined");
    keep(one.credentials);
    keep(other.issue({"run-0", {"actor"}, "bystander"}, now).value(), "bystander");
    std::ofstream(path() / "joined/chief.address") << "127.0.0.1:1\n";
    std::filesystem::remove(path() / "a.token");
    const auto place = join(run_.token("actor-3", path() / "a.token"));
    ASSERT_TRUE(place.ok()) << place.error().message;
    EXPECT_EQ(place->network.self, kNode);
    EXPECT_EQ(place->network.credentials.authority, run_.authority().certificate());
    EXPECT_EQ(transport::to_string(*place->network.chief), run_.address()) << "not where the other run's was";
    EXPECT_EQ(transport::load_credentials(kept().string(), now).value().certificate,
              place->network.credentials.certificate);
  }
}

TEST_F(NodePlaceTest, DamagedCredentialsAreAsGoodAsNone) {
  std::filesystem::create_directories(kept());
  std::filesystem::permissions(kept(), std::filesystem::perms::owner_all);
  for (const char* file : {"authority.pem", "node.pem"}) {
    std::ofstream(kept() / file) << "cut sho";
    std::filesystem::permissions(kept() / file, std::filesystem::perms::owner_read);
  }
  const auto place = join(run_.token("actor-3", path() / "a.token"));
  ASSERT_TRUE(place.ok()) << place.error().message;
  EXPECT_EQ(place->network.self, kNode);
}

TEST_F(NodePlaceTest, AUsedOrExpiredTokenWithoutItsCredentialsIsRefused) {
  const std::string token = run_.token("actor-3", path() / "a.token");
  ASSERT_TRUE(join(token).ok());
  std::filesystem::remove_all(kept());
  EXPECT_THAT(join(token).error().message, HasSubstr("TRP-S712 join token was used already"));
  const std::string old = run_.token("actor-4", path() / "b.token", std::chrono::system_clock::now() - 1h);
  EXPECT_THAT(join(old).error().message, HasSubstr("TRP-S712 join token expired at "));
  EXPECT_EQ(join((path() / "none.token").string()).error().code, Code::kNotFound);
}

TEST_F(NodePlaceTest, WithoutTheTokenTheFolderMustLeaveNoDoubt) {
  const auto now = std::chrono::system_clock::now();
  keep(run_.authority().issue(kNode, now).value());
  keep(run_.authority().issue({"run-1", {"actor"}, "actor-4"}, now).value(), "actor-4");
  EXPECT_THAT(join((path() / "none.token").string()).error().message, HasSubstr("credentials of the nodes"));
}

TEST_F(NodePlaceTest, ANodeThatJoinsCannotHaveAPlannedName) {
  std::ofstream(path() / "run/cluster.toml") << "run = \"run-1\"\n[[nodes]]\nname = \"chief\"\n[[nodes]]\nname = "
                                                "\"learner\"\n";
  for (const char* name : {"learner", "chief"}) {
    EXPECT_EQ(check_joining_name(path() / "run", name).error().code, Code::kInvalidArgument) << name;
  }
  EXPECT_EQ(check_joining_name(path() / "run", "learner").error().message,
            "--name: learner is a node that the run has planned, expected a new name");
  EXPECT_TRUE(check_joining_name(path() / "run", "learner-2").ok());
  EXPECT_TRUE(check_joining_name(path() / "elsewhere", "learner").ok()) << "nobody has written a plan";
  const auto joined = join_run({.directory = (path() / "run").string(), .name = "learner"}, {path() / "run"});
  EXPECT_EQ(joined.error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace troupe::apps
