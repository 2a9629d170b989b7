// testing::TempDir() of every test program is a folder of its own process, removed at the end: tests of several users
// and checkouts run beside each other, and never meet under a name that they share.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace troupe {
namespace {

constexpr const char* kVariable = "TEST_TMPDIR";  // what testing::TempDir() reads

class OwnFolder : public testing::Environment {
 public:
  void SetUp() override {
    if (const char* outer = std::getenv(kVariable)) outer_ = outer;
    folder_ = testing::TempDir() + "troupe-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr) << "cannot make a folder in " << testing::TempDir();
    setenv(kVariable, folder_.c_str(), 1);
  }
  void TearDown() override {
    outer_ ? setenv(kVariable, outer_->c_str(), 1) : unsetenv(kVariable);
    std::error_code error;  // a test that took a permission away may leave the folder behind
    std::filesystem::remove_all(folder_, error);
  }

 private:
  std::string folder_;
  std::optional<std::string> outer_;
};

[[maybe_unused]] const testing::Environment* const kRegistered = testing::AddGlobalTestEnvironment(new OwnFolder);

}  // namespace
}  // namespace troupe
