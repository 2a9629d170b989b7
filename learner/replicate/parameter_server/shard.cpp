#include <troupe/learner/replicate/parameter_server/shard.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include <troupe/core/check.hpp>
#include <troupe/learner/engine/apply_update.hpp>
#include <troupe/learner/engine/kept_length.hpp>
#include <troupe/learner/engine/lars.hpp>

namespace troupe::learner {
namespace {

/// Elements that stay in the first-level cache while they are added up and applied.
constexpr std::int64_t kBlock = 2048;

constexpr std::size_t kSpareVersions = 4;
/// Besides: between nodes messages are kept until the other end has acknowledged them, and of small ones many.
constexpr std::size_t kUnacknowledgedBytes = std::size_t{64} << 20;

messages::FramePoolOptions pool_options(std::int64_t elements, const ParameterShardOptions& options) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(float) + 4096;
  // Size classes waste up to a quarter.
  return {.max_frame_bytes = 2 * bytes,
          .max_bytes = (bytes + bytes / 4) * (2 * options.workers + kSpareVersions) + kUnacknowledgedBytes,
          .memory = options.memory};
}

}  // namespace

struct ParameterShard::Part {
  const messages::GradientView* gradient;
  float share;
};

ParameterShard::ParameterShard(std::shared_ptr<const ServedModel> model, ShardPlan plan,
                               const ParameterShardOptions& options)
    : model_(std::move(model)),
      plan_(std::move(plan)),
      options_(options),
      model_hash_(model_->hash()),
      pool_(pool_options(plan_.elements, options)),
      own_(make_aligned<float>(static_cast<std::size_t>(plan_.elements))) {
  TROUPE_CHECK(options_.gradients_per_update <= options_.workers, "{} gradients a step of {} workers",
               options_.gradients_per_update, options_.workers);
  for (std::size_t g = 0; g < model_->groups.size(); ++g) {
    Group& group = groups_.emplace_back();
    if (!model_->groups[g].optimizer) continue;
    const bool by_variable = std::holds_alternative<Lars>(model_->groups[g].optimizer->rule);
    const ParamLayout& layout = model_->groups[g].layout;
    group.stretches = by_variable ? lars_stretches(layout) : layout.decay_stretches();
    group.slot_names = slot_names(*model_->groups[g].optimizer);
    for (std::size_t slot = 0; slot < group.slot_names.size(); ++slot) {
      group.slots.push_back(make_aligned<float>(static_cast<std::size_t>(plan_.group_elements[g])));
    }
  }
}

ParameterShard::~ParameterShard() = default;

void ParameterShard::load(std::size_t group, std::span<const float> values) {
  const ServedGroup& served = model_->groups[group];
  TROUPE_CHECK(own_ != nullptr && std::ssize(values) == served.layout.elements, "load of {} values", values.size());
  for (const ShardSegment& segment : plan_.segments) {
    if (segment.group != group) continue;
    std::copy_n(values.data() + segment.model_offset - served.offset, segment.elements,
                own_.get() + segment.local_offset);
  }
}

const float* ParameterShard::values() const {
  if (own_ != nullptr) return own_.get();
  if (open_) return reinterpret_cast<const float*>(const_cast<messages::ParametersBuilder&>(*open_).data().data());
  return reinterpret_cast<const float*>(published_->data().data());
}

Result<messages::ParametersBuilder> ParameterShard::new_message() {
  return messages::ParametersBuilder::make(pool_, options_.transfer, plan_.piece);
}

Result<messages::Frame> ParameterShard::parameters() {
  if (published_) return published_->frame();
  const messages::ParametersInfo info{version_, model_hash_, 0, options_.transfer};
  if (!open_) {
    TROUPE_ASSIGN(auto message, new_message());
    std::byte* const to = message.data().data();
    if (options_.transfer == DType::kBF16) {
      kernels_f32().to_bf16(own_.get(), reinterpret_cast<std::uint16_t*>(to), 0, plan_.elements);
    } else {
      std::memcpy(to, own_.get(), static_cast<std::size_t>(plan_.elements) * sizeof(float));
      own_.reset();
    }
    open_.emplace(std::move(message));
  }
  const messages::Frame frame = std::move(*open_).finish(info);
  open_.reset();
  TROUPE_ASSIGN(auto view, messages::read_parameters(frame));
  published_ = std::move(view);
  return frame;
}

