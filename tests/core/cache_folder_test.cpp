#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include <troupe/core/cache_folder.hpp>

namespace troupe {
namespace {

TEST(CacheFolder, IsTheUsersOwnOnly) {
  const auto with = [](const char* cache, const char* home) {
    const char* const was[] = {std::getenv("XDG_CACHE_HOME"), std::getenv("HOME")};
    const std::string kept[] = {was[0] == nullptr ? "" : was[0], was[1] == nullptr ? "" : was[1]};
    const auto set = [](const char* name, const char* value) {
      if (value == nullptr) {
        unsetenv(name);
      } else {
        setenv(name, value, 1);
      }
    };
    set("XDG_CACHE_HOME", cache);
    set("HOME", home);
    const std::string folder = cache_folder("plans");
    set("XDG_CACHE_HOME", was[0] == nullptr ? nullptr : kept[0].c_str());
    set("HOME", was[1] == nullptr ? nullptr : kept[1].c_str());
    return folder;
  };
  const std::string own = testing::TempDir() + "home";
  std::filesystem::create_directories(own);
  EXPECT_EQ(with(own.c_str(), "/nowhere"), own + "/troupe/plans");
  EXPECT_EQ(with(nullptr, own.c_str()), own + "/.cache/troupe/plans");
  EXPECT_EQ(with("", own.c_str()), own + "/.cache/troupe/plans");
  EXPECT_EQ(with("relative", own.c_str()), own + "/.cache/troupe/plans");
  EXPECT_EQ(with(nullptr, nullptr), "");
  EXPECT_EQ(with(nullptr, "relative"), "");
  EXPECT_EQ(with(nullptr, (own + "/missing").c_str()), "");
  // sudo with another user's HOME; not every root may give its files away.
  if (chown(own.c_str(), 65534, 65534) == 0 && geteuid() == 0) {
    EXPECT_EQ(with(nullptr, own.c_str()), "");
  }
}

}  // namespace
}  // namespace troupe
