// A topology of one's own: two kinds of roles and a type of message. The thermometer measures, the display averages;
// the display is slow, so the channel's credits hold the thermometer back. hello_topology.toml says how many there are
// of each and how they are wired.
//   hello_topology train hello_topology.toml                 in one process
//   hello_topology train hello_topology.toml --processes     each role in its own
//   hello_topology graph hello_topology.toml                 a picture of it
#include <fmt/core.h>

#include <cstring>
#include <memory>

#include <troupe/apps/main.hpp>

using namespace troupe;          // NOLINT: an example reads better without prefixes
using namespace troupe::actors;  // NOLINT

// A role is a function that is called whenever it can do something. This one has something to do while its outlet has
// room.
class Thermometer : public Role {
 public:
  explicit Thermometer(const ConfigSection& keys) : lowest_(keys.get_float("lowest")) {}

  Result<Progress> step(RoleContext& context) override {
    Outlet& celsius = context.out("celsius");
    if (!celsius.ready()) return Progress::kIdle;  // no credit: called again when the display has taken a frame
    const double measured = lowest_ + 0.5 * (measured_++ % 5);
    // A frame is an immutable buffer; within a process it travels by pointer.
    TROUPE_ASSIGN(Frame frame, context.pool().copy(std::as_bytes(std::span(&measured, 1))));
    celsius.send(std::move(frame));
    return Progress::kMore;
  }

 private:
  double lowest_;
  int measured_ = 0;
};

// This one has something to do when a frame has come in, and is done after as many as its key says. What it has seen
// goes into every checkpoint, so a run that is stopped goes on with --resume.
class Display : public Role {
 public:
  explicit Display(const ConfigSection& keys) : wanted_(keys.get_int("measurements")) {}

  Result<Progress> step(RoleContext& context) override {
    Inlet& celsius = context.in("celsius");
    if (count_ >= wanted_) return Progress::kDone;
    if (celsius.empty()) return Progress::kIdle;
    double value = 0;
    const Frame frame = celsius.take();  // gives the credit back
    if (frame.size() != sizeof(value)) return Error{Code::kInvalidArgument, "a measurement has 8 bytes"};
    std::memcpy(&value, frame.bytes().data(), sizeof(value));
    millidegrees_ += static_cast<std::int64_t>(value * 1000);
    if (++count_ < wanted_) return Progress::kMore;
    fmt::print("mean of {} measurements: {:.2f} degrees\n", count_, mean());
    return Progress::kDone;
  }
  void report(Report& report) const override { report.gauges.push_back({"mean", mean()}); }
  Result<RoleState> save() const override {
    return RoleState{.counters = {{"count", count_}, {"millidegrees", millidegrees_}}};
  }
  Status restore(const RoleState& state) override {
    TROUPE_ASSIGN(count_, state.counter("count"));
    TROUPE_ASSIGN(millidegrees_, state.counter("millidegrees"));
    return {};
  }

 private:
  double mean() const {
    return count_ == 0 ? 0 : static_cast<double>(millidegrees_) / 1000 / static_cast<double>(count_);
  }

  std::int64_t wanted_;
  std::int64_t count_ = 0;
  std::int64_t millidegrees_ = 0;
};

int main(int argc, char** argv) {
  Registry mine = shipped();
  mine.message("Celsius", {.max_bytes = sizeof(double)});  // without a check: opaque
  mine.role("thermometer",
            {.doc = "Measures as fast as its outlet has room",
             .outlets = {{"celsius", "Celsius"}},
             .keys = {{.path = "lowest", .default_value = 20.0, .doc = "Of its measurements", .unit = "degrees"}},
             .make = role_of<Thermometer>,
             .elastic = true});
  mine.role("display", {.doc = "Averages what is measured",
                        .inlets = {{"celsius", "Celsius"}},
                        .keys = {{.path = "measurements",
                                  .default_value = std::int64_t{100},
                                  .doc = "After which it is done, and the run with it",
                                  .min = 1}},
                        .make = role_of<Display>,
                        .restart_from = RestartFrom::kLastCut,
                        .completes_run = true});
  return troupe::main(argc, argv, mine);
}
