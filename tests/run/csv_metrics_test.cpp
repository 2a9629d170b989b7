#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <limits>

#include <troupe/run/csv_metrics.hpp>

#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

using CsvMetrics = TestDirectory;

MetricRow row(double wall_s, std::vector<Scalar> scalars) {
  return {.wall_s = wall_s, .env_steps = 10, .learner_steps = 2, .scalars = std::move(scalars)};
}

void write_all(const std::filesystem::path& file, const std::vector<MetricRow>& rows) {
  Result<CsvSink> sink = CsvSink::open(file);
  ASSERT_TRUE(sink.ok()) << sink.error().message;
  for (const MetricRow& r : rows) sink->write(r).value();
  sink->flush().value();
}

TEST_F(CsvMetrics, WritesOneLineARowAndAColumnAName) {
  const auto file = path() / "metrics.csv";
  write_all(file, {row(0.5, {{"actor/steps_per_s", 100}}),
                   row(1.25, {{"learner/critic_loss", 0.1}, {"actor/steps_per_s", 1e-7}}), row(2, {})});
  EXPECT_EQ(text_of(file),
            "wall_s,env_steps,learner_steps,actor/steps_per_s,learner/critic_loss\n"
            "0.5,10,2,100,\n"
            "1.25,10,2,1e-07,0.1\n"
            "2,10,2,,\n");
}

TEST_F(CsvMetrics, ReadsBackTheSameBits) {
  const auto file = path() / "metrics.csv";
  const std::vector<double> values = {
      0.1 + 0.2, 1.0 / 3, 5e-324, -0.0, 1.7976931348623157e308, std::numeric_limits<double>::infinity()};
  std::vector<MetricRow> rows;
  for (const double value : values) rows.push_back(row(static_cast<double>(rows.size()), {{"x", value}}));
  rows.push_back(row(99, {{"x", std::nan("")}}));
  write_all(file, rows);
  const Result<std::vector<MetricRow>> read = read_csv_metrics(file);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->size(), rows.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ((*read)[i].scalars[0].value, values[i]);
    EXPECT_EQ(std::signbit((*read)[i].scalars[0].value), std::signbit(values[i]));
    EXPECT_EQ((*read)[i].env_steps, 10);
    EXPECT_EQ((*read)[i].learner_steps, 2);
  }
  EXPECT_TRUE(std::isnan(read->back().scalars[0].value));
}

TEST_F(CsvMetrics, QuotesAndEscapesHostileNames) {
  const auto file = path() / "metrics.csv";
  write_all(file, {row(1, {{"a,b", 1}, {"say \"hi\"", 2}, {"line\nbreak\x1b[2J", 3}})});
  EXPECT_EQ(text_of(file),
            "wall_s,env_steps,learner_steps,\"a,b\",\"say \"\"hi\"\"\",line\\nbreak\\x1b[2J\n1,10,2,1,2,3\n");
  const Result<std::vector<MetricRow>> read = read_csv_metrics(file);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ((*read)[0].scalars[0].name, "a,b");
  EXPECT_EQ((*read)[0].scalars[1].name, "say \"hi\"");
  EXPECT_EQ((*read)[0].scalars[2].value, 3);
}

TEST_F(CsvMetrics, GoesOnWithTheFileOfARun) {
  const auto file = path() / "metrics.csv";
  write_all(file, {row(1, {{"x", 1}}), row(2, {{"x", 2}})});
  write_all(file, {row(2.5, {{"y", 25}}), row(3.5, {{"x", 35}})});
  EXPECT_EQ(text_of(file), "wall_s,env_steps,learner_steps,x,y\n1,10,2,1,\n2,10,2,2,\n2.5,10,2,,25\n3.5,10,2,35,\n");
}

TEST_F(CsvMetrics, GoesOnWithAFileWhoseNamesItWouldNotHaveWritten) {
  const auto file = path() / "metrics.csv";
  const std::string longest(300, 'n');  // names are cut to 256
  const std::string begun =
      "wall_s,env_steps,learner_steps,odd\x01"
      "name," +
      longest + "\n1,10,2,5,6\n";
  std::ofstream(file) << begun;
  write_all(file, {});
  EXPECT_EQ(text_of(file), begun);
}

