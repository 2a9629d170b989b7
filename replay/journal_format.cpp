#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include <troupe/core/crc32c.hpp>
#include <troupe/replay/bytes.hpp>
#include <troupe/replay/detail/journal_format.hpp>
#include <troupe/replay/detail/signature_bytes.hpp>

namespace troupe::replay::detail {
namespace {

constexpr std::uint64_t kMagic = 0x314c4e524a505254;  // "TRPJRNL1"
constexpr std::size_t kHeadPrefixBytes = 8 + 4 + 4;
constexpr std::size_t kRecordHeaderBytes = 48;
constexpr std::uint32_t kNoProducer = ~std::uint32_t{0};
enum Kind : std::uint32_t { kRows = 1, kRowsWithPriorities = 2, kSplitRows = 3, kSplitRowsWithPriorities = 4 };

constexpr std::size_t padded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

/// planes: bytes of each pool, or none.
std::size_t body_bytes(const Signature& signature, std::size_t rows, bool priorities,
                       std::span<const std::uint64_t> planes) {
  std::size_t bytes = planes.size_bytes() + (priorities ? rows * sizeof(double) : 0);
  for (const TensorSpec& spec : signature) bytes += padded(rows * spec.bytes());
  for (const std::uint64_t pool : planes) bytes += padded(pool);
  return bytes;
}

std::vector<std::uint64_t> plane_bytes(const BatchView& rows) {
  std::vector<std::uint64_t> bytes;
  for (const auto& pool : rows.planes) bytes.push_back(pool.size());
  return bytes;
}

std::uint32_t head_crc(std::uint32_t body_size, std::span<const std::byte> body) {
  return crc32c(body, crc32c(std::as_bytes(std::span(&body_size, 1))));
}

Error cut_short(std::string_view what, std::size_t has, std::size_t needs) {
  return {Code::kOutOfRange, fmt::format("{} of {} bytes, got {}", what, needs, has)};
}
Error corrupt(std::string message) { return {Code::kCorrupt, std::move(message)}; }
Error bad_crc(std::string_view what, std::uint32_t got, std::uint32_t expected) {
  return corrupt(fmt::format("{} has checksum {:08x}, expected {:08x}", what, got, expected));
}

}  // namespace

std::string SegmentId::name() const { return fmt::format("journal-{:010}-{:010}", generation, number); }

std::optional<SegmentId> parse_segment_name(std::string_view name) {
  SegmentId id;
  constexpr std::string_view kPrefix = "journal-";
  const std::size_t dash = name.find('-', kPrefix.size());
  if (!name.starts_with(kPrefix) || dash == std::string_view::npos) return {};
  const char* const middle = name.data() + dash;
  const char* const end = name.data() + name.size();
  std::from_chars(name.data() + kPrefix.size(), middle, id.generation);
  std::from_chars(middle + 1, end, id.number);
  if (id.name() != name) return {};
  return id;
}

std::vector<std::byte> encode_head(const SegmentHead& head) {
  ByteWriter body;
  body.put(head.id.generation);
  body.put(head.id.number);
  body.put(static_cast<std::uint32_t>(head.lineage.size()));
  for (const JournalPosition& ancestor : head.lineage) {
    body.put(ancestor.generation);
    body.put(ancestor.row);
  }
  body.put(head.first_row);
  body.put(head.synced_row);
  body.put(head.first_key);
  body.put_string(head.owner);
  body.put(static_cast<std::uint32_t>(head.producers.all().size()));
  for (const auto& [index, last] : head.producers.all()) {
    body.put(index);
    body.put(last.incarnation);
    body.put(last.sequence);
  }
  put_signature(body, head.signature);
  std::vector<std::byte> bytes = body.take();
  bytes.resize(padded(bytes.size()));
  const auto size = static_cast<std::uint32_t>(bytes.size());
  ByteWriter out;
  out.put(kMagic);
  out.put(size);
  out.put(head_crc(size, bytes));
  out.put_bytes(bytes);
  return out.take();
}

Result<Parsed<SegmentHead>> decode_head(std::span<const std::byte> segment) {
  if (segment.size() < kHeadPrefixBytes) return cut_short("head", segment.size(), kHeadPrefixBytes);
  ByteReader prefix(segment.first(kHeadPrefixBytes));
  const auto magic = prefix.get<std::uint64_t>();
  const auto size = prefix.get<std::uint32_t>();
  const auto crc = prefix.get<std::uint32_t>();
  if (magic != kMagic) return corrupt(fmt::format("magic is {:016x}, expected {:016x}", magic, kMagic));
  if (size > kMaxHeadBytes) return corrupt(fmt::format("head of {} bytes, expected at most {}", size, kMaxHeadBytes));
  const std::size_t end = kHeadPrefixBytes + size;
  if (segment.size() < end) return cut_short("head", segment.size(), end);
  const auto body = segment.subspan(kHeadPrefixBytes, size);
  if (const std::uint32_t got = head_crc(size, body); got != crc) return bad_crc("head", got, crc);
  // From here on only a fault of the writer can be found.
  ByteReader in(body);
  SegmentHead head;
  head.id.generation = in.get<std::uint64_t>();
  head.id.number = in.get<std::uint64_t>();
  const auto ancestors = in.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < ancestors && in.ok(); ++i) {
    const auto generation = in.get<std::uint64_t>();
    head.lineage.push_back({generation, in.get<std::uint64_t>()});
  }
  head.first_row = in.get<std::uint64_t>();
  head.synced_row = in.get<std::uint64_t>();
  head.first_key = in.get<std::uint64_t>();
  head.owner = in.get_string();
  const auto producers = in.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < producers && in.ok(); ++i) {
    const auto index = in.get<std::uint32_t>();
    const auto incarnation = in.get<std::uint32_t>();
    head.producers.note({index, incarnation, in.get<std::uint64_t>()});
  }
  TROUPE_ASSIGN(head.signature, get_signature(in));
  if (!in.ok()) return corrupt("head is shorter than its fields");
  return Parsed<SegmentHead>{std::move(head), end};
}

