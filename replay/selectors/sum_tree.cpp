#include <troupe/replay/selectors/sum_tree.hpp>

namespace troupe::replay {

double SumTree::sum(const Node& node) {
  const auto& c = node.child;
  return ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]));
}

void SumTree::add_level_if_needed() {
  if (levels_.back().size() == 1) return;
  std::vector<Node> root(1);
  for (std::size_t i = 0; i < levels_.back().size(); ++i) root[0].child[i] = sum(levels_.back()[i]);
  levels_.push_back(std::move(root));
}

void SumTree::append(double weight) {
  if (levels_.empty()) levels_.emplace_back();
  const auto leaf = static_cast<Slot>(size_++);
  std::uint32_t node = leaf / kFan;
  for (auto& level : levels_) {
    if (node < level.size()) break;  // then its ancestors exist too
    level.emplace_back();
    node /= kFan;
  }
  add_level_if_needed();
  set(leaf, weight);
}

void SumTree::pop_back() {
  set(static_cast<Slot>(size_ - 1), 0);
  --size_;
}

void SumTree::set(Slot leaf, double weight) {
  std::uint32_t index = leaf;
  for (auto& level : levels_) {
    Node& node = level[index / kFan];
    node.child[index % kFan] = weight;
    weight = sum(node);
    index /= kFan;
  }
}

void SumTree::set(std::span<const Slot> leaves, std::span<const double> weights) {
  touched_.resize(leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    levels_[0][leaves[i] / kFan].child[leaves[i] % kFan] = weights[i];
    touched_[i] = leaves[i] / kFan;
  }
  for (std::size_t l = 1; l < levels_.size(); ++l) {
    std::size_t kept = 0;
    for (std::uint32_t node : touched_) {
      const double now = sum(levels_[l - 1][node]);
      double& before = levels_[l][node / kFan].child[node % kFan];
      if (now == before) continue;  // a repeat, or no change: nothing to carry upwards
      before = now;
      touched_[kept++] = node / kFan;
    }
    touched_.resize(kept);
  }
}

void SumTree::assign(std::span<const double> weights) {
  levels_.clear();
  size_ = static_cast<std::int64_t>(weights.size());
  if (weights.empty()) return;
  levels_.emplace_back((weights.size() + kFan - 1) / kFan);
  for (std::size_t i = 0; i < weights.size(); ++i) levels_[0][i / kFan].child[i % kFan] = weights[i];
  while (levels_.back().size() > 1) {
    const std::vector<Node>& below = levels_.back();
    std::vector<Node> level((below.size() + kFan - 1) / kFan);
    for (std::size_t i = 0; i < below.size(); ++i) level[i / kFan].child[i % kFan] = sum(below[i]);
    levels_.push_back(std::move(level));
  }
}

void SumTree::find(std::span<double> targets, std::span<Slot> leaves) const {
  for (Slot& leaf : leaves) leaf = 0;  // until the last level: the node of the level to be looked at
  for (std::size_t l = levels_.size(); l-- > 0;) {
    const Node* const nodes = levels_[l].data();
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const Node& node = nodes[leaves[i]];
      // Without branches: draws are random, so a scan that stops early would be mispredicted at every level.
      std::uint32_t passed = 0;
      double running = 0;
      double before = 0;  // running sum of the children passed
      for (std::uint32_t j = 0; j < kFan; ++j) {
        running += node.child[j];
        const bool pass = targets[i] >= running;
        passed += pass;
        before = pass ? running : before;
      }
      if (passed == kFan) [[unlikely]] {  // by rounding alone: take the last child that weighs anything
        do {
          --passed;
        } while (passed > 0 && node.child[passed] == 0);
        before = targets[i];  // its own first leaf will do
      }
      targets[i] -= before;
      leaves[i] = leaves[i] * kFan + passed;
      if (l > 0) __builtin_prefetch(levels_[l - 1].data() + leaves[i]);
    }
  }
}

}  // namespace troupe::replay
