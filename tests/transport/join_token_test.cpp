// Join tokens: what is in the file, who may read it, and that each is worth one node, once, in time.
#include <troupe/transport/join_token.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <troupe/tests/apps/test_directory.hpp>
#include <troupe/transport/identity.hpp>

namespace troupe::transport {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

const WallTime kTokenTime = std::chrono::sys_days(std::chrono::year(2025) / 6 / 30) + 12h;
const Address kTokenChief{"10.0.0.2", 7000};
const Identity kTokenNode{"run-1", {"actor"}, "actor-3"};

class JoinTokenTest : public apps::TestDirectory {
 protected:
  JoinTokenTest() { authority_.save(folder()).value(); }
  std::string folder() const { return (path() / "security").string(); }
  std::string file() const { return (path() / "join.token").string(); }
  JoinToken issue(TokenLedger& ledger, Identity node = kTokenNode) const {
    return ledger.issue(authority_, std::move(node), kTokenChief, kTokenTime).value();
  }
  TokenLedger ledger() const { return TokenLedger(folder(), clock_); }
  static std::string message(const Result<Identity>& result) {
    return result.ok() ? "redeemed" : result.error().message;
  }

  mutable ManualClock clock_;
  const Authority authority_ = Authority::create("run-1", kTokenTime).value();
};

TEST_F(JoinTokenTest, CarriesAllThatAHostNeedsToMeetTheChief) {
  auto tokens = ledger();
  const JoinToken made = issue(tokens);
  ASSERT_TRUE(save_join_token(made, file()).ok());
  EXPECT_EQ(fs::status(file()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  const JoinToken token = load_join_token(file(), kTokenTime).value();
  EXPECT_EQ(token.chief, kTokenChief);
  EXPECT_EQ(token.node, kTokenNode);
  EXPECT_EQ(token.id, made.id);
  EXPECT_EQ(token.expires, kTokenTime + 10min);
  EXPECT_EQ(token.join.authority, authority_.certificate());
  const CertificateInfo join = check(token.join).value();
  EXPECT_EQ(join.identity.roles, std::vector<std::string>{"join"});
  EXPECT_EQ(join.identity.run, "run-1");
  EXPECT_EQ(join.valid_until, kTokenTime + 10min);
}

TEST_F(JoinTokenTest, NamesTheNodeWhenNobodyElseDoes) {
  auto tokens = ledger();
  const Identity unnamed{"run-1", {"actor", "evaluator"}, ""};
  const std::string first = issue(tokens, unnamed).node.node;
  EXPECT_THAT(first, ::testing::StartsWith("actor-"));
  EXPECT_EQ(first.size(), std::string("actor-12345678").size());
  EXPECT_NE(issue(tokens, unnamed).node.node, first);
  const auto refusal = [&](const Identity& node, std::chrono::seconds lifetime) {
    return tokens.issue(authority_, node, kTokenChief, kTokenTime, lifetime).error().message;
  };
  EXPECT_THAT(refusal({"run-1", {}, ""}, 60s), HasSubstr("0 roles"));
  EXPECT_THAT(refusal({"run-1", {"join"}, "n"}, 60s), HasSubstr("for the role join, which no node has"));
  EXPECT_EQ(refusal(kTokenNode, 25h), "TRP-S712 join token lifetime of 90000 s, expected 1 to 86400");
  EXPECT_THAT(refusal(kTokenNode, 0s), HasSubstr("lifetime of 0 s"));
}

TEST_F(JoinTokenTest, IsRedeemedExactlyOnce) {
  auto tokens = ledger();
  const JoinToken token = issue(tokens), other = issue(tokens, {"run-1", {"replay"}, "replay-0"});
  EXPECT_NE(token.id, other.id);
  EXPECT_EQ(tokens.redeem(token.id, "bearer", kTokenTime + 1min).value(), kTokenNode);
  EXPECT_EQ(message(tokens.redeem(token.id, "bearer", kTokenTime + 1min)), "TRP-S712 join token was used already");
  EXPECT_EQ(tokens.redeem(other.id, "bearer", kTokenTime + 9min).value().node, "replay-0");
}

TEST_F(JoinTokenTest, OfManyAtOnceOnlyOneSucceeds) {
  auto tokens = ledger();
  const JoinToken token = issue(tokens);
  std::atomic<int> redeemed = 0;
  {
    // Each with a ledger of its own, as in processes of their own.
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] { redeemed += ledger().redeem(token.id, "bearer", kTokenTime).ok() ? 1 : 0; });
    }
  }
  EXPECT_EQ(redeemed, 1);
}

