// The whole way on the processor's plug-in: arrays there and back, programs, donation, replicas, and each error in the
// plug-in's words.
#include <troupe/pjrt/client.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <numeric>

#include <troupe/tests/pjrt/plugins.hpp>

namespace troupe::pjrt {
namespace {

using testing::HasSubstr;

/// x + y of 8 numbers; x may be donated.
std::string add_program(bool donates) {
  return fmt::format(R"(module @add {{
  "func.func"() <{{function_type = (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>, sym_name = "main"{}}}> ({{
  ^bb0(%x: tensor<8xf32>, %y: tensor<8xf32>):
    %0 = "stablehlo.add"(%x, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    "func.return"(%0) : (tensor<8xf32>) -> ()
  }}) : () -> ()
}}
)",
                     donates ? ", arg_attrs = [{tf.aliasing_output = 0 : i32}, {}]" : "");
}

std::vector<float> counted(float first) {
  std::vector<float> values(8);
  std::iota(values.begin(), values.end(), first);
  return values;
}

class PjrtClient : public CpuPluginTest {
 protected:
  Buffer upload(const std::vector<float>& values, std::size_t device = 0) {
    auto made =
        client_->copy_from_host({values.data(), DType::kF32, {static_cast<std::int64_t>(values.size())}}, device);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(made).value();
  }
  LoadedExecutable compile(const std::string& text, const CompileOptions& options = {}) {
    auto made = client_->compile(text, options);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(made).value();
  }
  static std::vector<float> download(const Buffer& buffer, std::size_t count = 8) {
    std::vector<float> values(count);
    const Status copied = buffer.copy_to(std::span(values));
    EXPECT_TRUE(copied.ok()) << copied.error().message;
    return values;
  }
  /// Of the first device.
  static Buffer run(const LoadedExecutable& program, const std::vector<const Buffer*>& arguments) {
    auto made = program.execute({{arguments}});
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move((*made)[0][0]);
  }
};

TEST_F(PjrtClient, SaysWhatItIs) {
  EXPECT_EQ(client_->platform(), "cpu");
  EXPECT_FALSE(client_->platform_version().empty());
  EXPECT_EQ(client_->devices(), 4U);
  auto device = client_->device(3);
  ASSERT_TRUE(device.ok()) << device.error().message;
  EXPECT_EQ(device->kind, "cpu");
  auto attributes = client_->plugin().attributes();
  ASSERT_TRUE(attributes.ok()) << attributes.error().message;
  EXPECT_THAT(*attributes, testing::Contains(testing::Field(&NamedValue::name, "stablehlo_current_version")));
  auto other = client_->device(4);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().message, "pjrt: device 4 of 4 on platform cpu");
}

TEST_F(PjrtClient, MovesArraysThereAndBack) {
  const std::vector<float> values = counted(1);
  const Buffer buffer = upload(values, 2);
  EXPECT_EQ(download(buffer), values);
  EXPECT_EQ(*buffer.bytes(), 32U);
  std::vector<float> part(3);
  auto done = buffer.begin_copy_to(std::as_writable_bytes(std::span(part)), 8);
  ASSERT_TRUE(done.ok()) << done.error().message;
  ASSERT_TRUE(done->await().ok());
  EXPECT_EQ(part, (std::vector<float>{3, 4, 5}));

  const std::vector<std::uint8_t> bytes = {1, 2, 255};
  auto small = client_->copy_from_host({bytes.data(), DType::kU8, {3}});
  ASSERT_TRUE(small.ok()) << small.error().message;
  std::vector<std::uint8_t> back(3);
  ASSERT_TRUE(small->copy_to(std::span(back)).ok());
  EXPECT_EQ(back, bytes);

  const float scalar = 7;
  auto rankless = client_->copy_from_host({&scalar, DType::kF32, {}});
  ASSERT_TRUE(rankless.ok()) << rankless.error().message;
  EXPECT_EQ(download(*rankless, 1), std::vector<float>{7});
}

