// What passing messages between two roles of one process costs, on threads, through the whole shell: mailbox, credits,
// deadlines, supervision. One iteration runs a topology; its time is taken inside, between the first message and the
// last, so that starting and stopping the actor system does not count.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/core/check.hpp>

namespace troupe::actors {
namespace {

constexpr std::int64_t kCalls = 50'000;
constexpr std::int64_t kFrames = 5'000;
constexpr std::int64_t kFrameBytes = 1 << 20;
constexpr std::int64_t kCacheLine = 64;
constexpr std::int64_t kFramesAhead = 4;  // as between the roles of D4PG
constexpr Duration kDeadline = std::chrono::seconds(10);

/// From the first message to the last, written by one role and read when the runtime is gone.
struct Measured {
  Duration first{};
  Duration last{};
  std::int64_t errors = 0;
};

/// Answers each request with the same frame.
class Echo final : public Role {
 public:
  Result<Progress> step(RoleContext& context) override {
    Server& calls = context.server("calls");
    while (!calls.empty()) {
      auto [request, answer] = calls.take();
      answer(std::move(request));
    }
    return Progress::kIdle;
  }
};

/// Calls with a new number when the number before has come back.
class Asker final : public Role {
 public:
  explicit Asker(Measured& measured) : measured_(measured) {}

  Result<Progress> step(RoleContext& context) override {
    Caller& calls = context.caller("calls");
    if (!calls.ready()) return Progress::kIdle;
    if (asked_ == 0) measured_.first = context.clock().now();
    if (asked_ == kCalls) {
      measured_.last = context.clock().now();
      return Progress::kDone;
    }
    const std::int64_t number = asked_++;
    TROUPE_ASSIGN(Frame request, context.pool().copy(std::as_bytes(std::span(&number, 1))));
    calls.call(std::move(request), kDeadline, [this, number](const Result<Frame>& answer) {
      measured_.errors += !answer.ok() || std::memcmp(answer->bytes().data(), &number, sizeof(number)) != 0;
    });
    return Progress::kIdle;
  }

 private:
  Measured& measured_;
  std::int64_t asked_ = 0;
};

/// How much of a frame producer and consumer touch.
enum class Touch {
  kEnds,  ///< a new value in the first and last word: the cost of passing a frame of data that is there already
  kAll,   ///< every byte written, every cache line read: mostly the memory's own speed
};

/// Sends frames, each with a new value.
class Filler final : public Role {
 public:
  explicit Filler(Touch touch) : touch_(touch) {}

  Result<Progress> step(RoleContext& context) override {
    Outlet& frames = context.out("frames");
    if (sent_ == kFrames) return Progress::kDone;
    if (!frames.ready()) return Progress::kIdle;
    TROUPE_ASSIGN(auto buffer, context.pool().allocate(kFrameBytes));
    std::byte* bytes = buffer.bytes().data();
    const int value = static_cast<std::uint8_t>(sent_++);
    if (touch_ == Touch::kAll) {
      std::memset(bytes, value, kFrameBytes);
    } else {
      std::memset(bytes, value, kCacheLine);
      std::memset(bytes + kFrameBytes - kCacheLine, value, kCacheLine);
    }
    frames.send(std::move(buffer).freeze(kFrameBytes));
    return Progress::kMore;
  }

 private:
  Touch touch_;
  std::int64_t sent_ = 0;
};

/// Sums one byte of every cache line that was written, which brings it to this role's core.
class Summer final : public Role {
 public:
  Summer(Touch touch, Measured& measured)
      : stride_(touch == Touch::kAll ? kCacheLine : kFrameBytes - kCacheLine), measured_(measured) {}

  Result<Progress> step(RoleContext& context) override {
    Inlet& frames = context.in("frames");
    if (frames.empty()) return Progress::kIdle;
    if (taken_ == 0) measured_.first = context.clock().now();
    const Frame frame = frames.take();
    const std::byte* bytes = frame.bytes().data();
    std::int64_t sum = 0;
    std::int64_t lines = 0;
    for (std::int64_t i = 0; i < kFrameBytes; i += stride_, ++lines) sum += std::to_integer<std::int64_t>(bytes[i]);
    measured_.errors += sum != (taken_ % 256) * lines;
    if (++taken_ < kFrames) return Progress::kMore;
    measured_.last = context.clock().now();
    return Progress::kDone;
  }

 private:
  std::int64_t stride_;  ///< bytes
  Measured& measured_;
  std::int64_t taken_ = 0;
};

/// Runs the topology that `make` builds around a Measured, once an iteration.
template <typename MakeTopology>
void run(benchmark::State& state, std::int64_t messages, const MakeTopology& make) {
  for (auto _ : state) {
    Measured measured;
    auto runtime = Runtime::make(make(measured), {}).value();
    const auto ended = runtime->run([] { return false; });
    runtime.reset();
    TROUPE_CHECK(ended.ok() && measured.errors == 0, "{} wrong answers; {}", measured.errors,
                 ended.ok() ? "" : ended.error().message);
    state.SetIterationTime(seconds(measured.last - measured.first));
  }
  state.SetItemsProcessed(state.iterations() * messages);
}

/// One call at a time between two roles that do nothing else: pure latency.
void request_reply(benchmark::State& state) {
  run(state, kCalls, [](Measured& measured) {
    const std::vector<Port> port = {{"calls", "Number", ChannelKind::kRequest}};
    Topology topology;
    topology.roles = {
        {.name = "asker",
         .outlets = port,
         .make = [&measured](const RoleIdentity&) -> Result<std::unique_ptr<Role>> {
           return {std::make_unique<Asker>(measured)};
         },
         .completes_run = true},
        {.name = "echo",
         .inlets = port,
         .make = [](const RoleIdentity&) -> Result<std::unique_ptr<Role>> { return {std::make_unique<Echo>()}; }},
    };
    topology.channels = {{"asker", "calls", "echo", "calls", /*capacity=*/1}};
    return topology;
  });
  state.SetLabel("round trips/s");
}
BENCHMARK(request_reply)->UseManualTime()->Iterations(4);

/// A stream of large frames from one thread to another.
void frames(benchmark::State& state, Touch touch) {
  run(state, kFrames, [touch](Measured& measured) {
    Topology topology;
    topology.roles = {
        {.name = "filler",
         .outlets = {{"frames", "Bytes"}},
         .make = [touch](const RoleIdentity&) -> Result<std::unique_ptr<Role>> {
           return {std::make_unique<Filler>(touch)};
         },
         .execution = Execution::kThread},
        {.name = "summer",
         .inlets = {{"frames", "Bytes"}},
         .make = [&measured, touch](const RoleIdentity&) -> Result<std::unique_ptr<Role>> {
           return {std::make_unique<Summer>(touch, measured)};
         },
         .execution = Execution::kThread,
         .completes_run = true},
    };
    topology.channels = {{"filler", "frames", "summer", "frames", kFramesAhead}};
    return topology;
  });
  state.SetLabel("frames/s");
}

void frame_1_mib(benchmark::State& state) { frames(state, Touch::kEnds); }
BENCHMARK(frame_1_mib)->UseManualTime()->Iterations(4);

void frame_1_mib_filled(benchmark::State& state) { frames(state, Touch::kAll); }
BENCHMARK(frame_1_mib_filled)->UseManualTime()->Iterations(4);

}  // namespace
}  // namespace troupe::actors

BENCHMARK_MAIN();