TEST_F(JoinTokenTest, ARestartedChiefKnowsWhatWasIssuedAndUsed) {
  JoinToken used, open;
  {
    auto tokens = ledger();
    used = issue(tokens);
    open = issue(tokens, {"run-1", {"actor"}, "actor-4"});
    ASSERT_TRUE(tokens.redeem(used.id, "bearer", kTokenTime).ok());
  }
  auto tokens = ledger();
  EXPECT_EQ(message(tokens.redeem(used.id, "bearer", kTokenTime)), "TRP-S712 join token was used already");
  EXPECT_EQ(tokens.redeem(open.id, "bearer", kTokenTime).value().node, "actor-4");
}

TEST_F(JoinTokenTest, TheLedgerHoldsNoSecrets) {
  auto tokens = ledger();
  const JoinToken token = issue(tokens);
  EXPECT_EQ(fs::status(folder() + "/tokens").permissions(), fs::perms::owner_all);
  for (const auto& entry : fs::recursive_directory_iterator(folder())) {
    if (!entry.is_regular_file()) continue;
    EXPECT_EQ(text_of(entry.path()).find(token.id), std::string::npos);
    EXPECT_EQ(entry.path().string().find(token.id.substr(0, 16)), std::string::npos);
    EXPECT_EQ(entry.status().permissions(), fs::perms::owner_read | fs::perms::owner_write);
  }
}

TEST_F(JoinTokenTest, WrongAndLateTokensAreRefusedWithTheReason) {
  auto tokens = ledger();
  const JoinToken token = issue(tokens);
  EXPECT_EQ(message(tokens.redeem(token.id, "bearer", kTokenTime + 10min)),
            "TRP-S712 join token expired at 2025-06-30T12:10:00Z");
  std::string wrong = token.id;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  for (const std::string& id : {std::string(64, 'a'), wrong, token.id + "0", token.id.substr(1), std::string(),
                                std::string(64, '/'), std::string("../../authority.key")}) {
    EXPECT_EQ(message(tokens.redeem(id, "bearer", kTokenTime)), "TRP-S712 join token is not one of this run") << id;
  }
  EXPECT_TRUE(tokens.redeem(token.id, "bearer", kTokenTime).ok()) << "none of that used it up";
}

TEST_F(JoinTokenTest, TenWrongOnesInAMinuteAreEnough) {
  auto tokens = ledger();
  const JoinToken token = issue(tokens);
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(message(tokens.redeem(std::string(64, 'a'), "bearer", kTokenTime)),
                HasSubstr("is not one of this run"));
    clock_.advance(1s);
  }
  const auto refused = tokens.redeem(token.id, "bearer", kTokenTime);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_EQ(refused.error().message, "TRP-S712 join token not looked at: 10 wrong ones in a minute, try again in 50 s");
  const JoinToken other = issue(tokens);
  EXPECT_TRUE(tokens.redeem(other.id, "another bearer", kTokenTime).ok())
      << "who has a good one does not wait for that";
  clock_.advance(50s);
  EXPECT_TRUE(tokens.redeem(token.id, "bearer", kTokenTime).ok());
}

