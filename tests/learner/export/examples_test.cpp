#include <gtest/gtest.h>

#include <troupe/learner/export/examples.hpp>
#include <troupe/learner/ops/embedding.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner {
namespace {

/// Looks a label up in tables of five and of four rows.
class Examples : public ::testing::Test {
 protected:
  Examples() {
    const ParamGroup net = graph_.group("net");
    const Var label = graph_.input("label", {}, DType::kI32);
    const Var wide = embedding(graph_.param(net, "wide", {5, 2}, Init::normal(1)), label);
    graph_.output("row", wide);
    graph_.output("both", concat(wide, embedding(graph_.param(net, "narrow", {4, 2}, Init::normal(1)), label)));
    graph_.output("noise", graph_.input("noise", {3}));
    program_ = Program::compile(graph_, {}).value();
  }

  Graph graph_{3};
  std::unique_ptr<Program> program_;
};

TEST_F(Examples, AnInputHasAsManyChoicesAsItsSmallestTableHasRows) {
  EXPECT_EQ(choices(graph_, "label"), 4);
  EXPECT_EQ(choices(graph_, "noise"), 0);
  EXPECT_EQ(choices(graph_, "absent"), 0);
}

TEST_F(Examples, GivenValuesTakeThePlaceOfMadeUpOnes) {
  const Example example = run_example(graph_, *program_, 1, {{"label", {3, 0, 3}}}).value();
  EXPECT_EQ(example.inputs[0].integers, (std::vector<std::int32_t>{3, 0, 3}));
  const std::vector<float>& rows = example.outputs[0].reals;
  const auto table = program_->params("net")->tensor(*program_->params("net")->layout().find("net/wide"));
  EXPECT_EQ(rows, (std::vector<float>{table[6], table[7], table[0], table[1], table[6], table[7]}));
}

TEST_F(Examples, GivenValuesThatDoNotFitAreRefused) {
  const auto error = [this](const std::string& input, const std::vector<std::int32_t>& values) {
    return run_example(graph_, *program_, 1, {{input, values}}).error();
  };
  EXPECT_EQ(error("noise", {0, 0, 0}).message, "the network has no input of integers \"noise\"");
  EXPECT_EQ(error("label", {0, 0}).message, "label has 2 values, expected 3");
  EXPECT_EQ(error("label", {0, 4, 0}).message, "label is 4, expected 0 to 3");
  EXPECT_EQ(error("label", {0, -1, 0}).code, Code::kOutOfRange);
}

}  // namespace
}  // namespace troupe::learner
