// The head of every frame on a link, and the control frames of a stream.
#include <array>
#include <limits>

#include <troupe/core/crc32c.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>
#include <troupe/transport/detail/stream_wire.hpp>
#include <troupe/transport/frame_header.hpp>

namespace troupe::fuzz {
namespace {

using namespace transport;

constexpr FrameLimits kLimits{.data_bytes = 1 << 20, .control_bytes = 1 << 10};

void header(Input input) {
  std::array<std::byte, kFrameHeaderBytes> bytes{};
  const bool repair = input.choose(2) == 1;
  const Bytes given = input.rest().first(std::min(input.rest().size(), bytes.size()));
  std::copy(given.begin(), given.end(), bytes.begin());
  if (repair) store(bytes, 12, crc32c(std::span(bytes).first<12>()));
  const auto got = decode_header(bytes, kLimits, load<std::uint32_t>(bytes, 8));
  if (!got.ok()) return;
  TROUPE_CHECK(got->length <= kLimits.data_bytes, "a frame of {} bytes", got->length);
  const auto again = encode_header(*got, kLimits);
  TROUPE_CHECK(again.ok() && same(*again, bytes), "the header of a frame of {} bytes changed", got->length);
  TROUPE_CHECK(!decode_header(bytes, kLimits, got->sequence + 1).ok(), "another sequence was accepted");
}

template <typename T, typename Encode>
void check_same(const Result<T>& got, Encode encode, Bytes payload) {
  if (got.ok()) TROUPE_CHECK(same(encode(*got), payload), "a frame of {} bytes changed", payload.size());
}

void control(Input input) {
  const ReceivedFrame frame{input.choose(4) == 0 ? FrameKind::kData : FrameKind::kControl, input.rest()};
  const auto any = [](const auto& value) { return encode(value); };
  check_same(decode_hello(frame), any, frame.payload);
  check_same(
      decode_ack(frame), [](std::uint64_t delivered) { return encode_ack(delivered); }, frame.payload);
  const auto resume = decode_resume(frame);
  check_same(resume, any, frame.payload);
  if (!resume.ok()) TROUPE_CHECK(resume.error().message.size() <= 4 * kMaxRefusal, "a long refusal");
}

void one_input(Bytes input) {
  Input choice(input);
  choice.choose(2) == 0 ? header(choice) : control(choice);
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const FrameKind kind : {FrameKind::kData, FrameKind::kControl, FrameKind::kWelcome, FrameKind::kRefusal}) {
    all.push_back(std::string("\0\1", 2) + to_string(encode_header({kind, 200, 7}, kLimits).value()));
  }
  const auto control = [&](const std::vector<std::byte>& frame) { all.push_back("\1\1" + to_string(frame)); };
  control(encode(StreamHello{.session = {}, .first = 3, .name = "replay-0/bulk"}));
  control(encode(StreamResume{.receiver = {}, .delivered = 12}));
  control(encode_ack(std::numeric_limits<std::uint64_t>::max()));
  control(encode_refusal({Code::kUnavailable, "TRP-E161 the name is taken"}));
  return all;
}

const Registered registered({"frame_header", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
