#include <sys/stat.h>

#include <fstream>

#include <gmock/gmock.h>

#include <troupe/page/guard.hpp>

#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::page {
namespace {

using testing::HasSubstr;

const Guard kGuard(8000, "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
constexpr std::string_view kCookie = "a=b; troupe-8000=fedcba9876543210fedcba9876543210";

Asked asked() { return {.method = "GET", .host = "127.0.0.1:8000", .cookie = kCookie, .path = "/page.js"}; }

TEST(Guard, ServesWhoHasTheCookie) {
  EXPECT_EQ(kGuard.judge(asked()).kind, Verdict::Kind::kServe);
  for (const char* host : {"localhost:8000", "[::1]:8000"}) {
    Asked other = asked();
    other.host = host;
    EXPECT_EQ(kGuard.judge(other).kind, Verdict::Kind::kServe) << host;
  }
}

TEST(Guard, RefusesEveryOtherHostWhateverElseIsRight) {
  for (const char* host : {"", "127.0.0.1", "127.0.0.1:8001", "evil.example:8000", "127.0.0.1:8000.evil.example",
                           "localhost", "0.0.0.0:8000"}) {
    Asked other = asked();
    other.host = host;
    EXPECT_EQ(kGuard.judge(other).status, 421) << host;
  }
}

TEST(Guard, RefusesEveryOtherMethodWhateverElseIsRight) {
  for (const char* method : {"POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "get", ""}) {
    Asked other = asked();
    other.method = method;
    EXPECT_EQ(kGuard.judge(other).status, 405) << method;
  }
}

TEST(Guard, RefusesWhoHasNoneOrAnotherSecret) {
  for (const char* cookie :
       {"", "troupe-8000=", "troupe-8000=0123456789abcdef0123456789abcdef",
        "troupe-8001=fedcba9876543210fedcba9876543210", "xtroupe-8000=fedcba9876543210fedcba9876543210",
        "troupe-8000=fedcba9876543210fedcba987654321"}) {
    Asked other = asked();
    other.cookie = cookie;
    EXPECT_EQ(kGuard.judge(other).status, 403) << cookie;
  }
}

TEST(Guard, TradesTheTokenOfTheLinkForACookieThatScriptsAndOtherSitesDoNotGet) {
  Asked first = {.method = "GET", .host = "127.0.0.1:8000", .path = "/", .token = "0123456789abcdef0123456789abcdef"};
  const Verdict verdict = kGuard.judge(first);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kTrade);
  EXPECT_EQ(verdict.set_cookie, "troupe-8000=fedcba9876543210fedcba9876543210; Path=/; HttpOnly; SameSite=Strict");
  EXPECT_EQ(kGuard.link(), "http://127.0.0.1:8000/?token=0123456789abcdef0123456789abcdef");
  first.token = "fedcba9876543210fedcba9876543210";
  EXPECT_EQ(kGuard.judge(first).status, 403);
  first.token = "0123456789abcdef0123456789abcdef";
  first.host = "evil.example:8000";
  EXPECT_EQ(kGuard.judge(first).status, 421);
}

TEST(Guard, TakesTheTokenAsABearer) {
  Asked scraper = {.method = "GET",
                   .host = "127.0.0.1:8000",
                   .authorization = "Bearer 0123456789abcdef0123456789abcdef",
                   .path = "/metrics"};
  EXPECT_EQ(kGuard.judge(scraper).kind, Verdict::Kind::kServe);
  scraper.authorization = "Basic 0123456789abcdef0123456789abcdef";
  EXPECT_EQ(kGuard.judge(scraper).status, 403);
}

class TokenFile : public apps::TestDirectory {
 protected:
  std::string file() const { return (path() / "token").string(); }
};

TEST_F(TokenFile, IsMadeForItsOwnerAloneAndStaysTheSame) {
  const std::string token = token_in(file()).value();
  EXPECT_EQ(token.size(), 32U);
  struct stat status = {};
  ASSERT_EQ(stat(file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_EQ(token_in(file()).value(), token);
  EXPECT_NE(random_secret().value(), random_secret().value());
}

TEST_F(TokenFile, ThatOthersCanReadOrThatHoldsSomethingElseIsRefused) {
  std::ofstream(file()) << "0123456789abcdef0123456789abcdef\n";
  chmod(file().c_str(), 0640);
  EXPECT_THAT(token_in(file()).error().message, HasSubstr("chmod 600"));
  std::ofstream(file()) << "hello\n";
  chmod(file().c_str(), 0600);
  EXPECT_THAT(token_in(file()).error().message, HasSubstr("32 to 256 hexadecimal digits"));
}

}  // namespace
}  // namespace troupe::page