Status ParameterShard::check(const messages::GradientView& gradient) const {
  const messages::GradientInfo& info = gradient.info();
  if (info.model_hash != model_hash_ || info.piece != plan_.piece.index || info.pieces != plan_.piece.count) {
    return Error{Code::kShapeMismatch,
                 fmt::format("gradient of worker {}: got piece {} of {} of model {:016x}, expected {} of {} of {:016x}",
                             info.worker, info.piece, info.pieces, info.model_hash, plan_.piece.index,
                             plan_.piece.count, model_hash_)};
  }
  if (info.worker >= options_.workers) {
    return Error{Code::kInvalidArgument,
                 fmt::format("gradient: got worker {}, expected one of {}", info.worker, options_.workers)};
  }
  const std::size_t elements = gradient.dense().size() / dtype_bytes(gradient.dtype());
  if (elements != static_cast<std::size_t>(plan_.dense_elements)) {
    return Error{Code::kShapeMismatch, fmt::format("gradient of worker {}: got {} dense elements, expected {}",
                                                   info.worker, elements, plan_.dense_elements)};
  }
  for (const messages::SparseRows& rows : gradient.sparse()) {
    if (rows.table >= model_->tables.size() || rows.columns != model_->tables[rows.table].columns) {
      return Error{
          Code::kShapeMismatch,
          fmt::format("gradient of worker {}: got rows of {} columns of table {}, which is none of the model's",
                      info.worker, rows.columns, rows.table)};
    }
    std::size_t here = 0;
    for (const ShardSegment& segment : plan_.segments) {
      if (segment.kind != ShardSegment::Kind::kSparse || segment.table != rows.table) continue;
      const auto first = static_cast<std::uint32_t>(segment.first_row);
      const auto end = static_cast<std::uint32_t>(segment.first_row + segment.elements / rows.columns);
      const auto from = std::ranges::lower_bound(rows.rows, first);
      here += static_cast<std::size_t>(std::lower_bound(from, rows.rows.end(), end) - from);
    }
    if (here != rows.rows.size()) {
      return Error{Code::kOutOfRange, fmt::format("gradient of worker {}: got {} rows of table {}, of which this shard "
                                                  "holds {}",
                                                  info.worker, rows.rows.size(), rows.table, here)};
    }
  }
  return {};
}

Result<messages::GradientOutcome> ParameterShard::push(const messages::GradientView& gradient) {
  using messages::GradientOutcome;
  TROUPE_TRY(check(gradient));
  const messages::GradientInfo& info = gradient.info();
  heard_of(info.worker);
  if (finished()) return GradientOutcome::kFinished;
  if (info.version > version_) {
    ++counts_.unknown;
    return GradientOutcome::kUnknown;
  }
  const std::int64_t staleness = version_ - info.version;
  counts_.staleness_sum += static_cast<double>(staleness);
  counts_.staleness_max = std::max(counts_.staleness_max, staleness);

  if (options_.gradients_per_update > 0) {
    if (staleness > 0) {
      ++counts_.stale;
      return GradientOutcome::kStale;
    }
    const auto older = std::ranges::find(taken_, info.worker, [](const auto& view) { return view.info().worker; });
    if (older != taken_.end()) {
      ++counts_.stale;
      *older = gradient;
    } else {
      taken_.push_back(gradient);
    }
    const std::size_t there = options_.workers - std::min(absent_.size(), options_.workers - 1);
    if (taken_.size() < std::min(options_.gradients_per_update, there)) return GradientOutcome::kTaken;
    const Status closed = close_step();
    if (closed.ok()) return GradientOutcome::kApplied;
    std::erase_if(taken_, [&](const auto& view) { return view.info().worker == info.worker; });
    return closed.error();
  }
  if (options_.stale == StalePolicy::kDrop && staleness > options_.max_staleness) {
    ++counts_.stale;
    return GradientOutcome::kStale;
  }
  const bool scaled = options_.stale == StalePolicy::kScale && staleness > 1;
  const Part whole{&gradient, 1};
  TROUPE_TRY(apply({&whole, 1}, scaled ? 1 / static_cast<double>(staleness) : 1));
  ++counts_.applied;
  return GradientOutcome::kApplied;
}

