// What tests/own_folder.cpp gives to every test program.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace troupe {
namespace {

TEST(OwnFolder, IsThisProcesssAloneAndGoneWhenItEnds) {
  struct stat found {};
  ASSERT_EQ(stat(testing::TempDir().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode, S_IFDIR | 0700);
  EXPECT_EQ(found.st_uid, geteuid());
  EXPECT_NE(testing::TempDir(), "/tmp/");

  EXPECT_TRUE(std::filesystem::is_empty(testing::TempDir()));
  const std::filesystem::path outer = std::filesystem::path(testing::TempDir()) / "outer";
  std::filesystem::create_directory(outer);
  const std::string another = "TEST_TMPDIR='" + outer.string() + "' '" +
                              std::filesystem::read_symlink("/proc/self/exe").string() +
                              "' --gtest_filter='AtomicFile.*' >/dev/null";
  EXPECT_EQ(std::system(another.c_str()), 0);
  EXPECT_TRUE(std::filesystem::is_empty(outer)) << "another process's";
}

}  // namespace
}  // namespace troupe
