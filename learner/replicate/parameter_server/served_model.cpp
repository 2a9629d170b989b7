#include <troupe/learner/replicate/parameter_server/served_model.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/ops/embedding.hpp>

namespace troupe::learner {

void ServedModel::add(ServedGroup group) {
  group.offset = elements;
  elements += group.layout.elements;
  groups.push_back(std::move(group));
}

std::uint64_t ServedModel::hash() const {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3ULL; };
  for (const ServedGroup& group : groups) {
    for (const char c : group.name) mix(static_cast<unsigned char>(c));
    mix(group.layout.fingerprint());
    mix(static_cast<std::uint64_t>(group.offset));
  }
  for (const SparseTable& table : tables) {
    mix(static_cast<std::uint64_t>(table.offset));
    mix(static_cast<std::uint64_t>(table.columns));
  }
  return hash;
}

Result<ServedModel> ServedModel::of(const Graph& graph) {
  TROUPE_TRY(graph.status());
  const GraphData& data = GraphAccess::data(graph);
  ServedModel model;
  std::vector<std::size_t> place(data.groups.size(), data.groups.size());  // of each group in the model
  for (std::size_t g = 0; g < data.groups.size(); ++g) {
    const GroupDef& def = data.groups[g];
    ServedGroup group{.name = def.name, .layout = def.layout};
    if (def.online >= 0) {
      const auto online = static_cast<std::size_t>(def.online);
      if (place[online] == data.groups.size()) continue;  // follows what never changes
      group.layout = data.groups[online].layout;
      group.online = place[online];
      group.every_updates = def.every_steps;
      group.decay = def.decay;
    } else {
      const auto minimized = std::ranges::find(data.minimized, static_cast<std::int32_t>(g), &MinimizeDef::group);
      if (minimized == data.minimized.end()) continue;
      group.optimizer = minimized->spec;
    }
    place[g] = model.groups.size();
    model.add(std::move(group));
  }
  for (const EmbeddingTable& table : embedding_tables(graph)) {
    if (place[table.group] == data.groups.size()) continue;
    const ParamEntry& entry = data.groups[table.group].layout.entries[table.entry];
    const std::size_t group = place[table.group];
    model.tables.push_back({group, model.groups[group].offset + entry.offset, entry.shape[0], entry.shape[1]});
  }
  std::ranges::sort(model.tables, {}, &SparseTable::offset);
  return model;
}

namespace {

class ShardPlanner {
 public:
  ShardPlanner(const ServedModel& model, std::size_t shards) : model_(model), plans_(shards), places_(shards) {
    for (std::size_t s = 0; s < shards; ++s) {
      plans_[s].piece.index = static_cast<std::uint32_t>(s);
      plans_[s].piece.count = static_cast<std::uint32_t>(shards);
      plans_[s].piece.elements = model.elements;
      plans_[s].group_elements.resize(model.groups.size());
      places_[s].resize(model.groups.size());
    }
  }

  /// The next range of a group, which must come after all that were given to this shard.
  void give(std::size_t shard, std::size_t group, messages::ParametersRange range) {
    ShardPlan& plan = plans_[shard];
    places_[shard][group].push_back(plan.elements);
    const std::int64_t begin = model_.groups[group].offset + range.offset, end = begin + range.count;
    extend(plan.piece.ranges, {begin, range.count});
    std::int64_t at = begin;
    for (std::size_t t = 0; t < model_.tables.size(); ++t) {
      const SparseTable& table = model_.tables[t];
      const std::int64_t from = std::max(begin, table.offset);
      const std::int64_t to = std::min(end, table.offset + table.rows * table.columns);
      if (table.group != group || from >= to) continue;
      add(plan, {.kind = ShardSegment::Kind::kDense, .group = group, .model_offset = at, .elements = from - at});
      add(plan, {.kind = ShardSegment::Kind::kSparse,
                 .group = group,
                 .model_offset = from,
                 .elements = to - from,
                 .table = t,
                 .first_row = (from - table.offset) / table.columns});
      at = to;
    }
    add(plan, {.kind = ShardSegment::Kind::kDense, .group = group, .model_offset = at, .elements = end - at});
  }

  /// The same ranges as of the group that this one follows.
  void follow(std::size_t shard, std::size_t group, const std::vector<messages::ParametersRange>& ranges) {
    ShardPlan& plan = plans_[shard];
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      const std::int64_t begin = model_.groups[group].offset + ranges[r].offset;
      places_[shard][group].push_back(plan.elements);
      extend(plan.piece.ranges, {begin, ranges[r].count});
      add(plan, {.kind = ShardSegment::Kind::kFollower,
                 .group = group,
                 .model_offset = begin,
                 .elements = ranges[r].count,
                 .online_local = places_[shard][model_.groups[group].online][r]});
    }
  }

  std::vector<ShardPlan> finish() && { return std::move(plans_); }

 private:
  /// One range of what adjoins: so that a shard of all has one, of everything, as a message about all says.
  static void extend(std::vector<messages::ParametersRange>& ranges, messages::ParametersRange by) {
    if (!ranges.empty() && ranges.back().offset + ranges.back().count == by.offset) {
      ranges.back().count += by.count;
    } else {
      ranges.push_back(by);
    }
  }
  static void add(ShardPlan& plan, ShardSegment segment) {
    if (segment.elements == 0) return;
    segment.local_offset = plan.elements;
    segment.group_offset = plan.group_elements[segment.group];
    plan.elements += segment.elements;
    plan.group_elements[segment.group] += segment.elements;
    if (segment.kind == ShardSegment::Kind::kDense) plan.dense_elements += segment.elements;
    plan.segments.push_back(segment);
  }

  const ServedModel& model_;
  std::vector<ShardPlan> plans_;
  std::vector<std::vector<std::vector<std::int64_t>>> places_;  ///< local offsets, by shard, group and range
};

}  // namespace

std::vector<ShardPlan> plan_shards(const ServedModel& model, std::size_t shards, ParamPartition how,
                                   std::int64_t part_bytes) {
  ShardPlanner planner(model, shards);
  std::vector<std::vector<messages::ParametersPiece>> pieces(model.groups.size());
  for (std::size_t g = 0; g < model.groups.size(); ++g) {
    const ServedGroup& group = model.groups[g];
    pieces[g] = group.optimizer ? partition(group.layout, shards, how, part_bytes) : pieces[group.online];
    for (std::size_t s = 0; s < shards; ++s) {
      if (!group.optimizer) {
        planner.follow(s, g, pieces[g][s].ranges);
        continue;
      }
      for (const messages::ParametersRange& range : pieces[g][s].ranges) planner.give(s, g, range);
    }
  }
  return std::move(planner).finish();
}

}  // namespace troupe::learner
