// The collectives inside of a step against finite differences of the global loss sum(w_i L_i) / sum(w_i), over 1, 2 and
// 3 replicas with uneven shares, whose losses all weigh the result differently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/replicate/device_replicas.hpp>
#include <troupe/tests/learner/replicate/collective_cases.hpp>

namespace troupe::learner {
namespace {

using collectives::ReduceOp;
using testing::HasSubstr;

class Collective : public testing::TestWithParam<Case> {};

TEST_P(Collective, HasTheGradientOfTheGlobalLoss) {
  const Case& c = GetParam();
  for (const int replicas : {1, 2, 3}) {
    for (const int stripes : {1, 2}) {
      UsesOne replica(c.body);
      auto made = MultiDevice::make(
          replica, {.replicas = replicas, .global_batch = c.rows, .compile = {.stripes = stripes, .threads = 1}});
      ASSERT_TRUE(made.ok()) << made.error().message;
      MultiDevice& devices = **made;
      const auto loss_with = [&](std::size_t i, float offset) {
        for (int r = 0; r < replicas; ++r) devices.program(r).params("model")->values()[i] += offset;
        const Status status = devices.step();
        EXPECT_TRUE(status.ok()) << status.error().message;
        double loss = 0, rows = 0;
        for (int r = 0; r < replicas; ++r) {
          loss += devices.program(r).metrics()[0] * static_cast<double>(devices.program(r).rows());
          rows += static_cast<double>(devices.program(r).rows());
          devices.program(r).params("model")->values()[i] -= offset;
        }
        return loss / rows;
      };
      loss_with(0, 0);
      const auto gradient = devices.program().gradient("model");
      const std::vector<float> got(gradient.begin(), gradient.begin() + 4);
      for (std::size_t i = 0; i < 4; ++i) {
        constexpr float kStep = 2e-3F;  // 1e-7 of the loss over twice this; its square; small, for the kinks of max
        const double expected = (loss_with(i, kStep) - loss_with(i, -kStep)) / (2 * kStep);
        EXPECT_NEAR(got[i], expected, 2e-3 * (1 + std::abs(expected)))
            << replicas << " replicas, " << stripes << " stripes, element " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InAStep, Collective, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

/// What body() is on each replica after one step.
std::vector<std::vector<float>> values_of(int replicas, const std::function<Var(ReplicaContext&, Var)>& body) {
  class Shows final : public Replica {
   public:
    explicit Shows(const std::function<Var(ReplicaContext&, Var)>& body) : body_(body) {}
    Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
      return std::unique_ptr<InputPipeline>(std::make_unique<Rows>(context));
    }
    void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
      context.graph().metric("unused", mean(inputs["x"]));
      const auto id = static_cast<float>(context.input().replica_id);
      context.graph().output("y", body_(context, context.graph().constant(Shape{2}, {id + 1, 10 - id})));
    }

   private:
    const std::function<Var(ReplicaContext&, Var)>& body_;
  } replica(body);
  auto made = MultiDevice::make(replica, {.replicas = replicas, .global_batch = 6});
  EXPECT_TRUE(made.ok()) << made.error().message;
  (*made)->step().value();
  std::vector<std::vector<float>> values;
  for (int r = 0; r < replicas; ++r) {
    const auto y = (*made)->program(r).output("y");
    values.emplace_back(y.begin(), y.end());
  }
  return values;
}

TEST(ReplicaContext, CollectivesHaveTheirMeaning) {
  using V = std::vector<float>;
  const auto everywhere = [](const V& v) { return std::vector<V>(3, v); };
  const auto reduced = [](ReduceOp op) { return [op](ReplicaContext& c, Var x) { return c.all_reduce(x, op); }; };
  EXPECT_EQ(values_of(3, reduced(ReduceOp::kSum)), everywhere({6, 27}));
  EXPECT_EQ(values_of(3, reduced(ReduceOp::kMax)), everywhere({3, 10}));
  EXPECT_EQ(values_of(3, reduced(ReduceOp::kMin)), everywhere({1, 8}));
  EXPECT_EQ(values_of(3, [](ReplicaContext& c, Var x) { return c.all_gather(x); }), everywhere({1, 10, 2, 9, 3, 8}));
  EXPECT_EQ(values_of(3, [](ReplicaContext& c, Var x) { return c.broadcast(x, 1); }), everywhere({2, 9}));
  EXPECT_EQ(values_of(2, [](ReplicaContext& c, Var x) { return c.reduce_scatter(x, ReduceOp::kSum); }),
            (std::vector<V>{{3}, {19}}));
  const auto items = [](ReplicaContext& c) {
    return std::vector<Var>{c.graph().constant({}, {1}), c.graph().constant({}, {2}), c.graph().constant({}, {5}),
                            c.graph().constant({}, {-3})};
  };
  const auto mapped = [&](ReplicaContext& c, Var) { return c.map_gather(items(c), [](Var x) { return square(x); }); };
  for (const int replicas : {1, 2, 3, 5}) {
    for (const V& values : values_of(replicas, mapped)) EXPECT_EQ(values, (V{1, 4, 25, 9})) << replicas;
    for (const V& values : values_of(replicas, [&](ReplicaContext&c, Var) {
           return c.map_reduce(
               items(c), [](Var x) { return scale(x, 2); }, ReduceOp::kMax);
         })) {
      EXPECT_EQ(values, V{10}) << replicas;
    }
  }
}

TEST(ReplicaContext, RefusesWhatHasNoMeaning) {
  const auto error_of = [](const std::function<Var(ReplicaContext&, Var)>& body) {
    Graph graph(2);
    ReplicaContext context(graph, {.replica_batch = 2, .global_batch = 2}, nullptr);
    graph.input("x", {3});
    body(context, graph.constant(Shape{3}, {1, 2, 3}));
    return graph.status().ok() ? std::string() : graph.status().error().message;
  };
  EXPECT_THAT(error_of([](ReplicaContext& c, Var x) { return c.all_reduce(x, ReduceOp::kProduct); }),
              HasSubstr("product"));
  EXPECT_THAT(error_of([](ReplicaContext& c, Var x) { return c.broadcast(x, 1); }), HasSubstr("root 1"));
  EXPECT_THAT(error_of([](ReplicaContext& c, Var x) { return c.reduce_scatter(x, ReduceOp::kSum); }),
              HasSubstr("[1, ...]"));
  EXPECT_THAT(error_of([](ReplicaContext& c, Var x) {
                return c.map_gather(std::vector<Var>{x}, [&](Var item) {
                  return mul(item, c.graph().param(c.graph().group("g"), "p", Shape{3}, {}));
                });
              }),
              HasSubstr("made a parameter"));
}

}  // namespace
}  // namespace troupe::learner
