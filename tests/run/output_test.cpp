// What -o FILE does to whatever is there already.
#include <troupe/run/output.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <thread>

#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

class OutputTest : public TestDirectory {
 protected:
  std::string file(const std::string& name) const { return (path() / name).string(); }
  static Status write(const std::string& to, const OutputOptions& options = {}) {
    TROUPE_ASSIGN(const Output output, Output::at(to, options));
    return output.write("new");
  }
};

TEST_F(OutputTest, AFileIsMadeOrReplaced) {
  EXPECT_TRUE(write(file("a")).ok());
  EXPECT_EQ(text_of(file("a")), "new");
  std::ofstream(file("b")) << "something longer than that";
  EXPECT_TRUE(write(file("b")).ok());
  EXPECT_EQ(text_of(file("b")), "new");
  struct stat status;
  EXPECT_TRUE(write(file("c"), {.secret = true}).ok());
  ASSERT_EQ(stat(file("c").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(OutputTest, ASymbolicLinkStaysAndItsTargetIsWritten) {
  fs::create_directory(path() / "folder");
  std::ofstream(file("folder/target")) << "old";
  fs::create_symlink("folder/target", path() / "link");
  fs::create_symlink("link", path() / "link-to-link");
  EXPECT_TRUE(write(file("link-to-link")).ok());
  EXPECT_TRUE(fs::is_symlink(path() / "link"));
  EXPECT_TRUE(fs::is_symlink(path() / "link-to-link"));
  EXPECT_EQ(text_of(file("folder/target")), "new");
  fs::create_symlink("folder/absent", path() / "dangling");
  EXPECT_TRUE(write(file("dangling")).ok());
  EXPECT_TRUE(fs::is_symlink(path() / "dangling"));
  EXPECT_EQ(text_of(file("folder/absent")), "new");
  fs::create_symlink("round", path() / "round");
  EXPECT_EQ(write(file("round")).error().code, Code::kIo);
}

TEST_F(OutputTest, ADeviceIsWrittenAndStaysOne) {
  EXPECT_TRUE(write("/dev/null").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const Status full = write("/dev/full");
  EXPECT_EQ(full.error().message, "write /dev/full: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  fs::create_symlink("/dev/null", path() / "link");
  EXPECT_TRUE(write(file("link")).ok());
  EXPECT_TRUE(fs::is_symlink(path() / "link"));
}

TEST_F(OutputTest, AFifoIsWrittenAndStaysOne) {
  ASSERT_EQ(mkfifo(file("fifo").c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = text_of(file("fifo")); });
  EXPECT_TRUE(write(file("fifo")).ok());
  reader.join();
  EXPECT_EQ(read, "new");
  EXPECT_TRUE(fs::is_fifo(path() / "fifo"));
}

TEST_F(OutputTest, ADescriptorIsNotOpenedAnew) {
  const int log = open(file("log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  ASSERT_GE(log, 0);
  ASSERT_EQ(::write(log, "before ", 7), 7);
  EXPECT_TRUE(write("/dev/fd/" + std::to_string(log)).ok());
  close(log);
  EXPECT_EQ(text_of(file("log")), "before new");
  EXPECT_FALSE(write("/dev/fd/" + std::to_string(log)).ok());
}

TEST_F(OutputTest, InputsAreRefused) {
  std::ofstream(file("run.toml")) << "env = 'a'";
  fs::create_symlink("run.toml", path() / "link");
  fs::create_hard_link(path() / "run.toml", path() / "hard");
  for (const char* name : {"run.toml", "link", "hard", "./run.toml"}) {
    const Status refused = write(file(name), {.inputs = {path() / "run.toml"}});
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().message,
              "-o " + file(name) + ": this is what the command reads, and it would be overwritten");
  }
  EXPECT_EQ(text_of(file("run.toml")), "env = 'a'");
  EXPECT_FALSE(write(file("metrics.csv"), {.run = path()}).ok()) << "not even where it is not there yet";
  EXPECT_TRUE(write(file("x.png"), {.run = path()}).ok());
}

TEST_F(OutputTest, WhatCannotBeWrittenIsSaidBeforeAnyWork) {
  const auto why = [](const std::string& name) { return Output::at(name).error().message; };
  EXPECT_EQ(why(""), "-o: expected the name of a file");
  EXPECT_EQ(why(path().string()), "-o " + path().string() + ": is a directory, expected a file");
  EXPECT_EQ(why(file("absent/")), "-o " + file("absent/") + ": expected a file, not a directory");
  EXPECT_EQ(why(file("absent/x")), "-o " + file("absent/x") + ": there is no folder " + file("absent"));
  EXPECT_EQ(why(file(std::string(256, 'x'))), "-o " + file(std::string(256, 'x')) + ": File name too long");
  std::ofstream(file("x")) << "x";
  EXPECT_EQ(why(file("x/y")), "-o " + file("x/y") + ": Not a directory");
  EXPECT_EQ(Output::at("\x1b[31m/x").error().message, "-o \\x1b[31m/x: there is no folder \\x1b[31m");
  if (geteuid() == 0) return;  // whom permissions do not stop
  fs::permissions(path() / "x", fs::perms::owner_read);
  EXPECT_EQ(why(file("x")), "-o " + file("x") + ": Permission denied");
}

TEST_F(OutputTest, TheSuffixDecidesTheFormat) {
  constexpr std::array<std::string_view, 2> kFormats = {"svg", "png"};
  const auto format = [&](const std::string& name) { return Output::at(name).value().format(kFormats, "dot"); };
  EXPECT_EQ(format(file("a.svg")).value(), "svg");
  EXPECT_EQ(format(file("a.b.PNG")).value(), "png");
  EXPECT_EQ(format("-").value(), "dot");
  EXPECT_EQ(format("/dev/null").value(), "dot");
  for (const char* name : {"a", "a.jpg", "a.svg.gz", ".svg", "a.", "svg", "asvg"}) {
    ASSERT_FALSE(format(file(name)).ok()) << name;
    EXPECT_EQ(format(file(name)).error().message,
              "-o " + file(name) + ": expected a name that ends in .svg or .png, or - for the standard output");
  }
}

}  // namespace
}  // namespace troupe::apps
