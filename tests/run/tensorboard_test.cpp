// Bytes against the format's definition, and whole files against TensorBoard's own reader (read_events.py).
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <troupe/run/tensorboard.hpp>

#include <fmt/core.h>

#include <troupe/core/tf_record.hpp>
#include <troupe/run/pictures/png_writer.hpp>

#include <troupe/tests/apps/test_directory.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::apps {
namespace {

using TensorBoard = TestDirectory;
using namespace std::string_literals;

MetricRow row(double wall_s, std::int64_t learner_steps, std::vector<Scalar> scalars) {
  return {.wall_s = wall_s, .env_steps = 8, .learner_steps = learner_steps, .scalars = std::move(scalars)};
}

void write_all(const std::filesystem::path& directory, double start_unix_s, const std::vector<MetricRow>& rows) {
  Result<TensorBoardSink> sink = TensorBoardSink::create(directory, start_unix_s);
  ASSERT_TRUE(sink.ok()) << sink.error().message;
  for (const MetricRow& r : rows) sink->write(r).value();
  sink->flush().value();
}

/// What TensorBoard reads; empty after a skip.
std::string read_events(const std::filesystem::path& directory) {
  const std::string command = std::string(std::getenv("TROUPE_TEST_PYTHON")) + " " + source_dir() +
                              "/tests/apps/read_events.py '" + directory.string() + "' 2>'" +
                              (directory / "stderr").string() + "'";
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) output.append(buffer, n);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

bool have_python() {
  const char* python = std::getenv("TROUPE_TEST_PYTHON");
  return python != nullptr && *python != '\0';
}
#define SKIP_WITHOUT_PYTHON() \
  if (!have_python()) GTEST_SKIP() << "TROUPE_TEST_PYTHON is not set: tools/python_env.sh test"

TEST(TfRecord, HasLengthAndMaskedChecksums) {
  // Whether the checksums are right, TensorBoard's reader judges below.
  EXPECT_EQ(tf_record("").size(), 16u);
  const std::string record = tf_record("abc");
  EXPECT_EQ(record.substr(0, 8), "\x03\0\0\0\0\0\0\0"s);
  EXPECT_EQ(record.substr(12, 3), "abc");
  EXPECT_EQ(record.size(), 19u);
}

TEST_F(TensorBoard, ItsReaderSeesEveryScalar) {
  SKIP_WITHOUT_PYTHON();
  MetricRow last = row(1.5, 300, {{"learner/critic_loss", -2.5}});
  last.ports = {{"replay", "batches", 2.5, 640, 0.5, 0, 4}};
  write_all(path(), 1'700'000'000.5, {row(0.5, 0, {{"learner/critic_loss", 0.1}}), last});
  EXPECT_EQ(read_events(path()),
            "channels/replay.batches.bytes_per_s 300 1700000001.5 640.0\n"
            "channels/replay.batches.depth 300 1700000001.5 4.0\n"
            "channels/replay.batches.frames_per_s 300 1700000001.5 2.5\n"
            "channels/replay.batches.refused_per_s 300 1700000001.5 0.0\n"
            "channels/replay.batches.waiting 300 1700000001.5 0.5\n"
            "learner/critic_loss 0 1700000000.5 0.10000000149011612\n"
            "learner/critic_loss 300 1700000001.5 -2.5\n"
            "run/env_steps 0 1700000000.5 8.0\n"
            "run/env_steps 300 1700000001.5 8.0\n"
            "run/wall_s 0 1700000000.5 0.5\n"
            "run/wall_s 300 1700000001.5 1.5\n");
}

TEST_F(TensorBoard, ItsReaderSeesEvaluationsAtTheirOwnSteps) {
  SKIP_WITHOUT_PYTHON();
  Result<TensorBoardSink> sink = TensorBoardSink::create(path(), 1000);
  sink->record({.wall_s = 1, .source = "evaluator", .step = 40, .values = {{"return", 812.25}}}).value();
  sink->record({.wall_s = 2, .source = "gan-evaluator", .step = 9000, .values = {{"frechet_distance", 8}}}).value();
  sink->record({.wall_s = 3, .source = "final", .step = 60, .values = {{"return", 900}}}).value();
  EXPECT_EQ(read_events(path()),
            "evaluator/return 40 1000.0 812.25\n"
            "evaluator/return 60 1002.0 900.0\n"
            "gan-evaluator/frechet_distance 9000 1001.0 8.0\n");
}

TEST_F(TensorBoard, ItsReaderSeesPictures) {
  SKIP_WITHOUT_PYTHON();
  Result<TensorBoardSink> sink = TensorBoardSink::create(path(), 1000);
  sink->write(row(0, 0, {})).value();
  sink->write(row(2.5, 300, {})).value();
  const Picture picture{.source = "gan", .name = "samples", .step = 250, .height = 1, .width = 2, .pixels = {0, 255}};
  const Image image = to_image(picture);
  sink->write(picture, image).value();
  std::string expected = "gan/samples 250 1002.5 2 1 ";
  const std::vector<std::byte> png = png_bytes(image).value();
  for (const std::byte byte : png) expected += fmt::format("{:02x}", byte);
  EXPECT_NE(read_events(path()).find(expected), std::string::npos) << read_events(path()) << expected;
}

TEST_F(TensorBoard, ItsReaderSeesTheNewValuesAfterAResumeAndAllOfThemWhenOnlyTheChiefWasAway) {
  SKIP_WITHOUT_PYTHON();
  write_all(path(), 1000, {row(0, 10, {{"x", 1}}), row(1, 20, {{"x", 2}}), row(2, 30, {{"x", 3}})});
  {
    Result<TensorBoardSink> sink = TensorBoardSink::create(path(), 2000);
    sink->rewind({.wall_s = 1, .learner_steps = 22}).value();
    sink->write(row(1.2, 31, {{"x", 33}})).value();
    sink->write(row(2, 40, {{"x", 44}})).value();
  }
  write_all(path(), 3000, {row(4, 35, {{"x", 55}})});  // a learner that went back
  const std::string events = read_events(path());
  EXPECT_EQ(events.substr(events.find("x 10")),
            "x 10 1000.0 1.0\n"
            "x 20 1001.0 2.0\n"
            "x 31 2000.0 33.0\n"
            "x 40 2000.8 44.0\n"
            "x 35 3000.0 55.0\n");
}

TEST_F(TensorBoard, ItsReaderSeesOddValuesAndNames) {
  SKIP_WITHOUT_PYTHON();
  write_all(path(), 1, {row(0, std::int64_t{1} << 40, {{"a\nb\x1b[2J", 1e300}, {std::string(100'000, 'n'), -0.0}})});
  const std::string events = read_events(path());
  EXPECT_NE(events.find("a\\nb\\x1b[2J 1099511627776 1.0 inf\n"), std::string::npos) << events;
  EXPECT_NE(events.find(std::string(256, 'n') + "... 1099511627776 1.0 -0.0\n"), std::string::npos);
}

TEST_F(TensorBoard, TwoStartsInOneSecondGetTwoFiles) {
  write_all(path(), 5, {});
  write_all(path(), 5, {});
  EXPECT_TRUE(std::filesystem::exists(path() / "events.out.tfevents.5.troupe.0"));
  EXPECT_TRUE(std::filesystem::exists(path() / "events.out.tfevents.5.troupe.1"));
}

TEST_F(TensorBoard, AMissingDirectoryIsAnError) {
  const Result<TensorBoardSink> sink = TensorBoardSink::create(path() / "absent", 1);
  ASSERT_FALSE(sink.ok());
  EXPECT_EQ(sink.error().code, Code::kIo);
}

}  // namespace
}  // namespace troupe::apps
