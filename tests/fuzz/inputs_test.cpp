// Every fuzz target with its first inputs and with what was found once: those that the tree has, tests/fuzz/corpus, and
// those that our writers make today.
#include <gtest/gtest.h>

#include <filesystem>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/log.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::fuzz {

void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

namespace {

class FuzzTarget : public testing::TestWithParam<Target> {
 protected:
  static void SetUpTestSuite() { log::set_level(log::Level::kOff); }
};

TEST_P(FuzzTarget, ReadsItsFirstInputs) {
  const Target& target = GetParam();
  for (const std::string& seed : target.seeds()) target.one_input(bytes_of(seed));
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(source_dir() + "/tests/fuzz/corpus/" + target.name)) {
    SCOPED_TRACE(file.path());
    target.one_input(read_file(file.path(), 1 << 20).value());
    ++files;
  }
  EXPECT_GT(files, 0);
}

INSTANTIATE_TEST_SUITE_P(All, FuzzTarget, testing::ValuesIn(targets()), [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace troupe::fuzz
