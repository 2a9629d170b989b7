// A GAN in two roles: each by hand, then both over channels on threads.
#include <troupe/actors/roles/split_gan.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/roles/replica_results.hpp>
#include <troupe/actors/roles/replica_topology.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/run/models/models.hpp>
#include <troupe/tests/actors/fake_context.hpp>
#include <troupe/tests/run/section.hpp>

namespace troupe::actors {
namespace {

using ::testing::ElementsAre;
using testing::FakeContext;

ReplicaGroupOptions group() {
  return {.name = "gan", .replicator = "split_gan", .batch_size = 20, .steps = 30, .evaluate_every_steps = 10};
}

/// What a test says of the generator and the discriminator.
struct Network {
  std::string kind = "mlp";
  bool conditional = false;
  std::int64_t n_dis = 1;
};

ReplicaModel model(const Network& network = {}) {
  const ModelKind kind = sngan_model();
  const ConfigSection keys = troupe::testing::section(kind.keys, {{"data", std::string("synthetic")},
                                                                  {"layers", std::vector<std::int64_t>{4}},
                                                                  {"evaluation_images", std::int64_t{500}},
                                                                  {"network", network.kind},
                                                                  {"width", std::int64_t{3}},
                                                                  {"discriminator_width", std::int64_t{3}},
                                                                  {"conditional", network.conditional},
                                                                  {"learning_rate", 1e-3},
                                                                  {"n_dis", network.n_dis}});
  ReplicaModel made = kind.make(keys).value()({.seed = group().seed, .steps = group().steps}).value();
  made.make_judge = nullptr;  // which would have to learn first
  return made;
}

Topology topology(const ReplicaGroupOptions& options = group(), const Network& network = {}) {
  Topology both;
  const Status added = add_replica_group(both, options, model(network));
  EXPECT_TRUE(added.ok()) << added.error().message;
  return both;
}

std::unique_ptr<Role> make(const Topology& topology, const std::string& role) {
  auto made = topology.find(role)->make({.role = role});
  EXPECT_TRUE(made.ok()) << made.error().message;
  return std::move(made).value();
}

Progress step(Role& role, FakeContext& context) {
  const auto progress = role.step(context);
  EXPECT_TRUE(progress.ok()) << progress.error().message;
  return progress.ok() ? *progress : Progress::kDone;
}

double reported(const Role& role, const std::string& name) {
  Report report;
  role.report(report);
  for (const auto* list : {&report.counters, &report.gauges}) {
    for (const Scalar& scalar : *list) {
      if (scalar.name == name) return scalar.value;
    }
  }
  ADD_FAILURE() << "nothing is reported as " << name;
  return -1;
}

std::vector<std::int64_t> versions_of_fakes(FakeContext& context) {
  std::vector<std::int64_t> all;
  for (const Frame& frame : context.out("fakes").sent) {
    const auto batch = messages::read_batch(frame).value();
    EXPECT_EQ(batch.columns().rows, 20);
    all.push_back(batch.rows().parameters_versions[0]);
  }
  return all;
}

TEST(SplitGan, AGeneratorSendsWhatItMakesWithItsVersionAndWaitsForRoom) {
  const auto role = make(topology(group(), {.n_dis = 2}), "gan");
  FakeContext context;
  context.out("fakes").room = 6;  // the last of which stays for a discriminator that starves
  for (int i = 0; i < 5; ++i) EXPECT_EQ(step(*role, context), Progress::kMore);
  EXPECT_EQ(step(*role, context), Progress::kIdle);
  EXPECT_EQ(reported(*role, "steps"), 5);
  EXPECT_THAT(versions_of_fakes(context), ElementsAre(0, 0, 1, 1, 2));  // it is updated in every second step
  std::vector<std::int64_t> announced;
  for (const Frame& frame : context.out("versions").sent) {
    announced.push_back(messages::read_parameters_version(frame)->version);
  }
  EXPECT_THAT(announced, ElementsAre(0, 1, 2));
  context.out("fakes").room = 100;
  for (int i = 5; i < 29; ++i) EXPECT_EQ(step(*role, context), Progress::kMore);
  EXPECT_EQ(step(*role, context), Progress::kDone);
  EXPECT_EQ(reported(*role, "steps"), 30);
}

TEST(SplitGan, ADiscriminatorWaitsForFakesAndDropsOldOnes) {
  const Topology both = topology();
  const auto generator = make(both, "gan"), discriminator = make(both, "gan-discriminator");
  FakeContext out, in;
  for (int i = 0; i < 12; ++i) step(*generator, out);
  EXPECT_EQ(step(*discriminator, in), Progress::kIdle);
  EXPECT_EQ(discriminator->waiting_for(), "0 of 20 generated images");
  const auto send = [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) in.in("fakes").frames.push_back(out.out("fakes").sent[i]);
  };
  send(0, 2);
  EXPECT_EQ(step(*discriminator, in), Progress::kMore);
  EXPECT_EQ(in.in("fakes").frames.size(), 1U);  // the credit of what is not used yet stays here
  // The generator has come to version 12, and eight behind it is as old as fakes may be.
  in.in("versions").frames.push_back(out.out("versions").sent.back());
  send(2, 6);
  EXPECT_EQ(step(*discriminator, in), Progress::kMore);
  EXPECT_EQ(reported(*discriminator, "steps"), 2);
  EXPECT_EQ(reported(*discriminator, "fakes_used"), 40);
  EXPECT_EQ(reported(*discriminator, "fakes_dropped"), 60);  // of versions 1, 2 and 3
  EXPECT_EQ(reported(*discriminator, "staleness_max"), 8);   // of version 4
  EXPECT_EQ(reported(*discriminator, "staleness_mean"), 4);
  // Each step's parameters are there for the generators.
  ASSERT_EQ(in.out("parameters").sent.size(), 2U);
  EXPECT_EQ(messages::read_parameters(in.out("parameters").sent[1])->info().version, 2);
}

TEST(SplitGan, EachDiscriminatorGetsItsShareOfAStep) {
  const auto generator = make(topology(), "gan");
  FakeContext context;
  auto& fakes = context.out("fakes");
  fakes.consumer_count = 3;
  const auto sent = [&] {
    std::map<std::size_t, std::int64_t> rows;
    for (std::size_t i = 0; i < fakes.sent.size(); ++i) {
      rows[fakes.receivers[i]] += messages::read_batch(fakes.sent[i])->columns().rows;
    }
    fakes.sent.clear();
    fakes.receivers.clear();
    return rows;
  };
  using Rows = std::map<std::size_t, std::int64_t>;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(*generator, context), Progress::kMore);
  EXPECT_EQ(sent(), (Rows{{0, 20}, {1, 20}, {2, 20}}));  // 6 or 7 in each step, in turn
  fakes.fewer = {{0, 1}, {1, 1}, {2, 1}};
  EXPECT_EQ(step(*generator, context), Progress::kIdle);  // all have some to take
  // One has taken all, and another is dead or has more than enough: it holds up nobody. The third is about to take its.
  fakes.fewer = {{0, 1}, {1, 0}};
  EXPECT_EQ(step(*generator, context), Progress::kIdle);
  ASSERT_GT(context.woken_after, Duration{});
  context.manual_clock.advance(context.woken_after);
  EXPECT_EQ(step(*generator, context), Progress::kMore);
  EXPECT_EQ(sent(), (Rows{{0, 10}, {2, 10}}));
  fakes.fewer = {{0, 0}, {1, 0}, {2, 0}};
  EXPECT_EQ(step(*generator, context), Progress::kIdle);
}

