#pragma once
// What the ranks of a group write to each other over Peers: a fixed head and a payload. Private to the communicator
// over peers. Messages are built and checked here and nowhere else; what comes from a peer is believed only after
// parse() and read_*() have looked at all of it. Little-endian, as every machine that Troupe runs on.
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/collectives/call.hpp>

namespace troupe::collectives::detail {

static_assert(std::endian::native == std::endian::little);

enum class MessageKind : std::uint8_t {
  kHello = 1,   ///< has come to the epoch: Hello
  kHeads = 2,   ///< what ranks call, and the values of small calls: heads by rank, see write_block()
  kValues = 3,  ///< float32 or bfloat16 values of one step of a call
  kFailed = 4,  ///< the epoch is broken: FailedNote
  kAsk = 5,     ///< have you come to this call, and what are you doing?
  kAnswer = 6,  ///< AnswerNote
  kTicket = 7,  ///< where the memory of the sender's host is: its text
  kLocal = 8,   ///< whether the sender shares that memory: empty, or why not
};

/// The first bytes of every message.
struct MessageHead {
  std::uint32_t magic = kMagic;
  MessageKind kind = MessageKind::kHello;
  DType wire = DType::kF32;  ///< of kValues
  std::uint16_t unused = 0;
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;  ///< of the call in its epoch; kNoCall in kHello and in questions about it
  std::uint64_t step = 0;   ///< kHeads: the level of doubling; kValues: how many the sender sent this receiver before

  static constexpr std::uint32_t kMagic = 0x31475254;  // "TRG1"
  static constexpr std::uint64_t kNoCall = ~std::uint64_t{0};
};
static_assert(sizeof(MessageHead) == 32);

/// A message that has been looked at. `payload` lies in the message.
struct ParsedMessage {
  MessageHead head;
  std::span<const std::byte> payload;
};
/// Empty when this is no message of ours.
std::optional<ParsedMessage> parse(std::span<const std::byte> bytes);

/// Appends plain values and texts.
class Writer {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes(std::as_bytes(std::span(&value, 1)));
  }
  void bytes(std::span<const std::byte> bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
  void text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes(std::as_bytes(std::span(text)));
  }
  std::span<const std::byte> written() const { return out_; }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

/// Reads them again; after a read beyond the end, ok() is false and everything read is zero or empty.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  template <typename T>
  T get() {
    T value{};
    if (const auto from = bytes(sizeof(T)); !from.empty()) std::memcpy(&value, from.data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> bytes(std::size_t count) {
    if (count > in_.size()) ok_ = false;
    if (!ok_) return {};
    const auto taken = in_.first(count);
    in_ = in_.subspan(count);
    return taken;
  }
  std::string text() {
    const auto from = bytes(get<std::uint32_t>());
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  bool ok() const { return ok_; }
  bool at_end() const { return in_.empty(); }

 private:
  std::span<const std::byte> in_;
  bool ok_ = true;
};

struct Hello {
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint64_t digest = 0;  ///< of all that the members of an epoch must agree on
};

/// FNV-1a over epoch, size, and the members' ids and hosts in the order of their ranks.
std::uint64_t digest(const GroupView& view);

struct FailedNote {
  /// 0: the whole epoch, also its forming. i + 1: calls from index i on; those before may still end well, since who
  /// sends this has nothing more to do there.
  std::uint64_t from = 0;
  Error error;
};
std::vector<std::byte> write_failed(const FailedNote& note);
std::optional<FailedNote> read_failed(std::span<const std::byte> payload);

struct AnswerNote {
  bool entered = false;  ///< the call that was asked about
  std::int64_t step = 0;
  std::int64_t since_ns = 0;
  std::string what;
};
std::vector<std::byte> write_answer(const AnswerNote& note);
std::optional<AnswerNote> read_answer(std::span<const std::byte> payload);

/// What one rank says first in every call.
struct RankHead {
  Call call;
  double weight = 1;
  std::vector<float> values;  ///< of a small call: all that this rank contributes
};
std::vector<std::byte> write_head(const Call& call, double weight, std::span<const float> values);
std::optional<RankHead> read_head(std::span<const std::byte> bytes);

/// The heads of ranks [first, first + heads.size()), one after the other.
std::vector<std::byte> write_block(std::span<const std::vector<std::byte>> heads);
/// Empty unless there are exactly `count` of them.
std::optional<std::vector<std::vector<std::byte>>> read_block(std::span<const std::byte> payload, std::size_t count);

}  // namespace troupe::collectives::detail
