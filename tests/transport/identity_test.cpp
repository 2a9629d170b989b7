#include <troupe/transport/identity.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::transport {
namespace {

using ::testing::HasSubstr;

const Identity kIdentifiedNode{"run-1", {"actor", "evaluator"}, "node-3"};

TEST(Identity, HasOneSpellingAsAUri) {
  EXPECT_EQ(to_uri(kIdentifiedNode).value(), "troupe://run-1/actor+evaluator/node-3");
  EXPECT_EQ(parse_identity("troupe://run-1/actor+evaluator/node-3").value(), kIdentifiedNode);
  const Identity longest{std::string(64, 'r'), {}, std::string(64, 'n')};
  Identity many = longest;
  for (std::size_t i = 0; i < kRolesMax; ++i) many.roles.push_back(std::string(63, 'x') + static_cast<char>('a' + i));
  EXPECT_EQ(parse_identity(to_uri(many).value()).value(), many) << "the bounds themselves are allowed";
}

TEST(Identity, KnowsItsRoles) {
  EXPECT_TRUE(kIdentifiedNode.has_role("actor"));
  EXPECT_TRUE(kIdentifiedNode.has_role("evaluator"));
  EXPECT_FALSE(kIdentifiedNode.has_role("act"));
  EXPECT_FALSE(kIdentifiedNode.has_role("actor+evaluator"));
  EXPECT_FALSE(kIdentifiedNode.has_role(""));
}

TEST(Identity, AnythingElseIsRefused) {
  const std::vector<std::string> refused = {
      "",
      "troupe://",
      "troupe://run/actor",
      "troupe://run/actor/n/extra",
      "troupe://run/actor/n/",
      "Troupe://run/actor/n",
      "http://run/actor/n",
      " troupe://run/actor/n",
      "troupe://run/actor/n ",
      "troupe:///actor/n",
      "troupe://run//n",
      "troupe://run/actor+/n",
      "troupe://run/+actor/n",
      "troupe://run/actor+actor/n",
      "troupe://run/actor/..",
      "troupe://run/actor/-n",
      "troupe://run/Actor/n",
      "troupe://run/actor%20/n",
      std::string("troupe://run/actor/n\0", 21),
      "troupe://run/actor/n\xc3\xa9",
      "troupe://run/actor/" + std::string(kNameBytesMax + 1, 'n'),
      "troupe://run/actor/" + std::string(1 << 20, 'n'),
      "troupe://run/a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+q/n",
  };
  for (const std::string& uri : refused) {
    const auto result = parse_identity(uri);
    ASSERT_FALSE(result.ok()) << uri.substr(0, 100);
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    EXPECT_LT(result.error().message.size(), 500u);
  }
}

TEST(Identity, SaysWhichPartIsWrong) {
  EXPECT_EQ(to_uri({"run", {"actor"}, "Node 3"}).error().message,
            "identity: node \"Node 3\", expected 1 to 64 of a-z 0-9 . _ - beginning with a letter or digit");
  EXPECT_EQ(to_uri({"run", {}, "n"}).error().message, "identity: 0 roles, expected 1 to 16");
  EXPECT_EQ(to_uri({"run", {"a", "b", "a"}, "n"}).error().message, "identity: role \"a\" is there twice");
  EXPECT_THAT(to_uri({"", {"a"}, "n"}).error().message, HasSubstr("run \"\""));
  EXPECT_EQ(parse_identity("ftp://\x1b[2J").error().message,
            "identity: got \"ftp://\\x1b[2J\", expected troupe://RUN/ROLE+ROLE/NODE");
}

}  // namespace
}  // namespace troupe::transport
