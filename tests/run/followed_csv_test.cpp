// FollowedCsv beside the writer of such files, CsvTable: what grows, is written anew, is cut and is torn.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <set>

#include <troupe/run/csv_metrics.hpp>
#include <troupe/run/followed_csv.hpp>

#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

class FollowedCsvTest : public TestDirectory {
 protected:
  std::filesystem::path file() const { return path() / "metrics.csv"; }
  void write(const std::string& text, std::ios::openmode mode = std::ios::trunc) const {
    std::ofstream(file(), mode | std::ios::binary) << text;
  }
  CsvSink sink() const { return CsvSink::open({file(), path() / "channels.csv", path() / "evaluations.csv"}).value(); }
};

MetricRow csv_row(double wall_s, std::vector<Scalar> scalars) {
  return {.wall_s = wall_s, .env_steps = 10, .learner_steps = 2, .scalars = std::move(scalars)};
}

TEST_F(FollowedCsvTest, TakesEachNewLineOnceAndNoTornOne) {
  write("wall_s,a\n1,2\n2,");
  FollowedCsv table(file(), 100);
  table.poll().value();
  const std::uint64_t generation = table.generation();
  ASSERT_EQ(table.rows(), 1U);
  write("3\n3,\n", std::ios::app);
  table.poll().value();
  table.poll().value();
  ASSERT_EQ(table.rows(), 3U);
  EXPECT_EQ(table.cell(1, 1), 3);
  EXPECT_TRUE(std::isnan(table.cell(2, 1)));
  EXPECT_EQ(table.generation(), generation);
}

TEST_F(FollowedCsvTest, AFileThatComesLaterOrGoesIsNoError) {
  FollowedCsv table(file(), 100);
  EXPECT_TRUE(table.poll().ok());
  EXPECT_EQ(table.rows(), 0U);
  write("wall_s\n1\n");
  table.poll().value();
  std::filesystem::remove(file());
  EXPECT_TRUE(table.poll().ok());
  EXPECT_EQ(table.rows(), 1U);
}

TEST_F(FollowedCsvTest, FollowsOverTheRewriteThatANewColumnCauses) {
  CsvSink writer = sink();
  writer.write(csv_row(1, {{"a", 1}})).value();
  FollowedCsv table(file(), 100);
  table.poll().value();
  const std::uint64_t generation = table.generation();
  writer.write(csv_row(2, {{"a", 2}, {"b, \"quoted\"", 5}})).value();
  writer.write(csv_row(3, {{"a", 3}})).value();
  table.poll().value();
  EXPECT_GT(table.generation(), generation);
  ASSERT_EQ(table.rows(), 3U);
  const std::size_t column = table.find("b, \"quoted\"");
  ASSERT_LT(column, table.names().size());
  EXPECT_TRUE(std::isnan(table.cell(0, column)));
  EXPECT_EQ(table.cell(1, column), 5);
}

TEST_F(FollowedCsvTest, RowsThatAResumeTakesBackAreGone) {
  CsvSink writer = sink();
  for (int i = 1; i <= 10; ++i) writer.write(csv_row(i, {{"a", 1}})).value();
  FollowedCsv table(file(), 100);
  table.poll().value();
  ASSERT_EQ(table.rows(), 10U);
  writer.rewind({.wall_s = 4.5, .env_steps = 10, .learner_steps = 1}).value();
  writer.write(csv_row(11, {{"a", 7}})).value();
  table.poll().value();
  ASSERT_EQ(table.rows(), 5U);
  EXPECT_EQ(table.cell(4, table.find("a")), 7);
}

TEST_F(FollowedCsvTest, AFileThatWasCutInPlaceIsReadAnewEvenWhenItHasGrownAgain) {
  write("wall_s,a\n1,1\n2,2\n3,3\n");
  FollowedCsv table(file(), 100);
  table.poll().value();
  ASSERT_EQ(truncate(file().c_str(), 13), 0);  // after the first line of data
  write("2,9\n3,8\n4,7\n", std::ios::app);
  table.poll().value();
  ASSERT_EQ(table.rows(), 4U);
  EXPECT_EQ(table.cell(1, 1), 9);
}

TEST_F(FollowedCsvTest, HoldsABoundedNumberOfLinesEvenlyOverTime) {
  std::string text = "wall_s,a\n";
  for (int i = 0; i < 5000; ++i) text += fmt::format("{},{}\n", i, i % 7);
  write(text);
  FollowedCsv table(file(), 200);
  table.poll().value();
  EXPECT_LE(table.rows(), 200U);
  EXPECT_GE(table.rows(), 90U);
  EXPECT_EQ(table.cell(0, 0), 0);
  EXPECT_EQ(table.cell(table.rows() - 1, 0), 4999);
  double widest = 0;
  for (std::size_t i = 1; i < table.rows(); ++i) widest = std::max(widest, table.cell(i, 0) - table.cell(i - 1, 0));
  EXPECT_LE(widest, 3 * 5000 / 100);  // neighbours of up to twice the room may lose the one between them
}

TEST_F(FollowedCsvTest, EachSourceKeepsItsShareWhenLinesGo) {
  std::string text = "wall_s,source,return\n";
  for (int i = 0; i < 1000; ++i) text += fmt::format("{0},evaluator,{0}\n{0},alice-evaluator,{0}\n", i);
  write(text);
  FollowedCsv table(file(), 200);
  table.poll().value();
  std::multiset<std::string> sources;
  for (std::size_t i = 0; i < table.rows(); ++i) sources.insert(table.text(table.cell(i, 1)));
  EXPECT_GE(sources.count("evaluator"), 40U);
  EXPECT_GE(sources.count("alice-evaluator"), 40U);
}

TEST_F(FollowedCsvTest, OfALongFileLinesArePickedOverAllOfItAndTheEndIsRead) {
  std::string text = "wall_s,a\n";
  constexpr int kLines = 600'000;  // 12 MB
  for (int i = 0; i < kLines; ++i) text += fmt::format("{},{:012}\n", i, i);
  write(text);
  FollowedCsv table(file(), 1000);
  table.poll().value();
  ASSERT_GE(table.rows(), 400U);
  EXPECT_EQ(table.skipped(), 0);
  EXPECT_EQ(table.cell(0, 0), 0);
  EXPECT_EQ(table.cell(table.rows() - 1, 0), kLines - 1);
  for (std::size_t i = 0; i < table.rows(); ++i) EXPECT_EQ(table.cell(i, 0), table.cell(i, 1));
  write("600000,1\n", std::ios::app);
  table.poll().value();
  EXPECT_EQ(table.cell(table.rows() - 1, 0), 600000);
}

TEST_F(FollowedCsvTest, ALineWithoutSenseIsLeftOutAndCounted) {
  write("wall_s,a\n1,2\nx,y\n2\n3,4,5\n,1\n4,5\n");
  FollowedCsv table(file(), 100);
  table.poll().value();
  EXPECT_EQ(table.rows(), 3U);  // what is too long is cut to its columns
  EXPECT_EQ(table.skipped(), 3);
}

TEST_F(FollowedCsvTest, AFirstLineWithoutEndOrOfTooManyColumnsIsRefused) {
  std::string text = "wall_s";
  for (std::size_t i = 0; i < FollowedCsv::kColumnsMax; ++i) text += ",a";
  write(text + "\n1\n");
  FollowedCsv table(file(), 100);
  EXPECT_EQ(table.poll().error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace troupe::apps