Status ParameterShard::close_step() {
  TROUPE_CHECK(!taken_.empty(), "a step without gradients");
  // The order of sums is that of the workers, not that of arrival.
  std::ranges::sort(taken_, {}, [](const auto& view) { return view.info().worker; });
  double samples = 0;
  for (const auto& gradient : taken_) samples += gradient.info().samples;
  std::vector<Part> parts;
  for (const auto& gradient : taken_)
    parts.push_back({&gradient, static_cast<float>(gradient.info().samples / samples)});
  TROUPE_TRY(apply(parts, 1));
  counts_.applied += std::ssize(taken_);
  if (taken_.size() < options_.gradients_per_update) {
    for (std::size_t worker = 0; worker < options_.workers; ++worker) absent_.insert(worker);
    for (const auto& gradient : taken_) heard_of(gradient.info().worker);
  }
  taken_.clear();
  return {};
}

namespace {

/// One gradient's elements [offset, offset + count) of `bytes` as float32; `scratch` holds them where they are not.
const float* as_floats(std::span<const std::byte> bytes, DType dtype, std::int64_t offset, std::int64_t count,
                       float* scratch) {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(bytes.data()) + offset;
  const auto size = static_cast<std::size_t>(count);
  messages::from_bf16({reinterpret_cast<const std::uint16_t*>(bytes.data()) + offset, size}, {scratch, size});
  return scratch;
}

}  // namespace

Status ParameterShard::apply(std::span<const Part> parts, double rate_factor) {
  const bool apart = own_ != nullptr && options_.transfer == DType::kBF16;
  const float* const from = values();
  std::optional<messages::ParametersBuilder> next;
  if (published_ && !apart) {
    TROUPE_ASSIGN(auto message, new_message());
    next.emplace(std::move(message));
  }
  float* const to = next ? reinterpret_cast<float*>(next->data().data()) : const_cast<float*>(from);
  scratch_.resize(static_cast<std::size_t>(kBlock) * (parts.size() + 1));

  std::int64_t dense_offset = 0;
  std::size_t group = model_->groups.size();
  std::optional<UpdateRule> rule;
  for (const ShardSegment& segment : plan_.segments) {
    if (segment.kind == ShardSegment::Kind::kFollower) {
      follow(segment, from, to);
      continue;
    }
    if (segment.group != group) {
      group = segment.group;
      const OptimizerSpec& optimizer = *model_->groups[group].optimizer;
      rule.emplace(optimizer, version_ / optimizer.every_steps, rate_factor);
    }
    if (!moves(group)) {
      if (from != to) std::copy_n(from + segment.local_offset, segment.elements, to + segment.local_offset);
      if (segment.kind == ShardSegment::Kind::kDense) dense_offset += segment.elements;
    } else if (segment.kind == ShardSegment::Kind::kDense) {
      update_dense(segment, dense_offset, parts, *rule, from, to);
      dense_offset += segment.elements;
    } else {
      if (from != to) std::copy_n(from + segment.local_offset, segment.elements, to + segment.local_offset);
      update_sparse(segment, parts, *rule, to);
    }
  }
  if (next) open_ = std::move(next);
  published_.reset();
  ++version_;
  return {};
}

bool ParameterShard::moves(std::size_t group) const {
  const std::optional<OptimizerSpec>& optimizer = model_->groups[group].optimizer;
  return optimizer && (version_ + 1) % optimizer->every_steps == 0;
}

void ParameterShard::update(const ShardSegment& segment, std::int64_t offset, std::int64_t count, const float* gradient,
                            const UpdateRule& rule, const float* from, float* to) {
  std::vector<AlignedArray<float>>& slots = groups_[segment.group].slots;
  const auto slot = [&](std::size_t index) {
    return index < slots.size() ? slots[index].get() + segment.group_offset + offset : nullptr;
  };
  rule.apply({.values = to + segment.local_offset + offset,
              .before = from != to ? from + segment.local_offset + offset : nullptr,
              .slot0 = slot(0),
              .slot1 = slot(1),
              .gradients = &gradient,
              .gradient_count = 1,
              .begin = 0,
              .end = count,
              .gradient_scale = 1},
             groups_[segment.group].stretches, segment.model_offset + offset - model_->groups[segment.group].offset);
}

