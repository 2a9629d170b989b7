#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace troupe::apps {

/// A directory of its own for each test, empty at its start and removed at its end.
class TestDirectory : public testing::Test {
 protected:
  TestDirectory() {
    const testing::TestInfo& info = *testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            ("troupe_" + std::string(info.test_suite_name()) + "_" + info.name());
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestDirectory() override { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }
  static std::string text_of(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

 private:
  std::filesystem::path path_;
};

}  // namespace troupe::apps