std::size_t record_bytes(const JournalRecord& record) {
  return kRecordHeaderBytes + body_bytes(*record.rows.signature, static_cast<std::size_t>(record.rows.rows),
                                         !record.priorities.empty(), plane_bytes(record.rows));
}

void encode_record(const JournalRecord& record, std::vector<std::byte>& out) {
  const std::size_t start = out.size();
  const std::size_t total = record_bytes(record);
  out.resize(start + total);
  std::byte* at = out.data() + start + kRecordHeaderBytes;
  auto put_bytes = [&at](std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
    const std::size_t pad = padded(bytes.size()) - bytes.size();
    std::memset(at + bytes.size(), 0, pad);
    at += bytes.size() + pad;
  };
  const std::vector<std::uint64_t> planes = plane_bytes(record.rows);
  put_bytes(std::as_bytes(std::span(planes)));
  put_bytes(std::as_bytes(record.priorities));
  for (const auto& column : record.rows.columns) put_bytes(column);
  for (const auto& pool : record.rows.planes) put_bytes(pool);

  at = out.data() + start + sizeof(std::uint32_t);  // behind the header's own checksum
  auto put = [&at](auto value) {
    std::memcpy(at, &value, sizeof(value));
    at += sizeof(value);
  };
  const std::size_t body = total - kRecordHeaderBytes;
  put(crc32c(std::span(out).subspan(start + kRecordHeaderBytes, body)));
  put(static_cast<std::uint64_t>(body));
  const bool split = !planes.empty();
  put(static_cast<std::uint32_t>(record.priorities.empty() ? (split ? kSplitRows : kRows)
                                                           : (split ? kSplitRowsWithPriorities : kRowsWithPriorities)));
  put(static_cast<std::uint32_t>(record.rows.rows));
  const ProducerSequence producer = record.producer.value_or(ProducerSequence{kNoProducer, 0, 0});
  put(producer.index);
  put(producer.incarnation);
  put(producer.sequence);
  put(record.samples);
  const std::uint32_t crc = crc32c(std::span(out).subspan(start + 4, kRecordHeaderBytes - 4));
  std::memcpy(out.data() + start, &crc, sizeof(crc));
}

