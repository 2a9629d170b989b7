#pragma once
// The bytes of replay's journal; every number little-endian, every part padded to 8 bytes.
//
//   journal-GENERATION-NUMBER  a segment: one head, then records until the file ends
//     head    magic 8 | body bytes 4 | crc 4 | generation, number, lineage, first row, synced row, first key, owner,
//             producers, signature
//     record  crc of what follows in the header 4 | crc of the body 4 | body bytes 8 | kind 4 | rows 4 |
//             producer 4 | incarnation 4 | sequence 8 | samples 8, then the body: priorities (if any), columns; of
//             split rows (core/stacks.hpp) before them the bytes of each pool's planes, 8 each, and behind them the
//             planes
//   synced                     one Claim, written after every sync: damage before it is damage, damage behind it is a
//                              write that a crash cut short
//
// A segment stands for all rows from its first one on: what older segments say of them does not count. So going back to
// a checkpoint, or writing again what a failed sync left in doubt, is one rename of a complete new segment. A
// generation is one opening of the journal: an older process that still writes can neither collide with a newer one nor
// be believed.
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/stacks.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/replay/journal.hpp>

namespace troupe::replay::detail {

/// Bounds that a reader checks before it allocates.
inline constexpr std::uint64_t kMaxHeadBytes = std::uint64_t{4} << 20;
inline constexpr std::size_t kMaxLineage = 64;  ///< generations; checkpoints of older ones are not found any more
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{128} << 20;
inline constexpr std::uint64_t kMaxSegmentFileBytes = std::uint64_t{1} << 30;

struct SegmentId {
  std::uint64_t generation = 0;
  std::uint64_t number = 0;
  std::string name() const;
  friend auto operator<=>(const SegmentId&, const SegmentId&) = default;
};
inline constexpr std::string_view kUnfinishedSuffix = ".new";
/// Empty for any other name.
std::optional<SegmentId> parse_segment_name(std::string_view name);

struct SegmentHead {
  SegmentId id;
  std::vector<JournalPosition> lineage;  ///< older generations, and up to which row this one has the same ones
  std::uint64_t first_row = 0;           ///< of the segment's first record
  std::uint64_t synced_row = 0;          ///< rows before it were durable when the segment got its name
  Key first_key = 0;                     ///< of first_row
  std::string owner;
  SeenProducers producers;  ///< as of first_row
  Signature signature;
};
std::vector<std::byte> encode_head(const SegmentHead& head);

/// A part of a segment, and where the next one begins.
template <typename T>
struct Parsed {
  T value;
  std::size_t end = 0;
};
/// Errors: kOutOfRange when the bytes end before the head does, kCorrupt otherwise.
Result<Parsed<SegmentHead>> decode_head(std::span<const std::byte> segment);

/// Appends record_bytes() to `out`.
void encode_record(const JournalRecord& record, std::vector<std::byte>& out);
std::size_t record_bytes(const JournalRecord& record);
/// The record at `offset`, which borrows from `segment` and `stacks`. Errors: kOutOfRange when the bytes end before the
/// record does, kCorrupt otherwise.
Result<Parsed<JournalRecord>> decode_record(std::span<const std::byte> segment, std::size_t offset,
                                            const Stacks& stacks);

inline constexpr std::string_view kClaimName = "synced";
struct Claim {
  std::uint64_t generation = 0;
  std::uint64_t synced_row = 0;  ///< rows of this generation before it are durable
  std::uint64_t oldest_row = 0;  ///< rows before it have left the table, and their segments may be gone
};
inline constexpr std::size_t kClaimBytes = 32;
std::vector<std::byte> encode_claim(const Claim& claim);
/// Empty when the checksum is wrong.
std::optional<Claim> decode_claim(std::span<const std::byte> bytes);

}  // namespace troupe::replay::detail
