// Programs on a GPU against the same programs on the processor, on the emulated device (emulator/): what is computed,
// what is sent and read and when, what a step costs in allocations and launches, and what happens when the GPU fails.
#include <troupe/learner/engine/cuda/cuda_program.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <troupe/algorithms/classifier/replica.hpp>
#include <troupe/algorithms/dmpo/replica.hpp>
#include <troupe/algorithms/drqv2/replica.hpp>
#include <troupe/algorithms/flashsac/replica.hpp>
#include <troupe/algorithms/resnet/replica.hpp>
#include <troupe/algorithms/sac/replica.hpp>
#include <troupe/algorithms/sngan/replica.hpp>
#include <troupe/algorithms/td3/replica.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program_state.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/convolution.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/tests/algorithms/d4pg/batches.hpp>
#include <troupe/tests/algorithms/d4pg/hand_fed.hpp>
#include <troupe/tests/learner/engine/cuda/cuda_programs.hpp>
#include <troupe/tests/learner/engine/engine_conformance.hpp>
#include <troupe/tests/learner/models.hpp>

namespace troupe::learner {
namespace {

using testing::HasSubstr;

constexpr double kRounding = 2e-5;  // of tensors after some steps, whose sums are made in other orders

/// Trains on the processor and on the GPU, and compares metrics after every step and everything at the end.
void expect_same(const MakeReplica& make, const Signature& signature, std::int64_t rows, std::size_t steps,
                 std::int64_t classes, double tolerance = kRounding) {
  std::vector<std::unique_ptr<Data>> data;
  std::vector<BatchView> batches;
  for (std::size_t step = 0; step < steps; ++step) {
    data.push_back(std::make_unique<Data>(signature, rows, step, classes));
    batches.push_back(data.back()->buffer.view());
  }
  std::vector<std::vector<double>> metrics[2];
  State states[2];
  for (const int gpu : {0, 1}) {
    states[gpu] = train(
        make, batches, {rows}, 1, {},
        [&](std::size_t, Program& program) {
          metrics[gpu].emplace_back(program.metrics().begin(), program.metrics().end());
        },
        1, gpu == 1 ? kGpu : Device{});
  }
  for (std::size_t step = 0; step < steps; ++step) {
    for (std::size_t m = 0; m < metrics[0][step].size(); ++m) {
      const double expected = metrics[0][step][m];
      EXPECT_NEAR(metrics[1][step][m], expected, tolerance * std::max(1.0, std::abs(expected))) << step << ' ' << m;
    }
  }
  EXPECT_LT(largest_difference(states[1], states[0]), tolerance);
  if (on_emulator()) {
    EXPECT_GT(emulator().graph_launches(), 0);
  }
}

TEST_F(CudaProgramTest, D4pgTakesTheSameSteps) {
  d4pg::Options options = d4pg::steering_options();
  options.batch = 32;
  options.target_period = 3;
  Rng rng(4);
  BatchBuffer batch(d4pg::batch_signature(options), options.batch);
  std::unique_ptr<d4pg::HandFed> learners[2];
  for (const int gpu : {0, 1}) {
    const CompileOptions compile{.device = gpu == 1 ? kGpu : Device{}, .seed = 5};
    learners[gpu] = d4pg::HandFed::make({.d4pg = options, .compile = compile}).value();
  }
  for (int step = 0; step < 7; ++step) {
    d4pg::fill_steering(rng, batch);
    const auto expected = learners[0]->step(batch.view()).value(), got = learners[1]->step(batch.view()).value();
    EXPECT_NEAR(got.critic_loss, expected.critic_loss, kRounding) << step;
    EXPECT_NEAR(got.policy_loss, expected.policy_loss, kRounding) << step;
    for (std::size_t i = 0; i < learners[0]->td_error().size(); ++i) {
      EXPECT_NEAR(learners[1]->td_error()[i], learners[0]->td_error()[i], kRounding) << step;
    }
  }
  EXPECT_LT(largest_difference(state_of(learners[1]->program()), state_of(learners[0]->program())), kRounding);
  EXPECT_EQ(learners[1]->program().step(), 7);
}

TEST_F(CudaProgramTest, ClassifierWithBatchNormAveragesAndDecayTakesTheSameSteps) {
  classifier::Options options;
  options.features = 11;
  options.classes = 5;
  options.sizes = {16, 9};
  options.batch_norm = true;
  options.optimizer.rule = Sgd{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01};
  options.average_decay = 0.9;
  expect_same([options](InputFn input) { return classifier::training(options, std::move(input)); },
              classifier::batch_signature(options), 12, 4, options.classes);
}

TEST_F(CudaProgramTest, DrqV2TakesTheSameStepsFromBytes) {
  drqv2::Options options;
  options.encoder = {.pixels = {17, 19, 2}, .filters = 5, .features = 6};
  options.environment = {.observation_size = 17 * 19 * 2, .action_low = {-1, -1}, .action_high = {1, 2}};
  options.policy_sizes = options.critic_sizes = {16};
  // By Adam an element whose gradient is nothing but rounding errors would take whole steps.
  for (OptimizerSpec* spec : {&options.encoder_optimizer, &options.policy_optimizer, &options.critic_optimizer}) {
    spec->rule = Sgd{.learning_rate = 0.01};
  }
  expect_same([&](InputFn input) { return drqv2::training(options, std::move(input)); }, drqv2::transitions(options), 6,
              4, 0);
}

template <typename Options>
void expect_same_agent(std::unique_ptr<Replica> (*training)(const Options&, InputFn)) {
  Options options;
  options.environment = {.observation_size = 5, .action_low = {-1, -1}, .action_high = {1, 2}};
  options.policy_sizes = {16};
  options.critic_sizes = {16};
  // By Adam an element whose gradient is nothing but rounding errors would take whole steps.
  for (OptimizerSpec* spec : {&options.policy_optimizer, &options.critic_optimizer}) {
    spec->rule = Sgd{.learning_rate = 0.05};
  }
  expect_same([&](InputFn input) { return training(options, std::move(input)); },
              control::transitions(options.environment, false), 6, 5, 0);
}

TEST_F(CudaProgramTest, SacTakesTheSameSteps) { expect_same_agent<sac::Options>(sac::training); }
TEST_F(CudaProgramTest, Td3TakesTheSameSteps) { expect_same_agent<td3::Options>(td3::training); }
TEST_F(CudaProgramTest, DmpoTakesTheSameSteps) { expect_same_agent<dmpo::Options>(dmpo::training); }

/// Every function of single elements behind the one before, and their gradients.
std::unique_ptr<Program> chained(const Device& device) {
  Graph graph(6);
  const ParamGroup group = graph.group("net");
  const Var input = graph.input("x", {5});
  const auto layer = [&](const std::string& name) {
    return matmul(input, graph.param(group, name, {5, 3}, Init::uniform(1)));
  };
  const Var a = layer("a"), b = layer("b");
  Var x = sub(mul(add(a, b), affine(b, 0.5, 2)), a);
  x = activation(clip(x, -2, 1.5), Activation::kTanh);
  x = add(softplus(x), log(affine(exp(x), 1, 1)));
  x = div(x, sqrt(affine(mul(b, b), 1, 1)));
  x = add(activation(x, Activation::kElu), activation(sub(b, x), Activation::kSigmoid));
  x = where(greater(x, a), minimum(x, b), maximum(abs(x), a));
  graph.output("x", x);
  const Var loss = mean(x);
  graph.metric("loss", loss);
  graph.minimize(loss, group, {.rule = Sgd{.learning_rate = 0.1}});
  return Program::compile(graph, {.device = device, .seed = 3}).value();
}

TEST_F(CudaProgramTest, ElementwiseNodesInARowGiveWhatTheyGiveAlone) {
  std::vector<std::vector<double>> losses(2);
  std::vector<std::vector<float>> outputs(2);
  for (const int gpu : {0, 1}) {
    const auto program = chained(gpu == 1 ? kGpu : Device{});
    Rng rng(7);
    for (int step = 0; step < 4; ++step) {
      std::vector<float> x(6 * 5);
      for (float& each : x) each = static_cast<float>(rng.normal());
      program->bind("x", std::span<const float>(x)).value();
      program->run().value();
      losses[static_cast<std::size_t>(gpu)].push_back(program->metrics()[0]);
    }
    const std::span<const float> output = program->output("x");
    outputs[static_cast<std::size_t>(gpu)].assign(output.begin(), output.end());
  }
  for (std::size_t step = 0; step < 4; ++step) EXPECT_NEAR(losses[1][step], losses[0][step], kRounding) << step;
  for (std::size_t i = 0; i < outputs[0].size(); ++i) EXPECT_NEAR(outputs[1][i], outputs[0][i], kRounding) << i;
}

TEST_F(EmulatedProgramTest, ElementwiseNodesInARowAreOneKernel) {
  const auto kernels_of = [](int functions) {
    Graph graph(6);
    Var x = graph.input("x", {3});
    for (int i = 0; i < functions; ++i) x = exp(affine(x, 0.1, i));
    graph.output("x", x);
    const auto program = Program::compile(graph, {.device = kGpu}).value();
    program->bind("x", std::span<const float>(std::vector<float>(18, 0.5F))).value();
    const std::int64_t before = emulator().kernels();
    program->run().value();
    return emulator().kernels() - before;
  };
  EXPECT_EQ(kernels_of(16), kernels_of(1)) << "as many links as a chain has";
  EXPECT_EQ(kernels_of(17), kernels_of(1) + 1);
}

TEST_F(CudaProgramTest, WeightsGradientsOfManyPixelsAreTheSameInParts) {
  for (const std::int64_t stride : {1, 2}) {
    const auto program_on = [&](const Device& device) {
      Graph graph(4);
      const ParamGroup group = graph.group("net");
      const Var weight = graph.param(group, "weight", {3, 3, 8, 64}, Init::uniform(0.1));
      const Var y = conv2d(graph.input("x", {128, 64, 8}), weight, {.stride = stride, .padding = 1});
      graph.minimize(mean(mul(y, y)), group, {.rule = Sgd{.learning_rate = 0.1}});
      return Program::compile(graph, {.device = device, .compute = DType::kBF16, .seed = 3}).value();
    };
    std::unique_ptr<Program> programs[] = {program_on({}), program_on(kGpu)};
    for (const auto& program : programs) {
      const Data data({{"x", DType::kF32, {128, 64, 8}}}, 4, 1);
      for (int step = 0; step < 3; ++step) {
        program->bind(data.buffer.view()).value();
        program->run().value();
      }
    }
    EXPECT_LT(largest_difference(state_of(*programs[1]), state_of(*programs[0])), kRounding) << "stride " << stride;
  }
}

TEST_F(CudaProgramTest, FlashSacTakesTheSameStepsAndKeepsItsLengths) {
  flashsac::Options options;
  options.environment = {.observation_size = 5, .action_low = {-1, -1}, .action_high = {1, 2}};
  options.policy = {.blocks = 1, .width = 5};
  options.critic = {.blocks = 2, .width = 6};
  options.support = {-3, 3, 11};
  // By Adam an element whose gradient is nothing but rounding errors would take whole steps.
  for (OptimizerSpec* spec : {&options.policy_optimizer, &options.critic_optimizer, &options.temperature_optimizer}) {
    spec->rule = Sgd{.learning_rate = 0.05};
  }
  expect_same([&](InputFn input) { return flashsac::training(options, std::move(input)); }, flashsac::columns(options),
              6, 5, 0);
}

TEST_F(CudaProgramTest, ResidualNetworkTakesTheSameSteps) {
  for (const auto variant : {resnet::Variant::kV1, resnet::Variant::kV1_5}) {
    resnet::Options options = resnet::of_depth(50).value();
    options.variant = variant;
    options.blocks = {1, 1};
    options.filters = 2;
    options.height = options.width = 16;
    options.classes = 5;
    options.optimizer.rule = Sgd{.learning_rate = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01};
    expect_same([options](InputFn input) { return resnet::training(options, std::move(input)); },
                resnet::batch_signature(options), 3, 3, options.classes, 1e-4);
  }
}

TEST_F(CudaProgramTest, ResidualGanTakesTheSameStepsAndLeavesOutWhatIsIdle) {
  for (const std::int64_t classes : {0, 5}) {
    const sngan::Options options{
        .network = sngan::Network::kResnet,
        .image = {32, 32, 3},
        .classes = classes,
        .noise_size = 5,
        .generator_width = 3,
        .discriminator_width = 4,
        .n_dis = 2,
        .optimizer = {.rule = Adam{.learning_rate = 0.01, .beta1 = 0, .beta2 = 0.9, .epsilon = 1e-2}},
        .average_decay = 0.5};
    expect_same([options](InputFn input) { return sngan::training(options, std::move(input)); },
                sngan::batch_signature(options), 2, 5, 5, 2e-4);
  }
}

// ---- the suite for all engines ----

INSTANTIATE_TEST_SUITE_P(Cuda, EngineConformance,
                         testing::Values(EngineUnderTest{.name = "cuda",
                                                         .device = kGpu,
                                                         .before =
                                                             [] {
                                                               CudaProgramTest::SetUpTestSuite();
                                                               emulator().reset();
                                                             }}),
                         [](const auto& info) { return info.param.name; });

// ---- single programs ----

TEST_F(EmulatedProgramTest, WhatFollowsFirstCostsNoKernelOfItsOwn) {
  const auto kernels_of_a_step = [](bool followers) {
    const auto program = net({.device = kGpu}, {.rule = Adam{}}, {.forward = {}, .reduce = {}, .followers = followers});
    const Data data(x_signature(), kRows, 1);
    program->bind(data.buffer.view()).value();
    const std::int64_t before = emulator().kernels();
    program->run().value();
    return emulator().kernels() - before;
  };
  EXPECT_EQ(kernels_of_a_step(true), kernels_of_a_step(false) + 1) << "of a target and an average";
}

TEST_F(CudaProgramTest, Bfloat16OperandsAreThoseOfProductsOfFewRowsToo) {
  const std::vector<float> x{1.001953125F, 3};  // the first lies between two numbers of bfloat16, nearer to 1
  for (const Device& device : {Device{}, kGpu}) {
    Graph graph(2);
    const Var weight = graph.param(graph.group("net"), "weight", {1, 1}, Init::constant(1));
    graph.output("y", matmul(graph.input("x", {1}), weight));
    const auto program = Program::compile(graph, {.device = device, .compute = DType::kBF16}).value();
    program->bind("x", std::span<const float>(x)).value();
    program->run().value();
    // The processor has a float32 kernel for these.
    EXPECT_EQ(program->output("y")[0], device.is_gpu() ? 1 : x[0]) << to_string(device);
    EXPECT_EQ(program->output("y")[1], 3);
  }
}

TEST_F(EmulatedProgramTest, AfterTheFirstStepsAStepIsOneLaunchAndAllocatesNothing) {
  const auto program = net({.device = kGpu}, {.rule = Adam{}});
  const Data data(x_signature(), kRows, 1);
  program->bind(data.buffer.view()).value();
  for (int step = 0; step < 2; ++step) program->run().value();
  const std::int64_t allocations = emulator().allocations(), launches = emulator().launches();
  const std::int64_t graphs = emulator().graph_launches(), kernels = emulator().kernels();
  for (int step = 0; step < 10; ++step) program->run().value();
  EXPECT_EQ(emulator().allocations(), allocations);
  EXPECT_EQ(emulator().launches(), launches) << "a kernel was launched by itself";
  EXPECT_EQ(emulator().graph_launches() - graphs, 10);
  EXPECT_GT(emulator().kernels(), kernels);
}

// ---- failures ----

TEST_F(EmulatedProgramTest, AKernelThatFailsLosesTheGpuButNotTheHost) {
  auto program = net({.device = kGpu}, {.rule = Adam{.learning_rate = 0.01}});
  const Data data(x_signature(), kRows, 1);
  program->bind(data.buffer.view()).value();
  for (int step = 0; step < 3; ++step) program->run().value();
  const State saved = state_of(*program);
  const auto gpu = gpu::Gpu::open(0).value();
  const auto of_a_library = [&] { return gpu->check(TROUPE_CUDA_LIBRARY_ERROR, "a product").error().code; };
  EXPECT_EQ(of_a_library(), Code::kInternal);
  emulator().fail_kernel(5);
  const Status failed = program->run();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, Code::kLost);
  EXPECT_THAT(failed.error().message, HasSubstr("cuda:0"));
  EXPECT_THAT(failed.error().message, HasSubstr("illegal"));
  const Status fetched = program->fetch();
  ASSERT_FALSE(fetched.ok()) << "what the GPU had is gone, and nobody may save the old copy as new";
  EXPECT_EQ(fetched.error().code, Code::kLost);
  EXPECT_FALSE(program->run().ok());
  EXPECT_EQ(of_a_library(), Code::kLost) << "which knows no more than that its call failed";
  Graph graph(4);
  graph.output("y", affine(graph.input("x", {3}), 2, 0));
  const auto another = Program::compile(graph, {.device = kGpu});
  ASSERT_FALSE(another.ok());
  EXPECT_EQ(another.error().code, Code::kLost) << "of memory there would be enough";
  EXPECT_EQ(program->step(), 3);
  EXPECT_EQ(state_of(*program), saved) << "the copy of the last fetch";
  lost_ = true;
}

TEST_F(EmulatedProgramTest, AGpuThatIsLostInACollectiveIsLost) {
  const auto gpu = gpu::Gpu::open(0).value();
  OptimizerSpec spec{.rule = Adam{}};
  spec.reduce_gpu = [] { return 0; };
  const auto program =
      net({.device = kGpu}, spec, {.reduce = [&](const GradientPart&) -> Status {
            emulator().fail_kernel(0);
            gpu->use().value();
            TroupeCudaStream* stream = nullptr;
            EXPECT_EQ(gpu->api().make_stream(&stream), 0);
            const gpu::GpuMemory memory = gpu->allocate(8, "two numbers").value();
            EXPECT_EQ(gpu->api().to_bf16(memory.as<float>(), memory.as<std::uint16_t>() + 2, 1, stream), 0);
            EXPECT_NE(gpu->api().synchronise(stream), 0);
            return Error{Code::kUnavailable, "nccl: unhandled cuda error"};
          }});
  const Data data(x_signature(), kRows, 1);
  program->bind(data.buffer.view()).value();
  const Status failed = program->run();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, Code::kLost) << "no other epoch of the group would mend it";
  EXPECT_THAT(failed.error().message, HasSubstr("cuda:0"));
  EXPECT_THAT(failed.error().message, HasSubstr("nccl: unhandled cuda error"));
  lost_ = true;
}