TEST(SplitGan, AGeneratorLearnsFromTheNewestDiscriminator) {
  const Topology both = topology();
  const auto alone = make(both, "gan"), taught = make(both, "gan"), discriminator = make(both, "gan-discriminator");
  FakeContext first, second, other;
  step(*alone, first);
  step(*taught, second);
  EXPECT_EQ(alone->save()->tensors.back().bytes, taught->save()->tensors.back().bytes);
  other.in("fakes").frames.push_back(first.out("fakes").sent[0]);
  step(*discriminator, other);
  second.in("discriminator").frames.push_back(other.out("parameters").sent[0]);
  step(*alone, first);
  step(*taught, second);
  EXPECT_EQ(reported(*alone, "discriminator_step"), 0);
  EXPECT_EQ(reported(*taught, "discriminator_step"), 1);
  EXPECT_NE(reported(*alone, "generator_loss"), reported(*taught, "generator_loss"));
  // What it has of the discriminator is the discriminator's.
  const auto theirs = discriminator->save().value(), copy = taught->save().value();
  int compared = 0;
  for (const StateTensor& tensor : theirs.tensors) {
    if (tensor.name.ends_with("adam_m") || tensor.name.ends_with("adam_v")) continue;
    const auto found = std::ranges::find(copy.tensors, tensor.name, &StateTensor::name);
    ASSERT_NE(found, copy.tensors.end()) << tensor.name;
    EXPECT_EQ(found->bytes, tensor.bytes) << tensor.name;
    ++compared;
  }
  EXPECT_EQ(compared, 6);  // weight, bias and u of two layers
}