TEST_F(JoinTokenTest, OldTokensAreForgottenAndTheirNumberIsBounded) {
  auto tokens = ledger();
  const JoinToken used = issue(tokens);
  ASSERT_TRUE(tokens.redeem(used.id, "bearer", kTokenTime).ok());
  const fs::path entry = fs::directory_iterator(folder() + "/tokens")->path();
  for (std::size_t i = 1; i < TokenLedger::kTokensMax; ++i) fs::copy_file(entry, entry.string() + std::to_string(i));
  EXPECT_EQ(tokens.issue(authority_, kTokenNode, kTokenChief, kTokenTime).error().message,
            "TRP-S712 join token not made: 1000 others are known");
  EXPECT_TRUE(tokens.issue(authority_, kTokenNode, kTokenChief, kTokenTime + 25h).ok())
      << "a day after the others ended";
  const fs::directory_iterator files(folder() + "/tokens");
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(JoinTokenTest, ADamagedLedgerIsSaidSoAndLetsNobodyIn) {
  auto tokens = ledger();
  const JoinToken token = issue(tokens);
  const fs::path entry = fs::directory_iterator(folder() + "/tokens")->path();
  const std::string whole = text_of(entry);
  for (std::size_t size = 0; size + 2 < whole.size(); size += 11) {
    std::ofstream(entry, std::ios::binary) << whole.substr(0, size);
    EXPECT_THAT(message(tokens.redeem(token.id, "bearer", kTokenTime)),
                HasSubstr("TRP-S712 join token: the ledger is damaged: "));
  }
  fs::permissions(entry, fs::perms(0644));
  EXPECT_THAT(message(tokens.redeem(token.id, "bearer", kTokenTime)), HasSubstr("opens it to others"));
}

TEST_F(JoinTokenTest, ATokenFileIsCheckedCompletely) {
  auto tokens = ledger();
  const JoinToken token = issue(tokens);
  ASSERT_TRUE(save_join_token(token, file()).ok());
  const std::string whole = text_of(file());
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto result = parse_join_token(text, "join.token", kTokenTime);
    return result.ok() ? "accepted" : result.error().message;
  };
  EXPECT_EQ(refusal("10.0.0.2", "10.0.0.3"), "accepted");
  EXPECT_THAT(refusal("10.0.0.2:7000", "10.0.0.2"), HasSubstr("join.token: chief: address: got \"10.0.0.2\""));
  EXPECT_THAT(refusal("troupe://run-1/actor", "troupe://run-1"), HasSubstr("join.token: node: identity: got"));
  EXPECT_THAT(refusal("troupe://run-1/actor", "troupe://run-2/actor"),
              HasSubstr("join.token: certificate: is of troupe://run-1/join/token-"));
  EXPECT_EQ(refusal(token.id, token.id.substr(1)), "join.token: id: expected 64 hexadecimal digits");
  EXPECT_EQ(refusal("\"id\"", "\"identity\""), "join.token: expected a text \"id\"");
  EXPECT_EQ(refusal("{", "{\"more\": 1,"), "join.token: unknown field \"more\"");
  EXPECT_EQ(refusal("\"troupe_join_token\": 1", "\"troupe_join_token\": 2"),
            "join.token: \"troupe_join_token\" is 2, expected 1");
  for (const char* bracket : {"[", "{\"a\":"}) {  // quoted in the refusal, so many would have ended the process
    std::string deep;
    for (int i = 0; i < 5000; ++i) deep += bracket;
    EXPECT_EQ(refusal("\"troupe_join_token\": 1", "\"troupe_join_token\": " + deep),
              "join.token: expected a JSON object with \"troupe_join_token\"");
  }
  EXPECT_EQ(refusal("\"troupe_join_token\": 1", "\"troupe_join_token\": []"),
            "join.token: expected a JSON object with \"troupe_join_token\"");
  EXPECT_THAT(refusal("BEGIN PRIVATE KEY", "BEGIN PUBLIC KEY"),
              HasSubstr("certificate: expected a certificate and its"));
  for (std::size_t size = 0; size + 2 < whole.size(); size += 13) {
    EXPECT_FALSE(parse_join_token(whole.substr(0, size), "join.token", kTokenTime).ok()) << size;
  }
  EXPECT_EQ(parse_join_token(std::string(100000, '['), "env", kTokenTime).error().message,
            "env: 100000 bytes, expected at most 32768");
  EXPECT_EQ(parse_join_token(whole, "join.token", kTokenTime + 10min).error().message,
            "TRP-S712 join token expired at 2025-06-30T12:10:00Z");
  EXPECT_EQ(load_join_token(file() + ".no", kTokenTime).error().code, Code::kNotFound);
  fs::permissions(file(), fs::perms(0644));
  EXPECT_THAT(load_join_token(file(), kTokenTime).error().message, HasSubstr("mode 0644 opens it to others"));
}

TEST_F(JoinTokenTest, ANodesOwnCertificateIsNoToken) {
  auto tokens = ledger();
  JoinToken token = issue(tokens);
  token.join = authority_.issue(kTokenNode, kTokenTime).value();
  ASSERT_TRUE(save_join_token(token, file()).ok());
  EXPECT_THAT(load_join_token(file(), kTokenTime).error().message,
              HasSubstr("is of troupe://run-1/actor/actor-3, expected the role join in the run run-1"));
}

}  // namespace
}  // namespace troupe::transport
