#include <troupe/collectives/detail/group_message.hpp>

#include <cmath>
#include <limits>
#include <utility>

namespace troupe::collectives::detail {
namespace {

bool travels_as(DType wire) { return wire == DType::kF32 || wire == DType::kBF16; }

}  // namespace

std::optional<ParsedMessage> parse(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto head = reader.get<MessageHead>();
  if (!reader.ok() || head.magic != MessageHead::kMagic) return std::nullopt;
  if (head.kind < MessageKind::kHello || head.kind > MessageKind::kLocal) return std::nullopt;
  if (!travels_as(head.wire)) return std::nullopt;
  return ParsedMessage{head, bytes.subspan(sizeof(MessageHead))};
}

std::uint64_t digest(const GroupView& view) {
  Writer all;
  all.put(view.epoch);
  all.put(static_cast<std::uint32_t>(view.size));
  for (const Member& member : view.members) {
    all.put(member.id);
    all.text(member.host);
  }
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : all.written()) {
    hash ^= static_cast<std::uint64_t>(byte);
    hash *= 0x100000001b3;
  }
  return hash;
}

std::vector<std::byte> write_failed(const FailedNote& note) {
  Writer writer;
  writer.put(note.from);
  writer.put(static_cast<std::uint8_t>(note.error.code));
  writer.text(note.error.message);
  return writer.take();
}

std::optional<FailedNote> read_failed(std::span<const std::byte> payload) {
  Reader reader(payload);
  FailedNote note;
  note.from = reader.get<std::uint64_t>();
  const auto code = reader.get<std::uint8_t>();
  note.error.message = reader.text();
  if (!reader.ok() || !reader.at_end() || code > static_cast<std::uint8_t>(kLastCode)) return std::nullopt;
  note.error.code = static_cast<Code>(code);
  return note;
}

std::vector<std::byte> write_answer(const AnswerNote& note) {
  Writer writer;
  writer.put(static_cast<std::uint8_t>(note.entered));
  writer.put(note.step);
  writer.put(note.since_ns);
  writer.text(note.what);
  return writer.take();
}

std::optional<AnswerNote> read_answer(std::span<const std::byte> payload) {
  Reader reader(payload);
  AnswerNote note;
  note.entered = reader.get<std::uint8_t>() != 0;
  note.step = reader.get<std::int64_t>();
  note.since_ns = reader.get<std::int64_t>();
  note.what = reader.text();
  if (!reader.ok() || !reader.at_end()) return std::nullopt;
  return note;
}

std::vector<std::byte> write_head(const Call& call, double weight, std::span<const float> values) {
  Writer writer;
  writer.put(weight);
  writer.put(call.kind);
  writer.put(call.op);
  writer.put(call.wire);
  writer.put(call.dtype);
  writer.put(static_cast<std::uint8_t>(call.shape.rank()));
  for (const std::int64_t dim : call.shape.dims()) writer.put(dim);
  writer.put(static_cast<std::int32_t>(call.root));
  writer.put(static_cast<std::uint64_t>(call.count));
  writer.text(call.name);
  writer.bytes(std::as_bytes(values));
  return writer.take();
}

std::optional<RankHead> read_head(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  RankHead head;
  head.weight = reader.get<double>();
  head.call.kind = reader.get<CallKind>();
  head.call.op = reader.get<ReduceOp>();
  head.call.wire = reader.get<DType>();
  head.call.dtype = reader.get<DType>();
  const auto dims = reader.get<std::uint8_t>();
  if (dims > Shape::kMaxRank) return std::nullopt;
  std::vector<std::int64_t> shape;
  for (int axis = 0; axis < dims; ++axis) {
    shape.push_back(reader.get<std::int64_t>());
    if (shape.back() < 0) return std::nullopt;
  }
  head.call.shape = Shape(std::span<const std::int64_t>(shape));
  head.call.root = reader.get<std::int32_t>();
  head.call.count = reader.get<std::uint64_t>();
  head.call.name = reader.text();
  if (!reader.ok() || head.call.kind > CallKind::kBarrier || head.call.op > ReduceOp::kProduct ||
      !travels_as(head.call.wire) || (head.call.dtype != DType::kF32 && head.call.dtype != DType::kI64) ||
      !std::isfinite(head.weight) || head.weight < 0 ||
      head.call.count > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  std::vector<float> values;
  while (!reader.at_end() && reader.ok()) values.push_back(reader.get<float>());
  if (!reader.ok()) return std::nullopt;
  head.values = std::move(values);
  return head;
}

std::vector<std::byte> write_block(std::span<const std::vector<std::byte>> heads) {
  Writer writer;
  for (const auto& head : heads) {
    writer.put(static_cast<std::uint32_t>(head.size()));
    writer.bytes(head);
  }
  return writer.take();
}

std::optional<std::vector<std::vector<std::byte>>> read_block(std::span<const std::byte> payload, std::size_t count) {
  Reader reader(payload);
  std::vector<std::vector<std::byte>> heads;
  for (std::size_t i = 0; i < count && reader.ok(); ++i) {
    const auto bytes = reader.bytes(reader.get<std::uint32_t>());
    heads.emplace_back(bytes.begin(), bytes.end());
  }
  if (!reader.ok() || !reader.at_end()) return std::nullopt;
  return heads;
}

}  // namespace troupe::collectives::detail