TEST(SplitGan, BothSidesGoOnFromTheirState) {
  const Topology both = topology();
  const auto generator = make(both, "gan"), discriminator = make(both, "gan-discriminator");
  FakeContext out, in;
  for (int i = 0; i < 4; ++i) {
    step(*generator, out);
    in.in("fakes").frames.push_back(out.out("fakes").sent.back());
    step(*discriminator, in);
    out.in("discriminator").frames.push_back(in.out("parameters").sent.back());
  }
  const auto again = make(both, "gan"), other = make(both, "gan-discriminator");
  ASSERT_TRUE(again->restore(generator->save().value()).ok());
  ASSERT_TRUE(other->restore(discriminator->save().value()).ok());
  FakeContext again_out, other_in;
  step(*generator, out);
  again_out.in("discriminator").frames.push_back(in.out("parameters").sent.back());
  step(*again, again_out);
  const Frame expected = out.out("fakes").sent.back(), got = again_out.out("fakes").sent.back();
  EXPECT_TRUE(std::ranges::equal(messages::read_batch(got)->columns().columns[0],
                                 messages::read_batch(expected)->columns().columns[0]));
  EXPECT_EQ(versions_of_fakes(again_out), std::vector<std::int64_t>{4});
  in.in("fakes").frames.push_back(expected);
  other_in.in("fakes").frames.push_back(got);
  step(*discriminator, in);
  step(*other, other_in);
  EXPECT_EQ(reported(*other, "discriminator_loss"), reported(*discriminator, "discriminator_loss"));
  EXPECT_EQ(reported(*other, "steps"), 5);
}

/// Runs the group to its end on threads; the counters of its last checkpoint.
std::vector<messages::Counter> run(const ReplicaGroupOptions& options, const Network& network = {},
                                   bool deterministic = false) {
  Topology both = topology(options, network);
  const Status checked = check(both);
  EXPECT_TRUE(checked.ok()) << checked.error().message;
  RuntimeOptions how;
  how.seed = 3;
  how.deterministic = deterministic;
  how.write_cut = [](const std::shared_ptr<const Cut>&) { return Status(); };
  const auto runtime = Runtime::make(std::move(both), std::move(how));
  EXPECT_TRUE(runtime.ok());
  const auto ended = (*runtime)->run([] { return false; });
  EXPECT_TRUE(ended.ok()) << ended.error().message;
  return (*runtime)->checkpoint().value();
}

struct Shape2 {
  std::int64_t generators, discriminators, n_dis;
};

class SplitGanRun : public ::testing::TestWithParam<Shape2> {};