TEST_F(PjrtClient, ViewsAreTheHostsMemory) {
  alignas(64) std::array<float, 24> values{};
  std::ranges::copy(counted(1), values.begin());
  const LoadedExecutable program = compile(add_program(false));
  const auto view = client_->view_of_host({values.data(), DType::kF32, {8}});
  ASSERT_TRUE(view.ok()) << view.error().message;
  EXPECT_EQ(view->view(32)->data(), std::as_bytes(std::span(values)).data());
  EXPECT_EQ(download(run(program, {&*view, &*view})), (std::vector<float>{2, 4, 6, 8, 10, 12, 14, 16}));
  values.fill(10);  // between two runs
  EXPECT_EQ(download(run(program, {&*view, &*view})), std::vector<float>(8, 20));

  const auto askew = client_->view_of_host({values.data() + 9, DType::kF32, {8}});
  ASSERT_FALSE(askew.ok());
  EXPECT_EQ(askew.error().code, Code::kInvalidArgument);
  EXPECT_THAT(askew.error().message, HasSubstr("aligned to 64 bytes"));
}

TEST_F(PjrtClient, AddsNumbers) {
  const LoadedExecutable program = compile(add_program(false));
  EXPECT_EQ(*program.about().outputs(), 1U);
  const Buffer x = upload(counted(1)), y = upload(counted(10));
  EXPECT_EQ(download(run(program, {&x, &y})), (std::vector<float>{11, 13, 15, 17, 19, 21, 23, 25}));
  EXPECT_EQ(download(x), counted(1));
}

TEST_F(PjrtClient, EventsAreReached) {
  const LoadedExecutable program = compile(add_program(false));
  const Buffer x = upload(counted(1));
  auto made = program.execute({{{&x, &x}}});
  ASSERT_TRUE(made.ok()) << made.error().message;
  auto done = (*made)[0][0].ready();
  ASSERT_TRUE(done.ok()) << done.error().message;
  ASSERT_TRUE(done->await().ok());
  EXPECT_TRUE(*done->is_ready());
  EXPECT_TRUE(Event().await().ok());
}

TEST_F(PjrtClient, DonatedArgumentsLendTheirMemoryAndAreGone) {
  const LoadedExecutable program = compile(add_program(true));
  const Buffer x = upload(counted(1)), y = upload(counted(10));
  const std::uintptr_t address = *x.address();
  std::vector<float> before(8);
  auto snapshot = x.begin_copy_to(std::as_writable_bytes(std::span(before)));  // read ahead of the program
  ASSERT_TRUE(snapshot.ok()) << snapshot.error().message;
  const Buffer sum = run(program, {&x, &y});
  EXPECT_EQ(*sum.address(), address);
  ASSERT_TRUE(snapshot->await().ok());
  EXPECT_EQ(before, counted(1));
  EXPECT_EQ(download(sum)[0], 11);

  std::vector<float> none(8);
  const Status gone = x.copy_to(std::span(none));
  ASSERT_FALSE(gone.ok());
  EXPECT_THAT(gone.error().message, HasSubstr("has been deleted or donated"));
  auto again = program.execute({{{&x, &y}}});
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.error().message, HasSubstr("deleted or donated"));

  const Buffer z = upload(counted(2));
  auto twice = program.execute({{{&z, &z}}});
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().code, Code::kInvalidArgument) << twice.error().message;
  EXPECT_THAT(twice.error().message, HasSubstr("donat"));
}

TEST_F(PjrtClient, ArgumentsThatAreKeptAreNotDonated) {
  const LoadedExecutable program = compile(add_program(true));
  const Buffer x = upload(counted(1)), y = upload(counted(10));
  const std::int64_t kept[] = {0};
  auto made = program.execute({{{&x, &y}}}, kept);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(download((*made)[0][0])[0], 11);
  EXPECT_EQ(download(x), counted(1));
}

TEST_F(PjrtClient, FreedBuffersAreRefused) {
  const Buffer x = upload(counted(1));
  ASSERT_TRUE(x.free().ok());
  std::vector<float> none(8);
  const Status gone = x.copy_to(std::span(none));
  ASSERT_FALSE(gone.ok());
  EXPECT_THAT(gone.error().message, HasSubstr("deleted or donated"));
}

TEST_F(PjrtClient, WrongArgumentsAreRefusedByTheirSize) {
  const LoadedExecutable program = compile(add_program(false));
  const Buffer x = upload(counted(1)), shorter = upload({1, 2, 3});
  auto made = program.execute({{{&x, &shorter}}});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Code::kInvalidArgument) << made.error().message;
  EXPECT_THAT(made.error().message, HasSubstr("expected parameter 1 of size"));
  EXPECT_FALSE(program.execute({{{&x}}}).ok());
  const Buffer empty;
  EXPECT_EQ(program.execute({{{&x, &empty}}}).error().message, "pjrt: execute: argument 1 is an empty buffer");
}

