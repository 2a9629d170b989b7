#include <troupe/learner/engine/lars.hpp>

#include <algorithm>
#include <cmath>

namespace troupe::learner {
namespace {

/// Elements of which one thread adds up the squares.
constexpr std::int64_t kLarsBlock = 16 * 4096;

}  // namespace

bool is_scaled(const ParamEntry& entry) { return entry.decays && entry.shape.rank() > 1; }

std::vector<UpdateStretch> lars_stretches(const ParamLayout& layout) {
  std::vector<UpdateStretch> stretches;
  for (std::size_t i = 0; i < layout.entries.size(); ++i) {
    const ParamEntry& entry = layout.entries[i];
    stretches.push_back({entry.offset, layout.end(i), is_scaled(entry)});
  }
  return stretches;
}

double lars_rate(const Lars& lars, double value_norm, double gradient_norm) {
  if (!(value_norm > 0 && gradient_norm > 0)) return 1;
  return lars.trust_coefficient * value_norm / (gradient_norm + lars.weight_decay * value_norm);
}

LarsNorms::LarsNorms(const ParamLayout& layout) : stretches_(lars_stretches(layout)), first_{0} {
  for (const UpdateStretch& stretch : stretches_) {
    for (std::int64_t begin = stretch.begin; stretch.decays && begin < stretch.end; begin += kLarsBlock) {
      blocks_.push_back({begin, std::min(begin + kLarsBlock, stretch.end)});
    }
    first_.push_back(blocks_.size());
  }
}

void LarsNorms::sum(const KernelTable& table, const float* values, const float* gradient, std::size_t part,
                    std::size_t parts) {
  const std::size_t all = blocks_.size();
  for (std::size_t b = all * part / parts; b < all * (part + 1) / parts; ++b) {
    Block& block = blocks_[b];
    block.value_squares = table.sum_squares(values, block.begin, block.end);
    block.gradient_squares = table.sum_squares(gradient, block.begin, block.end);
  }
}

std::vector<UpdateStretch> LarsNorms::rates(const Lars& lars, double gradient_scale) const {
  std::vector<UpdateStretch> stretches = stretches_;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    double values = 0, gradient = 0;
    for (std::size_t b = first_[i]; b < first_[i + 1]; ++b) {
      values += blocks_[b].value_squares;
      gradient += blocks_[b].gradient_squares;
    }
    if (stretches[i].decays) {
      stretches[i].rate = lars_rate(lars, std::sqrt(values), gradient_scale * std::sqrt(gradient));
    }
  }
  return stretches;
}

}  // namespace troupe::learner
