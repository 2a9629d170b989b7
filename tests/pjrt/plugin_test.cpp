// What the loader says of files that are no plug-ins, or too old ones: with shared objects of the test's own.
#include <troupe/pjrt/plugin.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include <troupe/pjrt/client.hpp>
#include <troupe/pjrt/compile_options.hpp>

namespace troupe::pjrt {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

Error refusal(const std::filesystem::path& path) {
  auto plugin = Plugin::open(path);
  EXPECT_FALSE(plugin.ok()) << path;
  return plugin.ok() ? Error{} : plugin.error();
}

TEST(PjrtPlugin, MissingFileIsNamed) {
  const Error error = refusal("/nonexistent/pjrt.so");
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_EQ(error.message, "pjrt: no plug-in /nonexistent/pjrt.so: No such file or directory");
}

TEST(PjrtPlugin, FileThatIsNoLibraryIsRefused) {
  const auto path = std::filesystem::path(testing::TempDir()) / "not_a_library.so";
  std::ofstream(path) << "text";
  const Error error = refusal(path);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, EndsWith("not_a_library.so: no shared object of 64 bits"));
  EXPECT_THAT(refusal(testing::TempDir()).message, EndsWith("no file, expected a shared object"));
}

TEST(PjrtPlugin, LibraryThatIsCutShortIsRefusedAndNotTouched) {
  const auto path = std::filesystem::path(testing::TempDir()) / "cut_short.so";
  std::filesystem::copy_file(PJRT_OTHER_MAJOR, path, std::filesystem::copy_options::overwrite_existing);
  ASSERT_TRUE(Plugin::check_file(path).ok());
  for (const std::uintmax_t bytes : {std::uintmax_t{4096}, std::uintmax_t{70}, std::uintmax_t{5}}) {
    std::filesystem::resize_file(path, bytes);
    const Status cut = Plugin::check_file(path);
    ASSERT_FALSE(cut.ok()) << bytes;
    EXPECT_THAT(cut.error().message, HasSubstr(bytes == 5 ? "no shared object" : "cut short"));
  }
  EXPECT_EQ(refusal(path).code, Code::kInvalidArgument);
}

TEST(PjrtPlugin, LibraryWithoutTheEntryIsRefused) {
  const Error error = refusal(PJRT_EMPTY);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, EndsWith("exports no GetPjrtApi: it is no PJRT plug-in"));
}

TEST(PjrtPlugin, OtherMajorVersionIsRefusedWithBoth) {
  const Error error = refusal(PJRT_OTHER_MAJOR);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("has version 1.7 of the API in 72 bytes, expected 0.N in at least 40"));
}

TEST(PjrtPlugin, TableWithoutErrorsIsRefused) {
  const Error error = refusal(PJRT_WITHOUT_ERRORS);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("(PJRT 0.7) has no PJRT_Error_GetCode"));
}

TEST(PjrtPlugin, FunctionThatItIsTooOldForIsNamedWithBothVersions) {
  auto plugin = Plugin::open(PJRT_SMALL);
  ASSERT_TRUE(plugin.ok()) << plugin.error().message;
  EXPECT_TRUE((*plugin)->has<c::PluginInitialize>());
  EXPECT_FALSE((*plugin)->has<c::ClientCreate>());
  auto client = Client::make(*plugin);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code, Code::kInvalidArgument);
  EXPECT_EQ(client.error().message,
            "pjrt: libpjrt_small.so (PJRT 0.7) has no PJRT_Client_Create: it is older than version 0.114, which Troupe "
            "is written for; use a newer plug-in");
}

TEST(PjrtPlugin, FailureToInitialiseHasThePluginsWordsAndStays) {
  for (int i = 0; i < 2; ++i) {
    const Error error = refusal(PJRT_FAILING);
    EXPECT_EQ(error.code, Code::kNotFound);
    EXPECT_EQ(error.message, "pjrt: libpjrt_failing.so: PJRT_Plugin_Initialize: it has no devices (code 5)");
  }
}

TEST(PjrtPlugin, IsOpenedOnceForAPath) {
  auto first = Plugin::open(PJRT_SMALL), second = Plugin::open(PJRT_SMALL);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
}

TEST(PjrtNamedValues, ComeBackAsTheyWere) {
  const std::vector<NamedValue> values = {{"text", std::string("a")},
                                          {"number", std::int64_t{-3}},
                                          {"list", std::vector<std::int64_t>{1, 2}},
                                          {"real", 0.5F},
                                          {"yes", true}};
  const std::vector<c::NamedValue> given = to_c(values);
  const std::vector<NamedValue> back = from_c(given.data(), given.size());
  ASSERT_EQ(back.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(back[i].name, values[i].name);
    EXPECT_EQ(back[i].value, values[i].value);
  }
  EXPECT_EQ(to_string(back[2]), "list = [1, 2]");
}

TEST(PjrtCompileOptions, AreTheBytesThatPluginsTake) {
  EXPECT_EQ(to_proto({}), "\x1a\x04\x20\x01\x28\x01");
  EXPECT_EQ(to_proto({.replicas = 4, .quickly = true}), "\x1a\x07\x20\x04\x28\x01\xc0\x01\x09");
  EXPECT_EQ(to_proto({.flags = {{"f", true}}}), std::string("\x1a\x04\x20\x01\x28\x01\x3a\x07\x0a\x01"
                                                            "f\x12\x02\x10\x01"));
}

}  // namespace
}  // namespace troupe::pjrt
