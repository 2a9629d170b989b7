#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <troupe/core/installation.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe {
namespace {

namespace fs = std::filesystem;

TEST(InstallationTest, ProgramsOfABuildHaveTheFilesOfThatBuild) {
  EXPECT_EQ(installation().libraries, fs::path(binary_dir()) / "lib");
  EXPECT_TRUE(fs::equivalent(installation().shared / "configs", fs::path(source_dir()) / "apps/configs"));
  EXPECT_TRUE(fs::exists(installation().shared / "dm_control/suite/cartpole.xml"));
}

// Any library will do: what counts is the folder that it was loaded from.
TEST(InstallationTest, ProgramsWithALibraryOfAnInstallationHaveTheFilesOfThatInstallation) {
  const fs::path prefix = fs::canonical(testing::TempDir()) / "prefix", library = prefix / "lib/troupe/libany.so";
  fs::create_directories(library.parent_path());
  fs::copy_file(fs::path(binary_dir()) / "tests/gpu/libwrong_abi_plugin.so", library);
  const auto shared_with_loaded = [&] {
    void* const opened = dlopen((prefix / "bin/../lib/troupe/libany.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(opened, nullptr) << dlerror();
    const Installation found = installation();
    if (opened != nullptr) dlclose(opened);
    return found;
  };
  fs::create_directories(prefix / "bin");
  EXPECT_EQ(shared_with_loaded().libraries, fs::path(binary_dir()) / "lib");  // no installation: it has no share/troupe
  fs::create_directories(prefix / "share/troupe");
  EXPECT_EQ(shared_with_loaded().libraries, prefix / "lib/troupe");
  EXPECT_EQ(shared_with_loaded().shared, prefix / "share/troupe");
}

}  // namespace
}  // namespace troupe