void ParameterShard::update_dense(const ShardSegment& segment, std::int64_t dense_offset, std::span<const Part> parts,
                                  const UpdateRule& rule, const float* from, float* to) {
  if (const Lars* const lars = std::get_if<Lars>(&model_->groups[segment.group].optimizer->rule)) {
    find_rates(segment, dense_offset, parts, *lars, from);
  }
  for_each_block(dense_offset, 0, segment.elements, parts,
                 [&](std::int64_t begin, std::int64_t count, const float* gradient) {
                   update(segment, begin, count, gradient, rule, from, to);
                 });
  // plan_served() has seen that what keeps a length is whole.
  const ServedGroup& group = model_->groups[segment.group];
  const std::int64_t begin = segment.model_offset - group.offset;
  const KeptLengths kept(group.layout, begin, begin + segment.elements);
  if (!kept.empty()) kept.restore(to + segment.local_offset - begin, nullptr);
}

void ParameterShard::find_rates(const ShardSegment& segment, std::int64_t dense_offset, std::span<const Part> parts,
                                const Lars& lars, const float* from) {
  const std::int64_t offset = segment.model_offset - model_->groups[segment.group].offset;
  for (UpdateStretch& variable : groups_[segment.group].stretches) {
    const std::int64_t begin = variable.begin - offset, end = variable.end - offset;
    if (!variable.decays || begin < 0 || end > segment.elements) continue;  // build_served() has seen that none is cut
    double squares = 0;
    for_each_block(dense_offset, begin, end, parts, [&](std::int64_t, std::int64_t count, const float* gradient) {
      squares += kernels_f32().sum_squares(gradient, 0, count);
    });
    const float* const values = from + segment.local_offset;
    variable.rate = lars_rate(lars, std::sqrt(kernels_f32().sum_squares(values, begin, end)), std::sqrt(squares));
  }
}

template <typename Visit>
void ParameterShard::for_each_block(std::int64_t dense_offset, std::int64_t begin, std::int64_t end,
                                    std::span<const Part> parts, const Visit& visit) {
  if (parts.size() == 1 && parts[0].gradient->dtype() == DType::kF32) {
    const std::int64_t count = end - begin;
    return visit(begin, count,
                 as_floats(parts[0].gradient->dense(), DType::kF32, dense_offset + begin, count, nullptr));
  }
  std::vector<const float*> leaves(parts.size());
  for (; begin < end; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, end - begin);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const messages::GradientView& view = *parts[p].gradient;
      float* const own = scratch_.data() + static_cast<std::int64_t>(p) * kBlock;
      leaves[p] = as_floats(view.dense(), view.dtype(), dense_offset + begin, count, own);
      if (parts.size() == 1) continue;
      for (std::int64_t i = 0; i < count; ++i) own[i] = parts[p].share * leaves[p][i];
      leaves[p] = own;
    }
    const float* gradient = leaves[0];
    if (parts.size() > 1) {
      float* const mean = scratch_.data() + std::ssize(parts) * kBlock;
      kernels_f32().sum_gradients(leaves.data(), std::ssize(leaves), mean, 0, count);
      gradient = mean;
    }
    visit(begin, count, gradient);
  }
}

void ParameterShard::update_sparse(const ShardSegment& segment, std::span<const Part> parts, const UpdateRule& rule,
                                   float* to) {
  const std::int64_t columns = model_->tables[segment.table].columns;
  const auto end_row = static_cast<std::uint32_t>(segment.first_row + segment.elements / columns);
  // Of each part the rows of this segment that are still to come.
  struct Cursor {
    const messages::SparseRows* rows = nullptr;
    std::size_t next = 0;
  };
  std::vector<Cursor> cursors(parts.size());
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (const messages::SparseRows& rows : parts[p].gradient->sparse()) {
      if (rows.table != segment.table) continue;
      const auto at = std::ranges::lower_bound(rows.rows, static_cast<std::uint32_t>(segment.first_row));
      cursors[p] = {&rows, static_cast<std::size_t>(at - rows.rows.begin())};
    }
  }
  std::vector<float> mean(static_cast<std::size_t>(columns)), piece(static_cast<std::size_t>(columns));
  while (true) {
    std::uint32_t row = end_row;
    for (const Cursor& cursor : cursors) {
      if (cursor.rows != nullptr && cursor.next < cursor.rows->rows.size()) {
        row = std::min(row, cursor.rows->rows[cursor.next]);
      }
    }
    if (row == end_row) return;
    std::ranges::fill(mean, 0.0f);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      Cursor& cursor = cursors[p];
      if (cursor.rows == nullptr || cursor.next == cursor.rows->rows.size()) continue;
      if (cursor.rows->rows[cursor.next] != row) continue;
      const auto offset = static_cast<std::int64_t>(cursor.next++) * columns;
      const float* const values =
          as_floats(cursor.rows->values, parts[p].gradient->dtype(), offset, columns, piece.data());
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += parts[p].share * values[i];
    }
    update(segment, (row - segment.first_row) * columns, columns, mean.data(), rule, to, to);
  }
}