TEST_F(CsvMetrics, DropsTheRowsOfLostWorkAndNoOthers) {
  const auto file = path() / "metrics.csv";
  write_all(file, {{1, 100, 10, {}},
                   {2, 200, 90, {}},  // a learner that died and went back: that was before the checkpoint
                   {3, 300, 30, {}},  // the newest before the checkpoint of 310 and 33
                   {3.1, 320, 32, {}},
                   {3.2, 305, 34, {}},
                   {3.3, 310, 33, {}}});  // the final evaluation of a run that ended with this checkpoint
  Result<CsvSink> sink = CsvSink::open(file);
  ASSERT_TRUE(sink->rewind({3, 310, 33, {}}).ok());
  ASSERT_TRUE(sink->write({4, 330, 35, {}}).ok());
  EXPECT_EQ(text_of(file), "wall_s,env_steps,learner_steps\n1,100,10\n2,200,90\n3,300,30\n3.3,310,33\n4,330,35\n");
}

TEST_F(CsvMetrics, DropsALineThatACrashCutShort) {
  const auto file = path() / "metrics.csv";
  std::ofstream(file) << "wall_s,env_steps,learner_steps,x\n1,10,2,1\n2,10,2,2.";
  write_all(file, {row(3, {{"x", 3}})});
  EXPECT_EQ(text_of(file), "wall_s,env_steps,learner_steps,x\n1,10,2,1\n3,10,2,3\n");
}

TEST_F(CsvMetrics, RefusesFilesThatItDidNotWrite) {
  const auto file = path() / "metrics.csv";
  const auto message = [&](const std::string& text) {
    std::ofstream(file) << text;
    const Result<CsvSink> sink = CsvSink::open(file);
    EXPECT_EQ(text_of(file), text);  // untouched
    return sink.ok() ? "opened" : sink.error().message;
  };
  const std::string name = file.string();
  EXPECT_EQ(message("a,b\n1,2\n"),
            name + ":1: not a metrics file: got \"a,b\", expected \"wall_s,env_steps,learner_steps\"");
  EXPECT_EQ(message("wall_s,env_steps,learner_steps,x\n1,2,3,4\n1,2,3\n"),
            name + ":3: got \"1,2,3\", expected 4 numbers");
  EXPECT_EQ(message("wall_s,env_steps,learner_steps,x\n1,2.5,3,4\n"),
            name + ":2: got \"1,2.5,3,4\", expected 4 numbers");
  EXPECT_EQ(message("wall_s,env_steps,learner_steps,x\n1,2,3,4x\n"), name + ":2: got \"1,2,3,4x\", expected 4 numbers");
}

/// No file can grow beyond so many bytes: what a full disk is to whoever writes.
class FullDisk {
 public:
  explicit FullDisk(std::uintmax_t bytes) {
    old_handler_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    rlimit limit = old_limit_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_limit_ = {};
  void (*old_handler_)(int) = nullptr;
};

TEST_F(CsvMetrics, AFullDiskCostsRowsAndTearsNone) {
  const auto file = path() / "metrics.csv";
  Result<CsvSink> sink = CsvSink::open(file);
  ASSERT_TRUE(sink.ok()) << sink.error().message;
  ASSERT_TRUE(sink->write(row(1, {{"a", 1}})).ok());
  {
    const FullDisk full(std::filesystem::file_size(file) + 3);
    EXPECT_EQ(sink->write(row(2, {{"a", 2}})).error().code, Code::kIo);
    EXPECT_EQ(sink->write(row(3, {{"a", 3}, {"new", 3}})).error().code, Code::kIo);  // the header cannot be changed
  }
  ASSERT_TRUE(sink->write(row(4, {{"a", 4}})).ok());
  EXPECT_EQ(text_of(file), "wall_s,env_steps,learner_steps,a,new\n1,10,2,1,\n4,10,2,4,\n");
}

}  // namespace
}  // namespace troupe::apps