TEST_F(EmulatedProgramTest, TooLittleMemoryIsOneErrorThatSaysHowMuch) {
  emulator().set_memory(std::size_t{64} << 20);
  Graph graph(4);
  const ParamGroup group = graph.group("large");
  const Var x = graph.input("x", {4096});
  const Var y = matmul(x, graph.param(group, "weight", {4096, 8192}, Init::constant(0)));
  graph.output("y", y);
  const auto program = Program::compile(graph, {.device = kGpu});
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().code, Code::kUnavailable);
  EXPECT_THAT(program.error().message, HasSubstr("0.12 GiB for large"));
  EXPECT_THAT(program.error().message, HasSubstr("out of memory"));
}

/// That of examples/hello_op.cpp, under this name and with its kernel in this library.
OpDef own_operation(std::string_view name, std::string_view library) {
  return {.name = name,
          .infer = [](std::span<const ValueSpec> in, const Attr&) -> Result<std::vector<ValueSpec>> {
            return std::vector{in[0]};
          },
          .kernel = [](const KernelTable&) -> KernelFn {
            return [](const KernelArgs& args) {
              for (std::int64_t i = 0; i < args.out[0].elements(); ++i) {
                const float size = std::abs(args.in[0].as<float>()[i]);
                args.out[0].as<float>()[i] = size <= 1 ? size * size / 2 : size - 0.5F;
              }
            };
          },
          .cuda = library};
}