TEST_F(PjrtClient, TextThatIsNoProgramIsRefusedWithItsPlace) {
  std::string text = add_program(false);
  text.replace(text.find("stablehlo.add"), 13, "stablehlo.oops");
  auto made = client_->compile(text);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, HasSubstr("stablehlo.oops"));
  EXPECT_THAT(made.error().message, HasSubstr(":4:"));
}

TEST_F(PjrtClient, UnknownFlagsAreRefusedByName) {
  auto made = client_->compile(add_program(false), {.flags = {{"xla_no_such_flag", true}}});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, HasSubstr("xla_no_such_flag"));
}

TEST_F(PjrtClient, ProgramsAreLoadedFromTheirBytes) {
  auto bytes = compile(add_program(false)).about().serialised();
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  auto program = client_->load(*bytes);
  ASSERT_TRUE(program.ok()) << program.error().message;
  const Buffer x = upload(counted(1));
  EXPECT_EQ(download(run(*program, {&x, &x}))[7], 16);
}

TEST_F(PjrtClient, ReplicasMeetInASum) {
  for (const int replicas : {2, 4}) {
    const std::string groups = replicas == 2 ? "[[0, 1]]" : "[[0, 1, 2, 3]]";
    const std::string text = fmt::format(R"(module @sum {{
  "func.func"() <{{function_type = (tensor<8xf32>) -> tensor<8xf32>, sym_name = "main"}}> ({{
  ^bb0(%x: tensor<8xf32>):
    %0 = "stablehlo.all_reduce"(%x) <{{replica_groups = dense<{}> : tensor<1x{}xi64>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%s) : (tensor<f32>) -> ()
    }}) : (tensor<8xf32>) -> tensor<8xf32>
    "func.return"(%0) : (tensor<8xf32>) -> ()
  }}) : () -> ()
}}
)",
                                         groups, replicas);
    const LoadedExecutable program = compile(text, {.replicas = replicas});
    std::vector<Buffer> inputs;
    std::vector<std::vector<const Buffer*>> arguments;
    for (int r = 0; r < replicas; ++r)
      inputs.push_back(upload(counted(static_cast<float>(r)), static_cast<std::size_t>(r)));
    for (const Buffer& each : inputs) arguments.push_back({&each});
    auto made = program.execute(arguments);
    ASSERT_TRUE(made.ok()) << made.error().message;
    const float first = replicas == 2 ? 1 : 6;  // 0 + 1, 0 + 1 + 2 + 3
    for (int r = 0; r < replicas; ++r) {
      const std::vector<float> got = download((*made)[static_cast<std::size_t>(r)][0]);
      for (int i = 0; i < 8; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], first + static_cast<float>(replicas * i));
    }
  }
}

TEST_F(PjrtClient, NeedsAsManyDevicesAsReplicas) {
  auto made = client_->compile(add_program(false), {.replicas = 5});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Code::kInvalidArgument) << made.error().message;
}

/// Of this process, in pages.
std::size_t resident() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}

TEST_F(PjrtClient, TenThousandCallsTakeNoMemoryAndLittleTime) {
  const LoadedExecutable program = compile(add_program(true));
  const Buffer y = upload(counted(0));
  const auto call = [&] {
    const Buffer x = upload(counted(1));
    EXPECT_EQ(download(run(program, {&x, &y}))[1], 3);
    std::vector<float> none(8);
    EXPECT_FALSE(x.copy_to(std::span(none)).ok());  // it was donated; errors are objects too
  };
  for (int i = 0; i < 2000; ++i) call();
  const std::size_t before = resident();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10'000; ++i) call();
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / 1e4;
  RecordProperty("us_each", fmt::format("{:.1f}", us));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return;  // they keep what was freed for a while, and find leaks themselves
#endif
  // A leak of the smallest object, 32 bytes in each call, would be 78 pages; the allocator's own way takes fewer.
  EXPECT_LT(resident(), before + 64) << "pages";
}

}  // namespace
}  // namespace troupe::pjrt
