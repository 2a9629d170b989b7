#include <troupe/messages/detail/wire.hpp>

#include <cstring>

namespace troupe::messages {
namespace {

constexpr std::size_t kTableBytes = 8;  // one segment: count - 1, then its size in words, both u32
constexpr std::size_t kAlignBytes = 64;
constexpr std::size_t kPadWords = kAlignBytes / sizeof(capnp::word);

}  // namespace

Result<MessageWriter> MessageWriter::make(FramePool& pool, std::size_t head_words, std::size_t bulk_bytes,
                                          std::size_t bulk_count) {
  // Each bulk part may need padding before it and a partly used last word.
  const std::size_t words = head_words + bulk_bytes / sizeof(capnp::word) + bulk_count * (kPadWords + 1);
  TROUPE_ASSIGN(FrameBuffer buffer, pool.allocate(kTableBytes + words * sizeof(capnp::word)));
  return MessageWriter(std::move(buffer), words, head_words);
}

MessageWriter::MessageWriter(FrameBuffer buffer, std::size_t words, std::size_t head_words)
    : buffer_(std::move(buffer)), head_words_(head_words) {
  std::byte* const segment = buffer_.bytes().data() + kTableBytes;
  std::memset(segment, 0, head_words * sizeof(capnp::word));
  message_ = std::make_unique<capnp::FlatMessageBuilder>(kj::arrayPtr(reinterpret_cast<capnp::word*>(segment), words));
}

std::size_t MessageWriter::used_words() { return message_->getSegmentsForOutput()[0].size(); }

capnp::Orphan<capnp::Data> MessageWriter::aligned_data(std::size_t bytes) {
  const std::size_t used = used_words();
  TROUPE_CHECK(head_done_ || used <= head_words_, "message head of {} words, room for {}", used, head_words_);
  head_done_ = true;
  const std::size_t offset = (kTableBytes / sizeof(capnp::word) + used) % kPadWords;
  if (offset != 0) {
    // An orphan that is dropped stays as cleared words: padding.
    (void)message_->getOrphanage().newOrphan<capnp::Data>(
        static_cast<unsigned>((kPadWords - offset) * sizeof(capnp::word)));
  }
  auto orphan = message_->getOrphanage().newOrphan<capnp::Data>(static_cast<unsigned>(bytes));
  std::byte* const start = reinterpret_cast<std::byte*>(orphan.get().begin());
  if (bytes % sizeof(capnp::word) != 0) {
    std::memset(start + bytes, 0, sizeof(capnp::word) - bytes % sizeof(capnp::word));
  }
  return orphan;
}

Frame MessageWriter::finish(std::unique_ptr<const Parsed> parsed) && {
  const std::size_t words = used_words();
  message_.reset();
  const std::uint32_t table[2] = {0, static_cast<std::uint32_t>(words)};
  static_assert(sizeof(table) == kTableBytes);
  std::memcpy(buffer_.bytes().data(), table, sizeof(table));
  Frame frame = std::move(buffer_).freeze(kTableBytes + words * sizeof(capnp::word));
  if (parsed != nullptr) frame.keep(std::move(parsed));
  return frame;
}

Status check_priorities(std::span<const double> priorities, std::string_view what) {
  for (std::size_t i = 0; i < priorities.size(); ++i) {
    if (!(std::isfinite(priorities[i]) && priorities[i] >= 0)) {
      return Error{Code::kInvalidArgument,
                   fmt::format("{}[{}]: got {}, expected a finite value >= 0", what, i, priorities[i])};
    }
  }
  return {};
}

Status check_segment_table(std::span<const std::byte> bytes) {
  constexpr std::size_t kSmallest = kTableBytes + sizeof(capnp::word);
  if (bytes.size() < kSmallest || bytes.size() % sizeof(capnp::word) != 0) {
    return Error{Code::kCorrupt, fmt::format("frame: got {} bytes, expected at least {} and a multiple of {}",
                                             bytes.size(), kSmallest, sizeof(capnp::word))};
  }
  std::uint32_t table[2];
  std::memcpy(table, bytes.data(), sizeof(table));
  if (table[0] != 0) {
    return Error{Code::kCorrupt,
                 fmt::format("frame: got {} segments, expected 1", static_cast<std::uint64_t>(table[0]) + 1)};
  }
  const std::size_t words = (bytes.size() - kTableBytes) / sizeof(capnp::word);
  if (table[1] != words) {
    return Error{Code::kCorrupt, fmt::format("frame: segment table says {} words, but {} are there", table[1], words)};
  }
  return {};
}

Result<std::string> text_of(capnp::Text::Reader text, std::size_t max_bytes, std::string_view what) {
  if (text.size() > max_bytes) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got a text of {} bytes, expected at most {}", what, text.size(), max_bytes)};
  }
  return std::string(text.cStr(), text.size());
}

Result<DType> dtype_of(schema::DType dtype, std::string_view what) {
  const auto number = static_cast<std::uint16_t>(dtype);
  if (number > static_cast<std::uint16_t>(DType::kU8)) {
    return Error{Code::kInvalidArgument, fmt::format("{}: got unknown dtype {}", what, number)};
  }
  return static_cast<DType>(number);
}

}  // namespace troupe::messages