TEST_F(EmulatedProgramTest, AnOperationOfOnesOwnHasItsKernelInALibrary) {
  const OpDef huber = own_operation("huber", "libhello_op_cuda.so");
  const Data data({{"x", DType::kF32, {3}}}, 5, 2);
  std::vector<float> values[2];
  for (const int gpu : {0, 1}) {
    Graph graph(5);
    const Var scaled = affine(graph.input("x", {3}), 3, 0);  // beyond 1, too
    graph.output("y", affine(graph.emit1(huber, {scaled}), 2, 1));
    const auto program = Program::compile(graph, {.device = gpu == 1 ? kGpu : Device{}}).value();
    for (int run = 0; run < 3; ++run) {  // as it is, recorded, and replayed
      ASSERT_TRUE(program->bind(data.buffer.view()).ok());
      const Status ran = program->run();
      ASSERT_TRUE(ran.ok()) << ran.error().message;
    }
    const auto output = program->output("y");
    values[gpu].assign(output.begin(), output.end());
  }
  EXPECT_EQ(values[0], values[1]);
}

TEST_F(EmulatedProgramTest, AnOperationWithoutAKernelIsNamed) {
  const auto refusal = [](const OpDef& op) {
    Graph graph(4);
    graph.output("y", graph.emit1(op, {graph.input("x", {3})}));
    const auto program = Program::compile(graph, {.device = kGpu});
    return program.ok() ? "ok" : program.error().message;
  };
  EXPECT_EQ(
      refusal(own_operation("huber", "")),
      "cuda:0: the plug-in has no kernel for the operation huber: give its OpDef a library that has (cuda), or run "
      "on cpu");
  EXPECT_EQ(refusal(own_operation("other", "libhello_op_cuda.so")),
            "cuda:0: libhello_op_cuda.so has no kernel for the operation other: give its OpDef a library that has "
            "(cuda), or run on cpu");
  EXPECT_THAT(refusal(own_operation("huber", "libnowhere.so")),
              HasSubstr("the operation huber: cuda plug-in: libnowhere.so is not in the folder TROUPE_PLUGIN_PATH"));
  EXPECT_THAT(refusal(own_operation("huber", "libtroupe_cudnn.so")),
              HasSubstr("libtroupe_cudnn.so exports no troupe_cuda_kernels"));
}