Result<Parsed<JournalRecord>> decode_record(std::span<const std::byte> segment, std::size_t offset,
                                            const Stacks& stacks) {
  const auto rest = segment.subspan(offset);
  if (rest.size() < kRecordHeaderBytes) return cut_short("record header", rest.size(), kRecordHeaderBytes);
  ByteReader header(rest.first(kRecordHeaderBytes));
  const auto crc = header.get<std::uint32_t>();
  const std::uint32_t got = crc32c(rest.subspan(4, kRecordHeaderBytes - 4));
  if (got != crc) return bad_crc("record header", got, crc);
  const auto body_crc = header.get<std::uint32_t>();
  const auto body_size = header.get<std::uint64_t>();
  const auto kind = header.get<std::uint32_t>();
  const auto rows = header.get<std::uint32_t>();
  JournalRecord record;
  ProducerSequence producer;
  producer.index = header.get<std::uint32_t>();
  producer.incarnation = header.get<std::uint32_t>();
  producer.sequence = header.get<std::uint64_t>();
  if (producer.index != kNoProducer) record.producer = producer;
  record.samples = header.get<std::int64_t>();
  const bool split = stacks.any() && (kind == kSplitRows || kind == kSplitRowsWithPriorities);
  const bool priorities = kind == kRowsWithPriorities || kind == kSplitRowsWithPriorities;
  const Signature& signature = split ? stacks.split() : stacks.whole();
  const auto wrong = [&] {
    return corrupt(fmt::format("record of kind {} has {} rows in {} bytes", kind, rows, body_size));
  };
  if ((!split && kind != kRows && kind != kRowsWithPriorities) || rows == 0) return wrong();
  if (!split && body_size != body_bytes(signature, rows, priorities, {})) return wrong();
  if (body_size > kMaxRecordBytes || (split && body_size < stacks.pools().size() * sizeof(std::uint64_t)))
    return wrong();
  if (rest.size() - kRecordHeaderBytes < body_size) {
    return cut_short("record", rest.size(), kRecordHeaderBytes + body_size);
  }
  auto body = rest.subspan(kRecordHeaderBytes, body_size);
  if (const std::uint32_t got_body = crc32c(body); got_body != body_crc) {
    return bad_crc("record body", got_body, body_crc);
  }
  std::vector<std::uint64_t> planes(split ? stacks.pools().size() : 0);
  for (std::uint64_t& pool : planes) {
    std::memcpy(&pool, body.data(), sizeof(pool));
    body = body.subspan(sizeof(pool));
    if (pool > kMaxRecordBytes) return wrong();
  }
  if (split && body_size != body_bytes(signature, rows, priorities, planes)) return wrong();
  if (priorities) {
    record.priorities = {reinterpret_cast<const double*>(body.data()), rows};
    body = body.subspan(rows * sizeof(double));
  }
  record.rows.signature = &signature;
  record.rows.rows = rows;
  for (const TensorSpec& spec : signature) {
    const std::size_t bytes = rows * spec.bytes();
    record.rows.columns.push_back(body.first(bytes));
    body = body.subspan(padded(bytes));
  }
  for (const std::uint64_t pool : planes) {
    record.rows.planes.push_back(body.first(pool));
    body = body.subspan(padded(pool));
  }
  if (split) {
    if (const Status there = stacks.check_planes(record.rows, "record"); !there.ok()) {
      return corrupt(there.error().message);
    }
  }
  return Parsed<JournalRecord>{std::move(record), offset + kRecordHeaderBytes + body_size};
}

std::vector<std::byte> encode_claim(const Claim& claim) {
  ByteWriter out;
  out.put(claim.generation);
  out.put(claim.synced_row);
  out.put(claim.oldest_row);
  std::vector<std::byte> bytes = out.take();
  const std::uint64_t crc = crc32c(bytes);
  bytes.resize(kClaimBytes);
  std::memcpy(bytes.data() + kClaimBytes - sizeof(crc), &crc, sizeof(crc));
  return bytes;
}

std::optional<Claim> decode_claim(std::span<const std::byte> bytes) {
  if (bytes.size() != kClaimBytes) return {};
  ByteReader in(bytes);
  Claim claim;
  claim.generation = in.get<std::uint64_t>();
  claim.synced_row = in.get<std::uint64_t>();
  claim.oldest_row = in.get<std::uint64_t>();
  if (in.get<std::uint64_t>() != crc32c(bytes.first(kClaimBytes - sizeof(std::uint64_t)))) return {};
  return claim;
}

}  // namespace troupe::replay::detail
