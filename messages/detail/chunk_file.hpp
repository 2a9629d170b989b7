#pragma once
// Files of checksummed records, each one Cap'n Proto message: the parts of a checkpoint that are not tensors. Internal
// to messages/checkpoint.cpp. A record is 16 bytes of header (magic, CRC-32C, message size as u64) and the message,
// whose size is a multiple of 8; the checksum covers size and message.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/error.hpp>
#include <troupe/messages/checkpoint.hpp>

namespace troupe::messages {

/// Appends all chunks of one role, one record each; a role without chunks gives an empty file.
/// Errors: the file's; kInvalidArgument on a chunk above kMaxChunkBytes.
Status write_chunks(FileWriter& file, const RoleChunks& role);
/// Reads them back. Errors: kCorrupt naming record and difference (checksum, role, order, count, trailing bytes).
Result<std::vector<std::vector<std::byte>>> parse_chunks(std::span<const std::byte> file, std::string_view role);

/// The same for the counters: one record. Names: 1..256 bytes.
Status write_counters(FileWriter& file, std::span<const Counter> counters);
Result<std::vector<Counter>> parse_counters(std::span<const std::byte> file);

}  // namespace troupe::messages
