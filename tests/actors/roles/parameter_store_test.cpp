#include <troupe/actors/roles/parameter_store.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors {
namespace {

using testing::FakeContext;

Frame parameters(FakeContext& context, std::int64_t version) {
  auto builder = messages::ParametersBuilder::make(context.pool(), DType::kF32, 4).value();
  std::fill(builder.data().begin(), builder.data().end(), std::byte{0});
  return std::move(builder).finish({version, 7, 0, DType::kF32});
}

TEST(StalenessHistogram, BucketsDoubleAndWeighByEnvironmentSteps) {
  StalenessHistogram histogram;
  histogram.add(0, 16);
  histogram.add(1, 16);
  histogram.add(3, 32);
  histogram.add(1 << 20, 64);
  EXPECT_EQ(histogram.buckets()[0], 16);
  EXPECT_EQ(histogram.buckets()[1], 16);
  EXPECT_EQ(histogram.buckets()[2], 32);
  EXPECT_EQ(histogram.buckets()[StalenessHistogram::kBuckets - 1], 64);
  EXPECT_EQ(histogram.max(), 1 << 20);
  EXPECT_EQ(histogram.percentile(0.1), 0);
  EXPECT_EQ(histogram.percentile(0.25), 1);
  EXPECT_EQ(histogram.percentile(0.5), 3);
  EXPECT_EQ(histogram.percentile(0.9), 1 << 20);
  EXPECT_EQ(StalenessHistogram().percentile(0.9), 0);
  EXPECT_DOUBLE_EQ(histogram.mean(), (16.0 + 3 * 32 + 64.0 * (1 << 20)) / 128);
}

TEST(ParameterStore, PassesNewVersionsOnByPointer) {
  FakeContext context;
  ParameterStore store;
  const Frame frame = parameters(context, 10);
  context.in("updates").frames.push_back(frame);
  EXPECT_EQ(store.step(context).value(), Progress::kIdle);
  ASSERT_EQ(context.out("parameters").sent.size(), 1u);
  EXPECT_EQ(context.out("parameters").sent[0].bytes().data(), frame.bytes().data());
  ASSERT_EQ(context.out("versions").sent.size(), 1u);
  EXPECT_EQ(messages::read_parameters_version(context.out("versions").sent[0]).value().version, 10);
}

TEST(ParameterStore, RefusesAnOlderVersionAndWhatIsMalformedAndGoesOn) {
  FakeContext context;
  ParameterStore store;
  context.in("updates").frames.push_back(parameters(context, 10));
  ASSERT_TRUE(store.step(context).ok());
  context.in("updates").frames.push_back(parameters(context, 9));
  ASSERT_TRUE(store.step(context).ok());
  ASSERT_EQ(context.refused.size(), 1u);
  EXPECT_EQ(context.refused[0], "updates: update: got version 9, expected 10 or newer");
  ASSERT_EQ(context.out("refused").sent.size(), 1u);
  EXPECT_EQ(messages::read_parameters_version(context.out("refused").sent[0])->version, 10);
  const std::vector<std::byte> noise(64, std::byte{0x5a});
  context.in("updates").frames.push_back(context.pool().copy(noise).value());
  context.in("use").frames.push_back(context.pool().copy(noise).value());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(store.step(context).ok());
  EXPECT_EQ(context.refused.size(), 3u);
  EXPECT_EQ(context.out("parameters").sent.size(), 1u);
  context.in("updates").frames.push_back(parameters(context, 11));
  ASSERT_TRUE(store.step(context).ok());
  EXPECT_EQ(context.out("parameters").sent.size(), 2u);
}

TEST(ParameterStore, CountsHowStaleTheParametersWereThatActed) {
  FakeContext context;
  ParameterStore store;
  context.in("updates").frames.push_back(parameters(context, 10));
  context.in("use").frames.push_back(messages::make_parameters_use(context.pool(), {0, 10, 16}).value());
  context.in("use").frames.push_back(messages::make_parameters_use(context.pool(), {0, 4, 16}).value());
  ASSERT_TRUE(store.step(context).ok());
  Report report;
  store.report(report);
  EXPECT_EQ(report.gauges[1].name, "staleness_mean");
  EXPECT_DOUBLE_EQ(report.gauges[1].value, 3);
  EXPECT_EQ(report.gauges[2].name, "staleness_p50");
  EXPECT_DOUBLE_EQ(report.gauges[2].value, 0);
  EXPECT_EQ(report.gauges[3].name, "staleness_p90");
  EXPECT_DOUBLE_EQ(report.gauges[3].value, 6);
  EXPECT_EQ(report.gauges[5].name, "staleness_max");
  EXPECT_DOUBLE_EQ(report.gauges[5].value, 6);
}

}  // namespace
}  // namespace troupe::actors
