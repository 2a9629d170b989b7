#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <limits>

#include <troupe/run/csv_metrics.hpp>

#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

/// The three files of a run.
class CsvMetrics : public TestDirectory {
 protected:
  CsvSink::Paths paths() const { return {path() / "metrics.csv", path() / "channels.csv", path() / "evaluations.csv"}; }
  CsvSink open() const {
    Result<CsvSink> sink = CsvSink::open(paths());
    EXPECT_TRUE(sink.ok()) << sink.error().message;
    return std::move(sink).value();
  }
  void write_all(const std::vector<MetricRow>& rows) const {
    CsvSink sink = open();
    for (const MetricRow& r : rows) sink.write(r).value();
    sink.flush().value();
  }
  std::string metrics() const { return text_of(paths().metrics); }
  std::string evaluations() const { return text_of(paths().evaluations); }
};

MetricRow row(double wall_s, std::vector<Scalar> scalars) {
  return {.wall_s = wall_s, .env_steps = 10, .learner_steps = 2, .scalars = std::move(scalars)};
}

TEST_F(CsvMetrics, WritesOneLineARowAndAColumnAName) {
  write_all({row(0.5, {{"actor/steps_per_s", 100}}),
             row(1.25, {{"learner/critic_loss", 0.1}, {"actor/steps_per_s", 1e-7}}), row(2, {})});
  EXPECT_EQ(metrics(),
            "wall_s,env_steps,learner_steps,actor/steps_per_s,learner/critic_loss\n"
            "0.5,10,2,100,\n"
            "1.25,10,2,1e-07,0.1\n"
            "2,10,2,,\n");
}

TEST_F(CsvMetrics, WritesALineAPortIntoAFileOfItsOwn) {
  MetricRow with_ports = row(1, {{"x", 1}});
  with_ports.ports = {{"actor", "trajectories", 2.5, 100, 0.25, 0, {}}, {"replay", "trajectories", 2.5, 100, 0, 1, 3}};
  write_all({with_ports});
  EXPECT_EQ(metrics(), "wall_s,env_steps,learner_steps,x\n1,10,2,1\n");
  EXPECT_EQ(text_of(paths().channels),
            "wall_s,env_steps,learner_steps,role,port,frames_per_s,bytes_per_s,waiting,refused_per_s,depth\n"
            "1,10,2,actor,trajectories,2.5,100,0.25,0,\n"
            "1,10,2,replay,trajectories,2.5,100,0,1,3\n");
  EXPECT_EQ(read_channels_csv(paths().channels)->size(), 2u);
}

TEST_F(CsvMetrics, WritesALineAnEvaluation) {
  CsvSink sink = open();
  sink.record({1.5, "gan-evaluator", 200, 0, {{"frechet_distance", 12.5}}}).value();
  sink.record({2, "evaluator", 100, 5000, {{"return", 800}, {"episodes", 10}}}).value();
  sink.record({3, "gan-evaluator", 400, 0, {{"frechet_distance", std::nan("")}}}).value();
  EXPECT_EQ(evaluations(),
            "wall_s,source,step,env_steps,frechet_distance,return,episodes\n"
            "1.5,gan-evaluator,200,0,12.5,,\n"
            "2,evaluator,100,5000,,800,10\n"
            "3,gan-evaluator,400,0,nan,,\n");
  const auto read = read_evaluations_csv(paths().evaluations);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->size(), 3u);
  const Evaluation& second = (*read)[1];
  EXPECT_EQ(second.wall_s, 2);
  EXPECT_EQ(second.source, "evaluator");
  EXPECT_EQ(second.step, 100);
  EXPECT_EQ(second.env_steps, 5000);
  EXPECT_EQ(find_scalar(second.values, "return"), 800);
  EXPECT_FALSE(find_scalar(second.values, "frechet_distance"));
}

