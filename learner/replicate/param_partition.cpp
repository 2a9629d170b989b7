#include <troupe/learner/replicate/param_partition.hpp>

#include <algorithm>

#include <troupe/core/check.hpp>

namespace troupe::learner {
namespace {

/// What has been given to the shards so far.
class Pieces {
 public:
  Pieces(const ParamLayout& layout, std::size_t shards) : pieces_(shards) {
    for (std::size_t s = 0; s < shards; ++s) {
      pieces_[s].index = static_cast<std::uint32_t>(s);
      pieces_[s].count = static_cast<std::uint32_t>(shards);
      pieces_[s].elements = layout.elements;
    }
  }

  /// To the shard whose turn it is.
  void give_next(std::int64_t begin, std::int64_t end) {
    auto& ranges = pieces_[turn_++ % pieces_.size()].ranges;
    if (!ranges.empty() && ranges.back().offset + ranges.back().count == begin) {
      ranges.back().count += end - begin;
    } else {
      ranges.push_back({begin, end - begin});
    }
  }
  std::vector<messages::ParametersPiece> finish() && { return std::move(pieces_); }

 private:
  std::vector<messages::ParametersPiece> pieces_;
  std::size_t turn_ = 0;
};

/// Into how many parts a tensor of `rows` rows is cut.
std::int64_t part_count(ParamPartition how, std::int64_t rows, std::int64_t row_elements, std::size_t shards,
                        std::int64_t part_bytes) {
  const auto most = static_cast<std::int64_t>(shards);
  if (how == ParamPartition::kPartitioned) return std::min(rows, most);
  const std::int64_t row_bytes = std::max<std::int64_t>(row_elements, 1) * std::int64_t{sizeof(float)};
  if (how == ParamPartition::kMinSize) {
    const std::int64_t least_rows = (part_bytes + row_bytes - 1) / row_bytes;
    return std::clamp<std::int64_t>(rows / least_rows, 1, most);
  }
  const std::int64_t most_rows = std::max<std::int64_t>(part_bytes / row_bytes, 1);
  return (rows + most_rows - 1) / most_rows;
}

}  // namespace

std::vector<messages::ParametersPiece> partition(const ParamLayout& layout, std::size_t shards, ParamPartition how,
                                                 std::int64_t part_bytes) {
  TROUPE_CHECK(shards > 0 && part_bytes > 0, "partition over {} shards in parts of {} bytes", shards, part_bytes);
  Pieces pieces(layout, shards);
  for (std::size_t i = 0; i < layout.entries.size(); ++i) {
    const ParamEntry& entry = layout.entries[i];
    const std::int64_t end = i + 1 < layout.entries.size() ? layout.entries[i + 1].offset : layout.elements;
    const std::int64_t rows = entry.shape.rank() == 0 ? 1 : std::max<std::int64_t>(entry.shape[0], 1);
    const std::int64_t row_elements = entry.shape.elements() / rows;
    const std::int64_t parts = part_count(how, rows, row_elements, shards, part_bytes);
    std::int64_t begin = entry.offset;
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t part_rows = rows / parts + (part < rows % parts);
      const std::int64_t part_end = part + 1 == parts ? end : begin + part_rows * row_elements;
      pieces.give_next(begin, part_end);
      begin = part_end;
    }
  }
  return std::move(pieces).finish();
}

}  // namespace troupe::learner
