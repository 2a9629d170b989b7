// A topology of one's own in one page: two roles and a channel. A thermometer measures, a display averages; the display
// is slow, so the channel's credits hold the thermometer back. Run it: build/examples/hello_topology
#include <troupe/actors/control/runtime.hpp>

#include <fmt/core.h>

#include <cstring>
#include <memory>

using namespace troupe;          // NOLINT: an example reads better without prefixes
using namespace troupe::actors;  // NOLINT

// A role is a function that is called whenever it can do something. This one has something to do while its outlet has
// room.
class Thermometer : public Role {
 public:
  Result<Progress> step(RoleContext& context) override {
    Outlet& celsius = context.out("celsius");
    if (!celsius.ready()) return Progress::kIdle;  // no credit: called again when the display has taken a frame
    const double measured = 20 + 0.5 * (measured_++ % 5);
    // A frame is an immutable buffer; it travels by pointer. Real roles put Cap'n Proto messages in it (messages/).
    TROUPE_ASSIGN(Frame frame, context.pool().copy(std::as_bytes(std::span(&measured, 1))));
    celsius.send(std::move(frame));
    return Progress::kMore;
  }

 private:
  int measured_ = 0;
};

// This one has something to do when a frame has come in, and is done after a hundred.
class Display : public Role {
 public:
  Result<Progress> step(RoleContext& context) override {
    Inlet& celsius = context.in("celsius");
    if (celsius.empty()) return Progress::kIdle;
    double value = 0;
    const Frame frame = celsius.take();  // gives the credit back
    std::memcpy(&value, frame.bytes().data(), sizeof(value));
    sum_ += value;
    if (++count_ < 100) return Progress::kMore;
    fmt::print("mean of {} measurements: {:.2f} degrees\n", count_, sum_ / count_);
    return Progress::kDone;
  }

 private:
  double sum_ = 0;
  int count_ = 0;
};

template <typename T>
Result<std::unique_ptr<Role>> make_role(const RoleIdentity&) {
  return {std::make_unique<T>()};
}

int main() {
  Topology topology;
  topology.roles = {
      {.name = "thermometer", .count = 2, .outlets = {{"celsius", "Celsius"}}, .make = make_role<Thermometer>},
      {.name = "display", .inlets = {{"celsius", "Celsius"}}, .make = make_role<Display>, .completes_run = true},
  };
  topology.channels = {{"thermometer", "celsius", "display", "celsius", /*capacity=*/4}};

  auto runtime = Runtime::make(std::move(topology), {});  // {.deterministic = true}: one thread, virtual time
  const auto ended = runtime.ok() ? (*runtime)->run([] { return false; }) : runtime.error();
  if (!ended.ok()) fmt::print(stderr, "hello_topology: {}\n", ended.error().message);
  return ended.ok() ? 0 : 1;
}