TEST_F(CsvMetrics, ReadsBackTheSameBits) {
  const std::vector<double> values = {
      0.1 + 0.2, 1.0 / 3, 5e-324, -0.0, 1.7976931348623157e308, std::numeric_limits<double>::infinity()};
  std::vector<MetricRow> rows;
  for (const double value : values) rows.push_back(row(static_cast<double>(rows.size()), {{"x", value}}));
  rows.push_back(row(99, {{"x", std::nan("")}}));
  write_all(rows);
  const Result<std::vector<MetricRow>> read = read_metrics_csv(paths().metrics);
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
  write_all({row(1, {{"a,b", 1}, {"say \"hi\"", 2}, {"line\nbreak\x1b[2J", 3}})});
  EXPECT_EQ(metrics(),
            "wall_s,env_steps,learner_steps,\"a,b\",\"say \"\"hi\"\"\",line\\nbreak\\x1b[2J\n1,10,2,1,2,3\n");
  const Result<std::vector<MetricRow>> read = read_metrics_csv(paths().metrics);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ((*read)[0].scalars[0].name, "a,b");
  EXPECT_EQ((*read)[0].scalars[1].name, "say \"hi\"");
  EXPECT_EQ((*read)[0].scalars[2].value, 3);
  CsvSink sink = open();
  sink.record({1, "a,\"b\"\n", 1, 0, {}}).value();
  EXPECT_EQ(evaluations(), "wall_s,source,step,env_steps\n1,\"a,\"\"b\"\"\\n\",1,0\n");
  EXPECT_EQ(read_evaluations_csv(paths().evaluations)->front().source, "a,\"b\"\\n");
}

TEST_F(CsvMetrics, GoesOnWithTheFileOfARun) {
  write_all({row(1, {{"x", 1}}), row(2, {{"x", 2}})});
  write_all({row(2.5, {{"y", 25}}), row(3.5, {{"x", 35}})});
  EXPECT_EQ(metrics(), "wall_s,env_steps,learner_steps,x,y\n1,10,2,1,\n2,10,2,2,\n2.5,10,2,,25\n3.5,10,2,35,\n");
}

TEST_F(CsvMetrics, GoesOnWithAFileWhoseNamesItWouldNotHaveWritten) {
  const std::string longest(300, 'n');  // names are cut to 256
  const std::string begun =
      "wall_s,env_steps,learner_steps,odd\x01"
      "name," +
      longest + "\n1,10,2,5,6\n";
  std::ofstream(paths().metrics) << begun;
  write_all({});
  EXPECT_EQ(metrics(), begun);
}

TEST_F(CsvMetrics, DropsTheRowsOfLostWorkAndNoOthers) {
  MetricRow beyond_it{3.2, 305, 34};
  beyond_it.ports = {{.role = "actor", .port = "out", .depth = {}}};
  write_all({{1, 100, 10},
             {2, 200, 90},  // a learner that died and went back: that was before the checkpoint
             {3, 300, 30},  // the newest before the checkpoint of 310 and 33
             {3.1, 320, 32},
             beyond_it,
             {3.3, 310, 33}});  // the last row of a run that ended with this checkpoint
  CsvSink sink = open();
  ASSERT_TRUE(sink.rewind({3, 310, 33}).ok());
  ASSERT_TRUE(sink.write({4, 330, 35}).ok());
  EXPECT_EQ(metrics(), "wall_s,env_steps,learner_steps\n1,100,10\n2,200,90\n3,300,30\n3.3,310,33\n4,330,35\n");
  EXPECT_TRUE(read_channels_csv(paths().channels)->empty());
}

TEST_F(CsvMetrics, DropsTheEvaluationsOfLostWorkAndNoOthers) {
  CsvSink sink = open();
  for (const Evaluation& evaluation : std::vector<Evaluation>{{1, "evaluator", 90},  // of a learner that went back
                                                              {3.1, "evaluator", 30},
                                                              {3.2, "evaluator", 34},
                                                              {3.3, "gan-evaluator", 500},
                                                              {3.4, "gan-evaluator", 600},
                                                              {3.5, "other", 700}}) {
    ASSERT_TRUE(sink.record(evaluation).ok());
  }
  ASSERT_TRUE(sink.rewind({3, 310, 33, {{"evaluator", 33}, {"gan-evaluator", 500}}}).ok());
  EXPECT_EQ(evaluations(),
            "wall_s,source,step,env_steps\n1,evaluator,90,0\n3.1,evaluator,30,0\n3.3,gan-evaluator,500,0\n"
            "3.5,other,700,0\n");
}

TEST_F(CsvMetrics, DropsALineThatACrashCutShort) {
  std::ofstream(paths().metrics) << "wall_s,env_steps,learner_steps,x\n1,10,2,1\n2,10,2,2.";
  std::ofstream(paths().evaluations) << "wall_s,source,step,env_steps,loss\n1,mlp-evaluator,20,0,0.5\n2,mlp-ev";
  write_all({row(3, {{"x", 3}})});
  EXPECT_EQ(metrics(), "wall_s,env_steps,learner_steps,x\n1,10,2,1\n3,10,2,3\n");
  EXPECT_EQ(evaluations(), "wall_s,source,step,env_steps,loss\n1,mlp-evaluator,20,0,0.5\n");
}

