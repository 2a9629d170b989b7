// Slurm's programs as scripts in PATH; tests/deploy/slurm_test.py has the real ones.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <troupe/apps/sweep/slurm_array.hpp>
#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(ArrayIndices, AreRangesWhereNumbersFollowEachOther) {
  EXPECT_EQ(array_indices({7}), "7");
  EXPECT_EQ(array_indices({0, 1, 2, 3}), "0-3");
  EXPECT_EQ(array_indices({0, 3, 4, 5, 9, 11, 12}), "0,3-5,9,11-12");
}

class SlurmArray : public TestDirectory {
 protected:
  SlurmArray() : sweep_{path() / "a %sweep's"}, path_before_(std::getenv("PATH")) {
    std::filesystem::create_directories(sweep_.logs());
    std::filesystem::create_directories(path() / "bin");
    setenv("PATH", ((path() / "bin").string() + ":" + path_before_).c_str(), 1);
  }
  ~SlurmArray() override { setenv("PATH", path_before_.c_str(), 1); }

  void program(const std::string& name, const std::string& script) const {
    std::ofstream(path() / "bin" / name) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(path() / "bin" / name, std::filesystem::perms::owner_all);
  }

  const SweepDirectory sweep_;
  const std::string path_before_;
};

TEST_F(SlurmArray, IsSubmittedWithTheRunsThatAreMissingAndAskedForLater) {
  program("sbatch", "for word in \"$@\"; do echo \"$word\"; done >" + (path() / "arguments").string() +
                        "; echo warning >&2; echo '12;cluster'\n");
  program("squeue", "echo \"$*\" >" + (path() / "asked").string() + "; echo '12_3 R'\n");
  EXPECT_EQ(active_job(sweep_).value(), std::nullopt) << "it has never been submitted";
  const auto job =
      submit(sweep_, {0, 2, 3}, {.program = {"python3", "/a/my sweep"}, .sbatch = {"--time=1:00"}, .jobs = 2});
  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(*job, "12");
  const std::string script = (sweep_.path / "slurm.sbatch").string();
  EXPECT_EQ(text_of(path() / "arguments"), "--parsable\n--job-name=troupe-sweep\n--output=" + path().string() +
                                               "/a %%sweep's/logs/slurm-%A_%a.log\n--signal=B:TERM@120\n"
                                               "--array=0,2-3%2\n--time=1:00\n" +
                                               script + "\n");
  EXPECT_THAT(text_of(script), StartsWith("#!/usr/bin/env bash\n"));
  EXPECT_THAT(text_of(script), HasSubstr("\nexec 'python3' '/a/my sweep' sweep --resume '" + path().string() +
                                         "/a %sweep'\\''s' --task \"$SLURM_ARRAY_TASK_ID\"\n"));
  EXPECT_EQ(active_job(sweep_).value(), "12");
  EXPECT_EQ(text_of(path() / "asked"), "--noheader --jobs=12\n");
  program("squeue", "");
  EXPECT_EQ(active_job(sweep_).value(), std::nullopt) << "all of its tasks have ended";
  program("squeue", "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1\n");
  EXPECT_EQ(active_job(sweep_).value(), std::nullopt) << "Slurm has forgotten it";
}

TEST_F(SlurmArray, SaysWhatSlurmSays) {
  program("sbatch", "echo 'sbatch: error: invalid partition specified: x' >&2; exit 1\n");
  EXPECT_THAT(submit(sweep_, {0}, {}).error().message,
              HasSubstr("sbatch has ended with exit code 1: sbatch: error: invalid partition specified: x"));
  program("sbatch", "echo 'no number'\n");
  EXPECT_THAT(submit(sweep_, {0}, {}).error().message, HasSubstr("no number"));
  std::ofstream(sweep_.path / "slurm.job") << "12\n";
  program("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1\n");
  EXPECT_THAT(active_job(sweep_).error().message, HasSubstr("Unable to contact slurm controller"));
}

}  // namespace
}  // namespace troupe::apps
