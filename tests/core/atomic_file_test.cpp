#include <troupe/core/atomic_file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

namespace troupe {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string text_of(const std::vector<std::byte>& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

class AtomicFile : public ::testing::Test {
 protected:
  AtomicFile() { fs::create_directories(directory_); }
  ~AtomicFile() override { fs::remove_all(directory_); }
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }

  const fs::path directory_ = fs::path(::testing::TempDir()) / ("atomic_file_test_" + std::to_string(getpid()));
};

TEST_F(AtomicFile, IsReplacedWithoutTheDiskAsWell) {
  ASSERT_TRUE(replace_file(path("a"), "first").ok());
  ASSERT_TRUE(replace_file(path("a"), "second, longer").ok());
  EXPECT_EQ(text_of(read_file(path("a"), 100).value()), "second, longer");
  EXPECT_EQ(entries(), 1u);
  EXPECT_EQ(replace_file(path("nowhere/a"), "x").error().code, Code::kIo);
}

TEST_F(AtomicFile, ReplacesTheContentAndLeavesNothingElse) {
  ASSERT_TRUE(write_file_atomic(path("a"), "first").ok());
  ASSERT_TRUE(write_file_atomic(path("a"), "second, longer").ok());
  EXPECT_EQ(text_of(read_file(path("a"), 100).value()), "second, longer");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFile, RemovesWhatKilledWritersOfTheSameFileLeftAndNothingElse) {
  const auto make = [&](const std::string& name, std::chrono::seconds age) {
    std::ofstream(path(name)) << "half";
    fs::last_write_time(path(name), fs::file_time_type::clock::now() - age);
  };
  make("a.tmp-4194304", std::chrono::seconds(10));
  make("a.tmp-12", std::chrono::hours(10));
  make("a.tmp-13", std::chrono::seconds(0));  // somebody is about to rename it
  make("a.tmp-x", std::chrono::hours(1));
  make("b.tmp-12", std::chrono::hours(1));
  fs::create_directories(path("a.tmp-14"));
  make("a.tmp-15", std::chrono::hours(1));
  FileWriter writing = FileWriter::create(path("a.tmp-16")).value();  // slowly
  fs::last_write_time(path("a.tmp-16"), fs::file_time_type::clock::now() - std::chrono::hours(1));
  ASSERT_TRUE(write_file_atomic(path("a"), "text").ok());
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(directory_)) left.push_back(entry.path().filename().string());
  EXPECT_THAT(left, ::testing::UnorderedElementsAre("a", "a.tmp-13", "a.tmp-x", "b.tmp-12", "a.tmp-14", "a.tmp-16"));
}

TEST_F(AtomicFile, ASecretIsNeverWiderThanItsMode) {
  ASSERT_TRUE(write_file_atomic(path("a"), "open").ok());
  ASSERT_TRUE(write_file_atomic(path("a"), "secret", 0600).ok());
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(AtomicFile, FailureLeavesTheOldContent) {
  fs::create_directories(path("a"));  // a directory cannot be replaced by a file
  EXPECT_EQ(write_file_atomic(path("a"), "text").error().code, Code::kIo);
  EXPECT_TRUE(fs::is_directory(path("a")));
  EXPECT_EQ(entries(), 1u) << "the temporary file is gone";
  EXPECT_THAT(write_file_atomic(path("missing/a"), "text").error().message, HasSubstr("No such file"));
}

TEST_F(AtomicFile, ReadRefusesLinksPipesAndLargeFiles) {
  ASSERT_TRUE(write_file_atomic(path("a"), "12345").ok());
  fs::create_symlink("a", path("link"));
  EXPECT_THAT(read_file(path("link"), 100).error().message, HasSubstr("symbolic link"));
  EXPECT_THAT(read_file(path("a"), 4).error().message, HasSubstr("got 5 bytes, expected at most 4"));
  EXPECT_EQ(read_file(path("b"), 4).error().code, Code::kNotFound);
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(read_file(path("pipe"), 4).error().message, HasSubstr("not a regular file"));
}

TEST_F(AtomicFile, WriterReportsSizeAndHash) {
  FileWriter writer = FileWriter::create(path("a")).value();
  ASSERT_TRUE(writer.append(std::as_bytes(std::span("ab", 2))).ok());
  ASSERT_TRUE(writer.append(std::as_bytes(std::span("c", 1))).ok());
  const FileWriter::Written written = writer.finish().value();
  EXPECT_EQ(written.bytes, 3u);
  // FIPS 180-4's example for "abc".
  EXPECT_EQ(written.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(FileWriter::create(path("a")).error().code, Code::kAlreadyExists);
}

}  // namespace
}  // namespace troupe
