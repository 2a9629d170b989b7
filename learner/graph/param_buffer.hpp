#pragma once
// One parameter group in one flat allocation: values, then optimiser slots, all with the same layout. So one
// all-reduce, one frame, one optimiser pass and one checkpoint section cover a group whatever its number of tensors.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/aligned.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::learner {

/// What the replicas of a group share of a variable: a parameter, or a tensor of replica state.
enum class VariablePolicy : std::uint8_t {
  kSync,       ///< all hold the same bits; of parameters each step reduces the gradient
  kBroadcast,  ///< each changes its own, and every so many steps all take rank 0's
  kLocal,      ///< each has its own
};

struct ParamEntry {
  std::string name;  ///< "critic/0/weight": group first
  Shape shape;
  std::int64_t offset = 0;  ///< elements from the start of every flat span; a multiple of 16 (64 bytes)
  // Not part of the layout's fingerprint:
  VariablePolicy policy = VariablePolicy::kSync;
  bool decays = true;  ///< what the optimiser's weight_decay, if any, applies to
};

/// Elements of a flat buffer that an update treats alike.
struct UpdateStretch {
  std::int64_t begin = 0, end = 0;
  bool decays = true;
  double rate = 1;  ///< multiplies the learning rate here: LARS's, of each variable its own
};

/// Parameters that keep a length (Graph::keep_length): the entries, as matrices of `columns` columns that stand one
/// upon the other, have columns of this L2 norm.
struct KeptLength {
  std::vector<std::size_t> entries;
  std::int64_t columns = 1;
  double length = 1;
  friend bool operator==(const KeptLength&, const KeptLength&) = default;
};

/// The named tensors of a group in one flat space. Gaps between tensors are zero and stay zero.
struct ParamLayout {
  std::string group;
  std::vector<ParamEntry> entries;
  std::int64_t elements = 0;     ///< with padding; a multiple of 16
  std::vector<KeptLength> kept;  ///< not part of the fingerprint either

  void add(std::string name, const Shape& shape);
  /// Hash of group, names, shapes and offsets: equal exactly when flat spans mean the same. Stable over runs.
  std::uint64_t fingerprint() const;
  const ParamEntry* find(std::string_view name) const;
  /// Where entry i ends: padding goes with it.
  std::int64_t end(std::size_t i) const { return i + 1 < entries.size() ? entries[i + 1].offset : elements; }
  /// All of it, in as few stretches of those that decay and those that do not as there can be.
  std::vector<UpdateStretch> decay_stretches() const;
};

/// What goes out to those who act with these groups: their values, one group behind the other, and behind them the
/// state whose names begin with one of theirs, such as Graph::state("policy/norm/mean"), which networks normalise with.
/// The layout is called like the first group.
ParamLayout published_layout(std::span<const ParamLayout* const> groups, const ParamLayout& state);
/// Whether an entry of the state, by its whole name ("state/policy/norm/mean"), is among that of the group.
bool is_published_with(std::string_view group, std::string_view name);

/// float32, 64-byte aligned. Neither copies nor moves: programs keep pointers into it.
class ParamBuffer {
 public:
  /// slots: the names of further spans, e.g. what an optimiser remembers; zero at first.
  explicit ParamBuffer(ParamLayout layout, std::vector<std::string> slots = {});
  ParamBuffer(const ParamBuffer&) = delete;
  ParamBuffer& operator=(const ParamBuffer&) = delete;

  const ParamLayout& layout() const { return layout_; }
  std::uint64_t fingerprint() const { return fingerprint_; }

  std::span<float> values() { return section(0); }
  std::span<const float> values() const { return const_cast<ParamBuffer*>(this)->section(0); }
  const std::vector<std::string>& slots() const { return slots_; }
  std::span<float> slot(std::size_t index) { return section(index + 1); }
  std::span<const float> slot(std::size_t index) const { return const_cast<ParamBuffer*>(this)->section(index + 1); }

  /// One tensor of values().
  std::span<float> tensor(const ParamEntry& entry);
  /// Copies `values` in. Errors with kShapeMismatch, naming both fingerprints or sizes, and changes nothing then.
  Status load(std::span<const float> values, std::uint64_t fingerprint);

 private:
  std::span<float> section(std::size_t index);

  ParamLayout layout_;
  std::uint64_t fingerprint_;
  std::vector<std::string> slots_;
  AlignedArray<float> data_;
};

}  // namespace troupe::learner
