#include <troupe/messages/detail/chunk_file.hpp>

#include <cstring>

#include <troupe/core/crc32c.hpp>
#include <troupe/messages/detail/wire.hpp>

namespace troupe::messages {
namespace {

constexpr std::uint32_t kMagic = 0x4b435254;  // "TRCK"
constexpr std::size_t kRecordHeader = 16;
constexpr std::size_t kStructWords = 24;  // root pointer, Envelope and Chunk or Counters
constexpr std::size_t kMaxCounterName = 256;

Status append_record(FileWriter& file, const Frame& message) {
  std::array<std::byte, kRecordHeader> header;
  const std::uint64_t size = message.size();
  std::memcpy(header.data() + 8, &size, sizeof(size));
  const std::uint32_t crc = crc32c(message.bytes(), crc32c(std::span(header).subspan(8)));
  std::memcpy(header.data(), &kMagic, sizeof(kMagic));
  std::memcpy(header.data() + 4, &crc, sizeof(crc));
  TROUPE_TRY(file.append(header));
  return file.append(message.bytes());
}

/// Splits the record off the front of `file`.
Result<std::span<const std::byte>> take_record(std::span<const std::byte>& file, std::size_t index) {
  const auto corrupt = [&](std::string what) {
    return Error{Code::kCorrupt, fmt::format("record {}: {}", index, what)};
  };
  if (file.size() < kRecordHeader) return corrupt(fmt::format("ends after {} bytes of its header", file.size()));
  std::uint32_t magic, crc;
  std::uint64_t size;
  std::memcpy(&magic, file.data(), sizeof(magic));
  std::memcpy(&crc, file.data() + 4, sizeof(crc));
  std::memcpy(&size, file.data() + 8, sizeof(size));
  if (magic != kMagic) return corrupt(fmt::format("starts with {:08x}, expected {:08x}", magic, kMagic));
  if (size > file.size() - kRecordHeader || size % sizeof(capnp::word) != 0) {
    return corrupt(fmt::format("says {} bytes, but {} are there", size, file.size() - kRecordHeader));
  }
  const std::uint32_t got = crc32c(file.subspan(8, 8 + size));
  if (got != crc) return corrupt(fmt::format("CRC-32C is {:08x}, its header says {:08x}", got, crc));
  const auto message = file.subspan(kRecordHeader, size);
  file = file.subspan(kRecordHeader + size);
  return message;
}

}  // namespace

Status write_chunks(FileWriter& file, const RoleChunks& role) {
  constexpr std::size_t kFrameBytes = kMaxChunkBytes + 4096;
  FramePool pool({.max_frame_bytes = kFrameBytes, .max_bytes = 2 * kFrameBytes});
  for (std::size_t i = 0; i < role.chunks.size(); ++i) {
    const std::vector<std::byte>& chunk = role.chunks[i];
    if (chunk.size() > kMaxChunkBytes) {
      return Error{Code::kInvalidArgument, fmt::format("chunk {} of role {}: got {} bytes, expected at most {}", i,
                                                       role.role, chunk.size(), kMaxChunkBytes)};
    }
    TROUPE_ASSIGN(MessageWriter writer,
                  MessageWriter::make(pool, kStructWords + text_words(role.role.size()), chunk.size(), 1));
    auto message = writer.root().initChunk();
    message.setRole(role.role.c_str());
    message.setIndex(static_cast<std::uint32_t>(i));
    message.setCount(static_cast<std::uint32_t>(role.chunks.size()));
    auto data = writer.aligned_data(chunk.size());
    if (!chunk.empty()) std::memcpy(data.get().begin(), chunk.data(), chunk.size());
    message.adoptData(std::move(data));
    TROUPE_TRY(append_record(file, std::move(writer).finish(nullptr)));
  }
  return {};
}

Result<std::vector<std::vector<std::byte>>> parse_chunks(std::span<const std::byte> file, std::string_view role) {
  std::vector<std::vector<std::byte>> chunks;
  std::size_t count = 0;
  while (!file.empty()) {
    const std::size_t index = chunks.size();
    TROUPE_ASSIGN(const auto bytes, take_record(file, index));
    TROUPE_TRY(open_message(bytes, Kind::kChunk, [&](schema::Envelope::Reader root) -> Status {
      const auto message = root.getChunk();
      const std::string_view got_role(message.getRole().cStr(), message.getRole().size());
      if (index == 0) count = message.getCount();
      if (got_role != role || message.getIndex() != index || message.getCount() != count || index >= count) {
        return Error{Code::kCorrupt, fmt::format("record {}: is chunk {} of {} of another role or file, expected "
                                                 "chunk {} of {} of role {}",
                                                 index, message.getIndex(), message.getCount(), index, count, role)};
      }
      const capnp::Data::Reader data = message.getData();
      const auto* begin = reinterpret_cast<const std::byte*>(data.begin());
      chunks.emplace_back(begin, begin + data.size());
      return {};
    }));
  }
  if (chunks.size() != count) {
    return Error{Code::kCorrupt, fmt::format("got {} chunks, expected {}", chunks.size(), count)};
  }
  return chunks;
}

Status write_counters(FileWriter& file, std::span<const Counter> counters) {
  FramePool pool;
  std::size_t words = kStructWords;
  for (const Counter& counter : counters) {
    if (counter.name.empty() || counter.name.size() > kMaxCounterName || counter.name.find('\0') != std::string::npos) {
      return Error{Code::kInvalidArgument,
                   fmt::format("counter \"{}\": the name has {} bytes, expected 1..{} without NUL", counter.name,
                               counter.name.size(), kMaxCounterName)};
    }
    words += 2 + text_words(counter.name.size());
  }
  TROUPE_ASSIGN(MessageWriter writer, MessageWriter::make(pool, words, 0, 0));
  auto list = writer.root().initCounters().initCounters(static_cast<unsigned>(counters.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setName(counters[i].name.c_str());
    list[i].setValue(counters[i].value);
  }
  return append_record(file, std::move(writer).finish(nullptr));
}

Result<std::vector<Counter>> parse_counters(std::span<const std::byte> file) {
  TROUPE_ASSIGN(const auto bytes, take_record(file, 0));
  if (!file.empty()) return Error{Code::kCorrupt, fmt::format("{} bytes follow the counters", file.size())};
  return open_message(bytes, Kind::kCounters, [](schema::Envelope::Reader root) -> Result<std::vector<Counter>> {
    std::vector<Counter> counters;
    for (const auto counter : root.getCounters().getCounters()) {
      TROUPE_ASSIGN(std::string name, text_of(counter.getName(), kMaxCounterName, "counter"));
      if (name.empty() || name.find('\0') != std::string::npos)
        return Error{Code::kCorrupt, "a counter's name is empty or has a NUL"};
      counters.push_back({std::move(name), counter.getValue()});
    }
    return counters;
  });
}

}  // namespace troupe::messages
