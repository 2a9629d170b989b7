#include <troupe/actors/roles/parameters_assembler.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include <troupe/core/check.hpp>

namespace troupe::actors {
namespace {

using messages::ParametersView;

/// Of publication 0, which has no bits: 64, the highest.
int rank_of(const ParametersView& piece) { return std::countr_zero(piece.info().publication); }

std::span<const float> floats(const ParametersView& view) {
  return {reinterpret_cast<const float*>(view.data().data()), view.data().size() / sizeof(float)};
}

}  // namespace

void KeptPieces::add(ParametersView piece) {
  if (!pieces_.empty() && piece.info().version < pieces_.back().info().version) return;
  if (pieces_.size() == 2 || (!pieces_.empty() && piece.info().version == pieces_.back().info().version)) {
    pieces_.pop_back();
  }
  if (!pieces_.empty() && rank_of(pieces_.front()) <= rank_of(piece)) pieces_.clear();
  pieces_.push_back(std::move(piece));
}

const ParametersView* KeptPieces::find(const messages::ParametersInfo& info) const {
  const auto found = std::find_if(pieces_.begin(), pieces_.end(), [&](const ParametersView& piece) {
    return piece.info().version == info.version && piece.info().publication == info.publication;
  });
  return found == pieces_.end() ? nullptr : &*found;
}

ParametersView KeptPieces::take() {
  TROUPE_CHECK(!pieces_.empty(), "take from no pieces");
  ParametersView piece = std::move(pieces_.front());
  pieces_.erase(pieces_.begin());
  return piece;
}

Result<std::optional<AssembledParameters>> ParametersAssembler::take(Inlet& inlet) {
  std::optional<AssembledParameters> newest;
  while (!inlet.empty()) {
    TROUPE_ASSIGN(const auto complete, take_one(inlet.take()));
    if (complete) newest = complete;
  }
  return newest;
}

std::optional<AssembledParameters> ParametersAssembler::take(RoleContext& context, std::string_view port) {
  std::optional<AssembledParameters> newest;
  for (Inlet& inlet = context.in(port); !inlet.empty();) {
    const auto complete = take_one(inlet.take());
    if (!complete.ok()) context.refuse(port, complete.error());
    if (complete.ok() && *complete) newest = *complete;
  }
  return newest;
}

Result<std::optional<AssembledParameters>> ParametersAssembler::take_one(messages::Frame frame) {
  TROUPE_ASSIGN(ParametersView piece, messages::read_parameters(frame));
  if (piece.info().dtype != DType::kF32) {
    return Error{Code::kInvalidArgument, fmt::format("parameters of version {}: got {}, expected float32",
                                                     piece.info().version, to_string(piece.info().dtype))};
  }
  std::optional<AssembledParameters> newest;
  if (piece.info().version <= version_) return newest;
  if (piece.piece().count == 1) {
    version_ = piece.info().version;
    newest = AssembledParameters{version_, piece.info().layout_hash, floats(piece)};
    whole_ = std::move(piece);
    return newest;
  }
  TROUPE_TRY(add(std::move(piece)));
  if (const auto info = complete()) {
    auto assembled = assemble(*info);
    if (!assembled.ok()) {
      for (KeptPieces& kept : shards_) {
        kept.drop_if([&](const messages::ParametersInfo& one) { return one.version == info->version; });
      }
      return assembled.error();
    }
    newest = *assembled;
  }
  drop_hopeless();
  return newest;
}

Status ParametersAssembler::add(ParametersView piece) {
  const messages::ParametersPiece& part = piece.piece();
  if (shards_.empty()) shards_.resize(part.count);
  if (part.count != shards_.size()) {
    return Error{Code::kInvalidArgument, fmt::format("parameters of version {}: got a piece of {}, expected one of {}",
                                                     piece.info().version, part.count, shards_.size())};
  }
  shards_[part.index].add(std::move(piece));
  return {};
}

std::optional<messages::ParametersInfo> ParametersAssembler::complete() const {
  const auto candidates = shards_.front().pieces();
  for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate) {
    const messages::ParametersInfo& info = candidate->info();
    if (std::all_of(shards_.begin(), shards_.end(), [&](const KeptPieces& kept) { return kept.find(info); })) {
      return info;
    }
  }
  return {};
}

Result<AssembledParameters> ParametersAssembler::assemble(const messages::ParametersInfo& info) {
  const std::int64_t elements = shards_.front().find(info)->piece().elements;
  std::vector<messages::ParametersRange> ranges;
  for (const KeptPieces& kept : shards_) {
    const ParametersView& piece = *kept.find(info);
    if (piece.piece().elements != elements || piece.info().layout_hash != info.layout_hash) {
      return Error{Code::kInvalidArgument,
                   fmt::format("parameters of version {}: pieces are of different buffers", info.version)};
    }
    ranges.insert(ranges.end(), piece.piece().ranges.begin(), piece.piece().ranges.end());
  }
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  std::int64_t end = 0;
  for (const messages::ParametersRange& range : ranges) {
    if (range.offset != end) break;
    end += range.count;
  }
  if (end != elements) {
    return Error{Code::kInvalidArgument,
                 fmt::format("parameters of version {}: pieces cover {} elements without gap or overlap, expected {}",
                             info.version, end, elements)};
  }
  values_.resize(static_cast<std::size_t>(elements));
  for (const KeptPieces& kept : shards_) {
    const ParametersView& piece = *kept.find(info);
    const float* from = floats(piece).data();
    for (const messages::ParametersRange& range : piece.piece().ranges) {
      std::copy_n(from, range.count, values_.begin() + range.offset);
      from += range.count;
    }
  }
  version_ = info.version;
  for (KeptPieces& kept : shards_) {
    kept.drop_if([&](const messages::ParametersInfo& old) { return old.version <= version_; });
  }
  return AssembledParameters{version_, info.layout_hash, values_};
}

void ParametersAssembler::drop_hopeless() {
  // Versions ascend, so a shard that has sent a newer one will never send this one.
  for (KeptPieces& kept : shards_) {
    kept.drop_if([&](const messages::ParametersInfo& info) {
      return std::any_of(shards_.begin(), shards_.end(), [&](const KeptPieces& other) {
        return &other != &kept && !other.empty() && other.pieces().back().info().version > info.version &&
               !other.find(info);
      });
    });
  }
}

}  // namespace troupe::actors