TEST_F(CudaProgramTest, OptionsThatAGpuDoesNotHaveAreRefused) {
  Graph graph(4);
  graph.output("x", affine(graph.input("x", {3}), 2, 0));
  for (const CompileOptions& options :
       {CompileOptions{.stripes = 2, .device = kGpu}, CompileOptions{.device = kGpu, .compute = DType::kF64}}) {
    const auto program = Program::compile(graph, options);
    ASSERT_FALSE(program.ok());
    EXPECT_THAT(program.error().message, HasSubstr("on cuda:0"));
  }
  const auto other = Program::compile(graph, {.device = gpu_device(7)});
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, HasSubstr("cuda:7: this machine has "));
}

TEST_F(CudaProgramTest, DevicesAreNamedAsConfigurationsNameThem) {
  EXPECT_EQ(parse_device("cpu").value(), Device{});
  EXPECT_EQ(parse_device("cuda:12").value(), gpu_device(12));
  EXPECT_EQ(parse_device("tpu:2").value(), (Device{"tpu", 2}));
  EXPECT_EQ(parse_device("pjrt:cpu").value(), (Device{"pjrt:cpu", 0}));
  EXPECT_EQ(to_string(parse_device("pjrt:/opt/plugin.so#3").value()), "pjrt:/opt/plugin.so#3");
  EXPECT_EQ(to_string(resolve(parse_device("auto").value())), "cuda:0");
  for (const char* const bad :
       {"", "gpu", "cuda", "cuda:", "cuda:-1", "cuda:1x", "CPU", "tpu", "pjrt:", "pjrt:#1", "pjrt:cpu#x"}) {
    const auto device = parse_device(bad);
    ASSERT_FALSE(device.ok()) << bad;
    EXPECT_THAT(device.error().message,
                HasSubstr("expected \"auto\", \"cpu\", \"cuda:N\", \"tpu:N\" or \"pjrt:NAME#N\""));
  }
}

}  // namespace
}  // namespace troupe::learner
