// The GAN in two roles as the built program runs it: a process for the generator and for each discriminator, which are
// killed, stopped and resumed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <troupe/tests/apps/program.hpp>
#include <troupe/tests/apps/test_directory.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::apps {
namespace {

using testing::Each;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

class SplitGanCommand : public TestDirectory {
 protected:
  /// The shipped configuration with little to learn. (8 x 8 pixels, some thousand steps a second.)
  static std::string small(const std::string& command) {
    std::string words = command + " --processes";
    for (const char* const setting :
         {"data=synthetic", "layers=[16]", "batch_size=20", "evaluation_images=100", "evaluate_every_steps=1000000"}) {
      words += std::string(" --set replicas.gan.") + setting;
    }
    return words;
  }
  const std::string train_ = small("train " + source_dir() + "/apps/configs/gan_async.toml");

  nlohmann::json summary() const { return nlohmann::json::parse(text_of(path() / "a/summary.json")); }

  /// What the rows of metrics after the first `skip` have in a column.
  std::vector<double> metric(const std::string& name, std::size_t skip = 0) const {
    std::istringstream lines(text_of(path() / "a/metrics.csv"));
    std::vector<std::vector<std::string>> rows;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream cells(line);
      rows.emplace_back();
      for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
    }
    std::vector<double> values;
    const auto column = static_cast<std::size_t>(std::ranges::find(rows[0], name) - rows[0].begin());
    for (std::size_t row = 1 + skip; row < rows.size(); ++row) {
      if (column < rows[row].size() && !rows[row][column].empty()) values.push_back(std::stod(rows[row][column]));
    }
    return values;
  }
};

TEST_F(SplitGanCommand, TrainsInProcessesAndSaysHowStaleImagesWere) {
  const ProgramResult ended = run_program(path(), train_ + " --run-dir a --set replicas.gan.steps=20000");
  ASSERT_EQ(ended.exit_code, 0) << ended.out << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("node gan-discriminator-1 has joined (incarnation 1)\n"));
  EXPECT_THAT(ended.out, HasSubstr("chief |   ended by       replica steps\n"));
  EXPECT_EQ(ended.out.find("TRP-E"), std::string::npos) << ended.out;
  EXPECT_EQ(summary()["replicas"]["gan"]["evaluated_step"], 20000);
  ASSERT_FALSE(metric("gan-discriminator/fakes_used_per_s").empty());
  EXPECT_GT(std::ranges::max(metric("gan-discriminator/fakes_used_per_s")), 0);
  EXPECT_EQ(std::ranges::max(metric("gan-discriminator/fakes_dropped_per_s")), 0) << "nobody died";
  EXPECT_GT(metric("gan-discriminator/staleness_mean").back(), 0);
  EXPECT_THAT(metric("gan-discriminator/staleness_max"), Each(Le(8)));
}

TEST_F(SplitGanCommand, GoesOnWhenEitherSideIsKilledAndAfterAStop) {
  const std::string forever = train_ + " --set replicas.gan.steps=1000000 --set checkpoint.every_s=1";
  const ProgramResult stopped = run_script(path(), "troupe " + forever + R"--( --run-dir a >out 2>&1 & launcher=$!
steps() { awk -F , 'NR > 1 { steps = $3 } END { print steps + 0 }' a/metrics.csv; }
trains() {  # the generator takes steps
  local before=$(steps)
  until [ $(steps) -gt ${before:-0} ]; do sleep 0.05; done
}
kill_node() {
  for pid in $(cat /proc/$launcher/task/*/children); do
    if grep -qzx "$1" /proc/$pid/cmdline; then kill -KILL $pid; fi
  done
  until grep -q "node $1 has joined (incarnation 2)" out; do sleep 0.05; done
  trains
}
until [ -e a/checkpoints/cut.json ]; do sleep 0.05; done
trains
kill_node gan
kill_node gan-discriminator-0
kill $launcher
wait $launcher
)--");
  const std::string out = text_of(path() / "out");
  ASSERT_EQ(stopped.exit_code, 0) << out << stopped.err;
  EXPECT_THAT(out, HasSubstr("TRP-E101 node gan is dead"));
  EXPECT_THAT(out, HasSubstr("TRP-E101 node gan-discriminator-0 is dead"));
  EXPECT_THAT(out, HasSubstr("group gan-discriminator: epoch"));
  EXPECT_THAT(out, HasSubstr("TRP-I001 stopping; checkpoint "));
  EXPECT_EQ(summary()["stop_reason"], "stop requested");

  const auto steps = summary()["learner_steps"].get<std::int64_t>();
  const double discriminator_step = metric("gan-discriminator/step").back();
  const std::size_t rows = metric("learner_steps").size();
  const ProgramResult resumed =
      run_program(path(), train_ + " --resume a --set replicas.gan.steps=" + std::to_string(steps + 200));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("chief | resuming gan in a\n"));
  EXPECT_THAT(resumed.out, HasSubstr("chief |   ended by       replica steps\n"));
  EXPECT_EQ(summary()["replicas"]["gan"]["evaluated_step"], steps + 200);
  EXPECT_THAT(metric("gan/step", rows), Each(Ge(steps)));
  EXPECT_THAT(metric("gan-discriminator/step", rows), Each(Ge(discriminator_step)));
}

}  // namespace
}  // namespace troupe::apps
