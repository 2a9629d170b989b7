#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <troupe/run/find_config.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::apps {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(FindConfig, NamesStandForShippedFilesAndEverythingElseForItself) {
  const auto found = find_config("classifier");
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_TRUE(std::filesystem::equivalent(*found, source_dir() + "/apps/configs/classifier.toml"));
  EXPECT_THAT(shipped_configs(), Contains("classifier"));
  for (const std::string path : {"classifier.toml", "./classifier", "/nowhere/classifier", "here/x.toml"}) {
    EXPECT_EQ(find_config(path).value(), path);
  }
}

TEST(FindConfig, OwnFilesComeFirst) {
  const std::filesystem::path was = std::filesystem::current_path(),
                              folder = std::filesystem::path(testing::TempDir()) / "own";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "classifier") << "env = 'cheetah-run'\n";
  std::filesystem::current_path(folder);
  const auto found = find_config("classifier");
  std::filesystem::current_path(was);
  EXPECT_EQ(found.value(), "classifier");
}

TEST(FindConfig, FoldersStandForTheirFiles) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "some_configs";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "empty");
  for (const char* const name : {"b.toml", "a.toml", "c.txt"}) std::ofstream(folder / name) << "x";
  EXPECT_THAT(find_configs(folder.string()).value(), ElementsAre(folder / "a.toml", folder / "b.toml"));
  EXPECT_THAT(find_configs((folder / "b.toml").string()).value(), ElementsAre(folder / "b.toml"));
  EXPECT_EQ(find_configs("classifier").value(), std::vector{find_config("classifier").value()});
  EXPECT_THAT(find_configs((folder / "empty").string()).error().message, HasSubstr("a folder without a configuration"));
  EXPECT_THAT(find_configs("clasifier").error().message, HasSubstr("did you mean classifier?"));
}

TEST(FindConfig, UnknownNamesSuggestTheNearest) {
  const auto near = find_config("clasifier");
  ASSERT_FALSE(near.ok());
  EXPECT_EQ(near.error().code, Code::kNotFound);
  EXPECT_THAT(near.error().message, HasSubstr("clasifier: no such file"));
  EXPECT_THAT(near.error().message, HasSubstr("did you mean classifier?"));
  EXPECT_THAT(find_config("walrus").error().message, HasSubstr("there are cartpole_swingup, "));
}

}  // namespace
}  // namespace troupe::apps
