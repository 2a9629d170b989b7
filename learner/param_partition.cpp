#include <troupe/learner/param_partition.hpp>

#include <algorithm>

#include <troupe/core/check.hpp>

namespace troupe::learner {
namespace {

/// What has been given to the shards so far.
class Pieces {
 public:
  Pieces(const ParamLayout& layout, std::size_t shards) : pieces_(shards), elements_(shards, 0) {
    for (std::size_t s = 0; s < shards; ++s) {
      pieces_[s].index = static_cast<std::uint32_t>(s);
      pieces_[s].count = static_cast<std::uint32_t>(shards);
      pieces_[s].elements = layout.elements;
    }
  }

  void give(std::size_t shard, std::int64_t begin, std::int64_t end) {
    elements_[shard] += end - begin;
    auto& ranges = pieces_[shard].ranges;
    if (!ranges.empty() && ranges.back().offset + ranges.back().count == begin) {
      ranges.back().count += end - begin;
    } else {
      ranges.push_back({begin, end - begin});
    }
  }
  std::size_t next_in_turn() { return turn_++ % pieces_.size(); }
  std::size_t least_loaded() const {
    return static_cast<std::size_t>(std::min_element(elements_.begin(), elements_.end()) - elements_.begin());
  }
  std::vector<messages::ParametersPiece> finish() && { return std::move(pieces_); }

 private:
  std::vector<messages::ParametersPiece> pieces_;
  std::vector<std::int64_t> elements_;
  std::size_t turn_ = 0;
};

}  // namespace

std::optional<ParamPartition> param_partition(std::string_view name) {
  if (name == "round_robin") return ParamPartition::kRoundRobin;
  if (name == "greedy") return ParamPartition::kGreedy;
  if (name == "partitioned") return ParamPartition::kPartitioned;
  return {};
}

std::vector<messages::ParametersPiece> partition(const ParamLayout& layout, std::size_t shards, ParamPartition how) {
  TROUPE_CHECK(shards > 0, "partition over no shards");
  Pieces pieces(layout, shards);
  for (std::size_t i = 0; i < layout.entries.size(); ++i) {
    const ParamEntry& entry = layout.entries[i];
    const std::int64_t end = i + 1 < layout.entries.size() ? layout.entries[i + 1].offset : layout.elements;
    if (how == ParamPartition::kRoundRobin) {
      pieces.give(pieces.next_in_turn(), entry.offset, end);
    } else if (how == ParamPartition::kGreedy) {
      pieces.give(pieces.least_loaded(), entry.offset, end);
    } else {
      const std::int64_t rows = entry.shape.rank() == 0 ? 1 : std::max<std::int64_t>(entry.shape[0], 1);
      const std::int64_t row_elements = entry.shape.elements() / rows;
      const std::int64_t parts = std::min(rows, static_cast<std::int64_t>(shards));
      std::int64_t begin = entry.offset;
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t part_rows = rows / parts + (part < rows % parts);
        const std::int64_t part_end = part + 1 == parts ? end : begin + part_rows * row_elements;
        pieces.give(pieces.next_in_turn(), begin, part_end);
        begin = part_end;
      }
    }
  }
  return std::move(pieces).finish();
}

}  // namespace troupe::learner
