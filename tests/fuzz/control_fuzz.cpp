// What the chief and the nodes say to each other.
#include <troupe/messages/control.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>
#include <troupe/tests/messages/samples.hpp>

namespace troupe::fuzz {

using namespace messages;
namespace {

void one_input(Bytes input) {
  std::vector<std::byte> bytes(input.begin(), input.end());
  bytes.resize(std::max<std::size_t>(16, (bytes.size() + 7) / 8 * 8));
  store(bytes, 0, static_cast<std::uint64_t>(bytes.size() / 8 - 1) << 32);  // the table of segments
  FramePool pool;
  const auto got = read_control(pool.copy(bytes).value());
  if (!got.ok()) return;
  const auto written = make_control(pool, *got);
  if (!written.ok()) return;  // texts that share their bytes can be longer once each has its own
  const auto again = read_control(*written);
  TROUPE_CHECK(again.ok() && *again == *got, "a {} changed", to_string(got->kind));
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  FramePool pool;
  Control control = messages::testing::sample_control();
  for (std::uint16_t kind = 0; kind < kControlKinds; kind += 5) {
    control.kind = static_cast<ControlKind>(kind);
    all.push_back(to_string(make_control(pool, control)->bytes()));
  }
  all.push_back(to_string(make_control(pool, {.kind = ControlKind::kAlive, .number = 4, .late_ms = 2})->bytes()));
  return all;
}

const Registered registered({"control", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