void ParameterShard::follow(const ShardSegment& segment, const float* from, float* to) const {
  const ServedGroup& group = model_->groups[segment.group];
  float* const own = to + segment.local_offset;
  const float* const online = to + segment.online_local;  // already of the next version
  const bool due = (version_ + 1) % group.every_updates == 0;
  if (group.decay == 0 && due) {
    std::copy_n(online, segment.elements, own);
    return;
  }
  if (from != to) std::copy_n(from + segment.local_offset, segment.elements, own);
  if (group.decay > 0 && due && moves(group.online))
    kernels_f32().average(online, own, nullptr, group.decay, 0, segment.elements);
}

std::uint64_t ParameterShard::fingerprint() const {
  std::uint64_t hash = model_hash_;
  const auto mix = [&hash](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001b3ULL;
  };
  for (const messages::ParametersRange& range : plan_.piece.ranges) {
    mix(range.offset);
    mix(range.count);
  }
  return hash;
}

std::vector<messages::TensorBytes> ParameterShard::save() const {
  std::vector<messages::TensorBytes> tensors;
  const auto add = [&](std::string name, const float* from, std::int64_t count) {
    const auto size = static_cast<std::size_t>(count);
    tensors.push_back({std::move(name), DType::kF32, {count}, std::as_bytes(std::span(from, size))});
  };
  const float* at = values();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::int64_t count = plan_.group_elements[g];
    add(model_->groups[g].name, at, count);
    at += count;
    for (std::size_t slot = 0; slot < groups_[g].slots.size(); ++slot) {
      add(model_->groups[g].name + "." + groups_[g].slot_names[slot], groups_[g].slots[slot].get(), count);
    }
  }
  return tensors;
}

Status ParameterShard::restore(std::span<const messages::TensorBytes> tensors, std::int64_t version,
                               std::uint64_t fingerprint) {
  if (version < 0) {
    return Error{Code::kInvalidArgument, fmt::format("parameter shard: got version {}, expected >= 0", version)};
  }
  if (fingerprint != this->fingerprint()) {
    return Error{Code::kShapeMismatch,
                 fmt::format("parameter shard: the state is of another model or partition ({:016x}"
                             ", expected {:016x})",
                             fingerprint, this->fingerprint())};
  }
  const std::vector<messages::TensorBytes> own = save();
  std::vector<const messages::TensorBytes*> sources;
  for (const messages::TensorBytes& expected : own) {
    const auto found = std::ranges::find(tensors, expected.name, &messages::TensorBytes::name);
    if (found == tensors.end()) {
      return Error{Code::kNotFound, fmt::format("parameter shard: no tensor \"{}\"", expected.name)};
    }
    if (found->dtype != DType::kF32 || found->bytes.size() != expected.bytes.size()) {
      return Error{Code::kShapeMismatch,
                   fmt::format("parameter shard: tensor \"{}\" is {} in {} bytes, expected float32 "
                               "in {}",
                               expected.name, to_string(found->dtype), found->bytes.size(), expected.bytes.size())};
    }
    sources.push_back(&*found);
  }
  own_ = make_aligned<float>(static_cast<std::size_t>(plan_.elements));
  open_.reset();
  published_.reset();
  taken_.clear();
  std::size_t source = 0;
  float* to = own_.get();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto copy = [&](float* where) {
      const std::span<const std::byte> bytes = sources[source++]->bytes;
      if (!bytes.empty()) std::memcpy(where, bytes.data(), bytes.size());
    };
    copy(to);
    to += plan_.group_elements[g];
    for (AlignedArray<float>& slot : groups_[g].slots) copy(slot.get());
  }
  version_ = version;
  return {};
}

}  // namespace troupe::learner
