#pragma once
// Cap'n Proto inside of frames: laying a message out in one pooled buffer, and opening untrusted bytes. Internal to
// this folder's .cpp files, the only ones that see Cap'n Proto; never include it from a header that others use.
#include <capnp/any.h>
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <fmt/format.h>
#include <kj/exception.h>
#include <messages/envelope.capnp.h>  // generated

#include <bit>
#include <cmath>
#include <memory>
#include <string>

#include <troupe/core/check.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/messages/columns.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::messages {

static_assert(std::endian::native == std::endian::little, "spans point into messages, which are little endian");

/// Words that a text takes in a message.
inline std::size_t text_words(std::size_t bytes) { return bytes / 8 + 1; }

/// Builds one message in one pooled buffer of a size known beforehand. The head (structs, texts, lists) is written
/// first, in memory that is cleared as Cap'n Proto demands; aligned_data() then reserves bulk bytes, which nobody
/// clears.
class MessageWriter {
 public:
  /// head_words: upper bound of everything but bulk; bulk_bytes: sum over aligned_data() calls; bulk_count: their
  /// number.
  static Result<MessageWriter> make(FramePool& pool, std::size_t head_words, std::size_t bulk_bytes,
                                    std::size_t bulk_count);

  schema::Envelope::Builder root() { return message_->getRoot<schema::Envelope>(); }

  /// Bytes at a multiple of 64 of the frame, to be adopted by a field. After the first call the head is complete:
  /// nothing else may be allocated in the message.
  capnp::Orphan<capnp::Data> aligned_data(std::size_t bytes);

  /// Writes the segment table and freezes. `parsed` is what readers in this process will see.
  Frame finish(std::unique_ptr<const Parsed> parsed) &&;

 private:
  MessageWriter(FrameBuffer buffer, std::size_t words, std::size_t head_words);
  std::size_t used_words();

  FrameBuffer buffer_;
  std::size_t head_words_;
  bool head_done_ = false;
  std::unique_ptr<capnp::FlatMessageBuilder> message_;
};

/// The elements of a list that was just initialised in a message, to be written in place.
template <typename T, typename ListBuilder>
std::span<T> elements_of(ListBuilder list) {
  const kj::ArrayPtr<const kj::byte> raw = capnp::AnyList::Reader(list.asReader()).getRawBytes();
  return {reinterpret_cast<T*>(const_cast<kj::byte*>(raw.begin())), raw.size() / sizeof(T)};
}

/// A received list as a span, checked to be `count` packed elements of T. Errors: kInvalidArgument naming `what`.
template <typename T, typename ListReader>
Result<std::span<const T>> elements_of(ListReader list, std::size_t count, std::string_view what) {
  const kj::ArrayPtr<const kj::byte> raw = capnp::AnyList::Reader(list).getRawBytes();
  if (list.size() != count || raw.size() != count * sizeof(T)) {
    return Error{Code::kInvalidArgument, fmt::format("{}: got {} elements of {} bytes in all, expected {} of {} each",
                                                     what, list.size(), raw.size(), count, sizeof(T))};
  }
  return std::span<const T>(reinterpret_cast<const T*>(raw.begin()), count);
}

/// Every value finite and >= 0. Errors: kInvalidArgument naming `what` and the index.
Status check_priorities(std::span<const double> priorities, std::string_view what);

/// The bytes are one segment of exactly the frame's size. Errors: kCorrupt.
Status check_segment_table(std::span<const std::byte> bytes);

/// Opens untrusted bytes as a message of `kind` and hands the root to `read`, which copies out or validates everything.
/// Cap'n Proto checks pointers when they are followed, so all access must happen inside `read`; the limits
/// (tests/messages/hostile_test.cpp) keep a message from costing more than a small multiple of its size.
/// bytes: start at a multiple of 8, as a frame's do.
template <typename Read>
auto open_message(std::span<const std::byte> bytes, Kind kind, Read read)
    -> decltype(read(schema::Envelope::Reader())) {
  TROUPE_TRY(check_segment_table(bytes));
  try {
    const std::size_t words = bytes.size() / sizeof(capnp::word);
    capnp::ReaderOptions options;
    options.traversalLimitInWords = std::max<std::size_t>(4096, 4 * words);
    options.nestingLimit = 16;
    capnp::FlatArrayMessageReader message(kj::arrayPtr(reinterpret_cast<const capnp::word*>(bytes.data()), words),
                                          options);
    const auto root = message.getRoot<schema::Envelope>();
    const auto got = static_cast<Kind>(static_cast<std::uint16_t>(root.which()));
    if (got != kind) {
      return Error{Code::kInvalidArgument, fmt::format("frame: got a message of kind {} ({}), expected {}",
                                                       static_cast<int>(got), to_string(got), to_string(kind))};
    }
    return read(root);
  } catch (const kj::Exception& exception) {
    return Error{Code::kCorrupt,
                 fmt::format("malformed {} message: {}", to_string(kind), exception.getDescription().cStr())};
  }
}

/// What is kept with the frame, or `validate(root)` kept from now on: a frame is validated once, however often it is
/// read.
template <typename Validate>
Result<const Parsed*> parsed_once(const Frame& frame, Kind kind, Validate validate) {
  if (const Parsed* parsed = frame.parsed(); parsed != nullptr && parsed->kind() == kind) return parsed;
  TROUPE_ASSIGN(std::unique_ptr<const Parsed> parsed, open_message(frame.bytes(), kind, validate));
  return frame.keep(std::move(parsed));
}

/// A text of at most `max_bytes`. Errors: kInvalidArgument naming `what`.
Result<std::string> text_of(capnp::Text::Reader text, std::size_t max_bytes, std::string_view what);

Result<DType> dtype_of(schema::DType dtype, std::string_view what);
inline schema::DType to_schema(DType dtype) { return static_cast<schema::DType>(dtype); }

// --- columns: shared by trajectories, batches and calls of a policy (columns.cpp) ---

/// Upper bound of the head words that lay_out_columns() needs.
std::size_t column_head_words(const Signature& signature);
/// A spec whose elements can be counted. Errors: kInvalidArgument.
Result<TensorSpec> read_spec(schema::TensorSpec::Reader spec, std::string_view where);
void write_spec(schema::TensorSpec::Builder to, const TensorSpec& spec);
/// Writes specs into a list that was initialised with one entry a column. Allocates: call before aligned_data().
void write_specs(capnp::List<schema::Column>::Builder columns, const Signature& signature);
/// Reserves every column's bytes in the message; the view's signature is `signature`.
MutableBatchView lay_out_columns(MessageWriter& writer, capnp::List<schema::Column>::Builder columns,
                                 const Signature& signature, std::int64_t rows);

struct ReadColumns {
  std::shared_ptr<const Signature> signature;
  BatchView view;
};
/// Whether floating-point columns may hold NaNs and infinities.
enum class Values { kFinite, kAny };
/// Validates received columns completely. Errors: kInvalidArgument naming the column.
Result<ReadColumns> read_columns(capnp::List<schema::Column>::Reader columns, std::int64_t rows, std::string_view where,
                                 Values values = Values::kFinite);
/// Errors: kInvalidArgument naming the column.
Status check_finite(const TensorSpec& column, std::span<const std::byte> values, std::string_view where);

}  // namespace troupe::messages
