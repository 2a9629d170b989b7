#pragma once
// Which values of a graph one module makes, reads and hands on. Functions of the host's in the middle of a step cut it
// into parts, run one after the other; a step without them has one part, in which everything is.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <troupe/learner/engine/pjrt/hlo_module.hpp>
#include <troupe/learner/graph/graph_data.hpp>

namespace troupe::learner {

/// Whether it is a function of the host's, with no rule for a program of so many replicas.
bool calls_host(const Joint& joint, std::int64_t replicas);

/// Each node is in the first part that has all that it reads. Parameters, state, inputs and constants are there in each
/// part. References are the module's, which outlives it.
class HloPart {
 public:
  HloPart(const GraphData& data, const HloOptions& options, std::size_t index);

  /// Metrics and state are results of the last part, others of the one that makes them.
  bool is_last() const { return index_ == cuts_.size(); }
  /// What the host does behind this part.
  std::vector<HloCall> calls() const { return is_last() ? std::vector<HloCall>() : cuts_[index_]; }
  /// Whether it has the gradient of a minimized group.
  bool is_due(std::size_t minimized) const;

  bool is_here(const Node& node) const { return is_live(node) && is_here(node.outputs[0]) && !calls_host(node); }
  bool is_here(std::uint32_t value) const { return part_of_[value] == index_; }
  bool reads(std::uint32_t value) const { return read_[value]; }
  /// Whether a value that it reads comes from a part before or from the host.
  bool is_handed(std::uint32_t value) const {
    return reads(value) && is_made(value) && (by_host_[value] || part_of_[value] < index_);
  }
  /// Whether later parts or the host get a value from it.
  bool hands_on(std::uint32_t value) const { return hands_on_[value]; }

 private:
  void find_live();
  void cut();
  void find_read();
  /// Calls f with each result of the step and the part that gives it.
  template <typename F>
  void for_results(F f) const;
  bool is_live(const Node& node) const;
  bool calls_host(const Node& node) const;
  bool is_made(std::uint32_t value) const { return data_.values[value].source == Source::kNode; }
  /// A node's inputs, and of a joint's gradient what the joint took and gave.
  std::vector<std::uint32_t> read_by(const Node& node) const;

  const GraphData& data_;
  const HloOptions& options_;
  const std::size_t index_;
  std::vector<std::vector<HloCall>> cuts_;
  std::vector<bool> live_;            ///< by values, as all below: whether a result needs it
  std::vector<std::size_t> part_of_;  ///< which makes it, or is the first to have it from the host
  std::vector<bool> by_host_, read_, hands_on_;
};

}  // namespace troupe::learner