TEST_F(CsvMetrics, RefusesFilesThatItDidNotWrite) {
  const auto message = [&](const std::filesystem::path& file, const std::string& text) {
    std::ofstream(file) << text;
    const Result<CsvSink> sink = CsvSink::open(paths());
    EXPECT_EQ(text_of(file), text);  // untouched
    std::filesystem::remove(file);
    return sink.ok() ? "opened" : sink.error().message;
  };
  const std::string name = paths().metrics.string();
  EXPECT_EQ(message(name, "a,b\n1,2\n"),
            name + ":1: got \"a,b\", expected columns that begin with \"wall_s,env_steps,learner_steps\"");
  EXPECT_EQ(message(name, "wall_s,env_steps,learner_steps_,x\n"),
            name +
                ":1: got \"wall_s,env_steps,learner_steps_,x\", expected columns that begin with "
                "\"wall_s,env_steps,learner_steps\"");
  const std::string expected = ", expected 4 cells: wall_s,env_steps,learner_steps, and numbers or nothing";
  EXPECT_EQ(message(name, "wall_s,env_steps,learner_steps,x\n1,2,3,4\n1,2,3\n"), name + ":3: got \"1,2,3\"" + expected);
  EXPECT_EQ(message(name, "wall_s,env_steps,learner_steps,x\n1,2.5,3,4\n"), name + ":2: got \"1,2.5,3,4\"" + expected);
  EXPECT_EQ(message(name, "wall_s,env_steps,learner_steps,x\n1,2,3,4x\n"), name + ":2: got \"1,2,3,4x\"" + expected);
  const std::string found = paths().evaluations.string();
  EXPECT_EQ(message(found, "wall_s,source,step,env_steps\n1,evaluator,many,0\n"),
            found + ":2: got \"1,evaluator,many,0\", expected 4 cells: wall_s,source,step,env_steps");
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
  CsvSink sink = open();
  ASSERT_TRUE(sink.write(row(1, {{"a", 1}})).ok());
  {
    const FullDisk full(std::filesystem::file_size(paths().metrics) + 3);
    EXPECT_EQ(sink.write(row(2, {{"a", 2}})).error().code, Code::kIo);
    EXPECT_EQ(sink.write(row(3, {{"a", 3}, {"new", 3}})).error().code, Code::kIo);  // the header cannot be changed
  }
  ASSERT_TRUE(sink.write(row(4, {{"a", 4}})).ok());
  EXPECT_EQ(metrics(), "wall_s,env_steps,learner_steps,a,new\n1,10,2,1,\n4,10,2,4,\n");
}

TEST_F(CsvMetrics, AFileThatIsRemovedIsMadeAnewAndAnothersIsLeftAlone) {
  CsvSink sink = open();
  ASSERT_TRUE(sink.write(row(1, {{"a", 1}})).ok());
  std::filesystem::remove(paths().metrics);
  ASSERT_TRUE(sink.write(row(2, {{"a", 2}})).ok());
  EXPECT_EQ(metrics(), "wall_s,env_steps,learner_steps,a\n2,10,2,2\n");
  std::filesystem::resize_file(paths().metrics, 0);
  ASSERT_TRUE(sink.write(row(2, {{"a", 2}, {"b", 3}})).ok());
  EXPECT_EQ(metrics(), "wall_s,env_steps,learner_steps,a,b\n2,10,2,2,3\n");
  std::ofstream(paths().metrics) << "wall_s,env_steps,learner_steps,other\n1,1,1,1\n";
  const Status refused = sink.write(row(3, {{"c", 3}}));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("has a column \"other\" that this run did not write"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(metrics(), "wall_s,env_steps,learner_steps,other\n1,1,1,1\n");
}

TEST_F(CsvMetrics, AFullDiskCostsNoEvaluation) {
  CsvSink sink = open();
  ASSERT_TRUE(sink.record({1, "evaluator", 10, 0, {{"return", 1}}}).ok());
  {
    const FullDisk full(std::filesystem::file_size(paths().evaluations) + 3);
    EXPECT_EQ(sink.record({2, "evaluator", 20, 0, {{"return", 2}}}).error().code, Code::kIo);
    EXPECT_EQ(sink.record({3, "evaluator", 30, 0, {{"accuracy", 3}}}).error().code, Code::kIo);
  }
  ASSERT_TRUE(sink.write(row(4, {})).ok());
  EXPECT_EQ(evaluations(),
            "wall_s,source,step,env_steps,return,accuracy\n1,evaluator,10,0,1,\n2,evaluator,20,0,2,\n"
            "3,evaluator,30,0,,3\n");
}

}  // namespace
}  // namespace troupe::apps
