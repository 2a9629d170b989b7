#include <troupe/replay/step_store.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace troupe::replay {
namespace {

constexpr std::size_t kSpareChunks = 64;
constexpr std::int64_t kChunkOverhead = 100;  // of the map's node and the vector

}  // namespace

StepStore::StepStore(const Signature& signature, std::int64_t chunk_steps)
    : row_bytes_(troupe::row_bytes(signature)), chunk_steps_(chunk_steps) {
  std::size_t offset = 0;
  for (const TensorSpec& column : signature) {
    column_bytes_.push_back(column.bytes());
    column_offset_.push_back(offset);
    offset += column.bytes();
  }
}

/// The parts of a range, chunk by chunk: its name, the first step in it, how many, and how many came before.
template <typename Work>
void StepStore::each(const StepRange& range, Work work) const {
  for (std::int64_t done = 0; done < range.count;) {
    const std::int64_t at = range.first + done, offset = at % chunk_steps_;
    const std::int64_t here = std::min(chunk_steps_ - offset, range.count - done);
    work(Name{range.writer, at / chunk_steps_}, offset, here, done);
    done += here;
  }
}

StepStore::Chunk& StepStore::make(const Name& name) {
  const auto [found, is_new] = chunks_.try_emplace(name);
  if (!is_new) return found->second;
  if (!spare_.empty()) {
    found->second.rows = std::move(spare_.back());
    spare_.pop_back();
  } else {
    found->second.rows.resize(row_bytes_ * static_cast<std::size_t>(chunk_steps_));
  }
  doomed_.push_back(name);  // until somebody refers to it
  return found->second;
}

void StepStore::append(std::uint64_t writer, std::int64_t next, const BatchView& steps) {
  each({writer, next, steps.rows}, [&](const Name& name, std::int64_t offset, std::int64_t count, std::int64_t done) {
    Chunk& chunk = make(name);
    for (std::int64_t i = 0; i < count; ++i) {
      std::byte* to = chunk.rows.data() + row_bytes_ * static_cast<std::size_t>(offset + i);
      for (std::size_t column = 0; column < column_bytes_.size(); ++column) {
        const std::size_t bytes = column_bytes_[column];
        std::memcpy(to, steps.columns[column].data() + bytes * static_cast<std::size_t>(done + i), bytes);
        to += bytes;
      }
    }
    steps_ += offset + count - chunk.steps;
    chunk.steps = offset + count;
  });
}

bool StepStore::has(const StepRange& range) const {
  // A damaged image may say any numbers: more steps than there are would take for ever to look for.
  if (range.first < 0 || range.count < 0 || range.count > steps_) return false;
  if (range.first > std::numeric_limits<std::int64_t>::max() - range.count) return false;
  bool there = true;
  each(range, [&](const Name& name, std::int64_t offset, std::int64_t count, std::int64_t) {
    const auto found = chunks_.find(name);
    there = there && found != chunks_.end() && found->second.steps >= offset + count;
  });
  return there;
}

void StepStore::add(const StepRange& range) {
  each(range, [&](const Name& name, auto...) { ++chunks_.at(name).references; });
}

void StepStore::drop(const StepRange& range) {
  each(range, [&](const Name& name, auto...) {
    if (--chunks_.at(name).references == 0) doomed_.push_back(name);
  });
}

void StepStore::collect() {
  for (const Name& name : doomed_) {
    const auto found = chunks_.find(name);
    if (found == chunks_.end() || found->second.references > 0) continue;
    steps_ -= found->second.steps;
    if (spare_.size() < kSpareChunks) spare_.push_back(std::move(found->second.rows));
    chunks_.erase(found);
  }
  doomed_.clear();
}

void StepStore::read(const StepRange& range, std::span<const StepCopy> copies) const {
  each(range, [&](const Name& name, std::int64_t offset, std::int64_t count, std::int64_t done) {
    const std::byte* const rows = chunks_.at(name).rows.data() + row_bytes_ * static_cast<std::size_t>(offset);
    for (const StepCopy& copy : copies) {
      const std::int64_t first = std::max(copy.first, done), end = std::min(copy.first + copy.count, done + count);
      if (first >= end) continue;
      const std::size_t bytes = column_bytes_[copy.column];
      std::byte* to = copy.to + bytes * static_cast<std::size_t>(first - copy.first);
      const std::byte* from = rows + row_bytes_ * static_cast<std::size_t>(first - done) + column_offset_[copy.column];
      for (std::int64_t i = first; i < end; ++i, from += row_bytes_, to += bytes) std::memcpy(to, from, bytes);
    }
  });
}

std::int64_t StepStore::bytes() const {
  const auto chunk = static_cast<std::int64_t>(row_bytes_) * chunk_steps_;
  return static_cast<std::int64_t>(chunks_.size()) * (chunk + kChunkOverhead) +
         static_cast<std::int64_t>(spare_.size()) * chunk;
}

std::vector<StepChunk> StepStore::chunks_of(std::span<const StepRange> ranges) const {
  std::vector<Name> names;
  for (const StepRange& range : ranges) each(range, [&](const Name& name, auto...) { names.push_back(name); });
  std::ranges::sort(names, {}, [](const Name& name) { return std::pair(name.writer, name.number); });
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<StepChunk> chunks;
  for (const Name& name : names) {
    const Chunk& chunk = chunks_.at(name);
    chunks.push_back({name.writer, name.number, chunk.steps,
                      std::span(chunk.rows).first(row_bytes_ * static_cast<std::size_t>(chunk.steps))});
  }
  return chunks;
}

Status StepStore::put(const StepChunk& given) {
  const Name name = {given.writer, given.number};
  const auto there = chunks_.find(name);
  const std::int64_t held = there == chunks_.end() ? 0 : there->second.steps;
  const std::size_t same = row_bytes_ * static_cast<std::size_t>(std::min(held, given.steps));
  if (given.number < 0 || given.steps < 1 || given.steps > chunk_steps_ ||
      given.rows.size() != row_bytes_ * static_cast<std::size_t>(given.steps) ||
      (same > 0 && std::memcmp(there->second.rows.data(), given.rows.data(), same) != 0)) {
    return Error{Code::kCorrupt, fmt::format("steps of writer {:x}, chunk {}: {} steps of {} bytes that cannot be here",
                                             given.writer, given.number, given.steps, given.rows.size())};
  }
  if (given.steps <= held) return {};
  Chunk& chunk = make(name);
  std::memcpy(chunk.rows.data(), given.rows.data(), given.rows.size());
  steps_ += given.steps - held;
  chunk.steps = given.steps;
  return {};
}

}  // namespace troupe::replay