TEST_P(SplitGanRun, KeepsTheTwoSidesTogether) {
  const auto [generators, discriminators, n_dis] = GetParam();
  ReplicaGroupOptions options = group();
  options.count = generators;
  options.discriminators = discriminators;
  options.steps = 60;
  const auto counters = run(options, {.n_dis = n_dis});
  const ReplicaSummary summary = replica_summary("gan", counters);
  EXPECT_EQ(summary.steps, 60);
  EXPECT_EQ(summary.evaluated_step, 60);
  // Nobody died, so what the discriminators have not used is what the channel, and their batches, can hold.
  const std::int64_t steps = replica_summary("gan-discriminator", counters).steps;
  EXPECT_LE(steps, 60);
  EXPECT_GE(steps, 60 - 4);
}

INSTANTIATE_TEST_SUITE_P(Sizes, SplitGanRun,
                         ::testing::Values(Shape2{1, 1, 1}, Shape2{1, 1, 3}, Shape2{2, 1, 1}, Shape2{1, 2, 1},
                                           Shape2{2, 2, 2}),
                         [](const auto& info) {
                           return std::to_string(info.param.generators) + "_" +
                                  std::to_string(info.param.discriminators) + "_n_dis_" +
                                  std::to_string(info.param.n_dis);
                         });

TEST(SplitGan, OnOneThreadTwoRunsAreOne) {
  const auto first = run(group(), {}, true), second = run(group(), {}, true);
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].name, second[i].name);
    EXPECT_EQ(first[i].value, second[i].value) << first[i].name;
  }
}

TEST(SplitGan, LabelsTravelWithTheImagesOfAConditionalOne) {
  const Network network = {.kind = "resnet", .conditional = true, .n_dis = 2};
  const Topology both = topology(group(), network);
  const auto generator = make(both, "gan"), discriminator = make(both, "gan-discriminator");
  FakeContext out, in;
  std::set<std::int32_t> labels;
  for (int i = 0; i < 4; ++i) {
    step(*generator, out);
    in.in("fakes").frames.push_back(out.out("fakes").sent.back());
    const auto batch = messages::read_batch(out.out("fakes").sent.back()).value();
    ASSERT_EQ(batch.columns().find("fake_label"), 1);
    for (const std::int32_t label : batch.columns().as<std::int32_t>(1)) labels.insert(label);
    EXPECT_EQ(step(*discriminator, in), Progress::kMore);
    out.in("discriminator").frames.push_back(in.out("parameters").sent.back());
  }
  EXPECT_THAT(labels, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));  // 80 of ten classes, which the noise draws
  ReplicaGroupOptions options = group();
  options.count = options.discriminators = 2;
  EXPECT_EQ(replica_summary("gan", run(options, network)).evaluated_step, 30);
}

TEST(SplitGan, MistakesNameTheOption) {
  const auto message = [](const ReplicaGroupOptions& options, const ReplicaModel& model) {
    Topology both;
    const Status added = add_replica_group(both, options, model);
    return added.ok() ? "ok" : added.error().message;
  };
  EXPECT_EQ(message(group(), model()), "ok");
  ReplicaGroupOptions options = group();
  options.max_staleness = 2;
  EXPECT_EQ(message(options, model()), "replicas.gan.max_staleness: got 2 with n_dis 1, expected at least 3");
  EXPECT_EQ(message(options, model({.n_dis = 5})), "ok");
  options.discriminators = 21;
  EXPECT_EQ(message(options, model()), "replicas.gan.discriminators: got 21 for a batch of 20 rows");
  options.replicator = "one_device";
  options.discriminators = 2;
  EXPECT_EQ(message(options, model()),
            "replicas.gan.discriminators: got 2, but replicator \"one_device\" has no role for them");
  const ModelKind kind = classifier_model();
  const ReplicaModel classifier =
      kind.make(troupe::testing::section(kind.keys, {{"data", std::string("synthetic")}})).value()({}).value();
  EXPECT_EQ(message(group(), classifier),
            "replicas.gan.replicator: got \"split_gan\" for a model that has no two sides");
}

}  // namespace
}  // namespace troupe::actors
