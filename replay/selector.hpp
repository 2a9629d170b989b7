#pragma once
// Which item a table draws or evicts next. A table owns two of them, sampler and remover, chosen apart as in Reverb
// (reverb/cc/selectors/interface.h). Selectors speak of slots, not keys: the table keeps its items in slots 0..size-1
// without holes, so that a uniform draw is one random number and a priority is one leaf of a dense tree.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::replay {

/// Identity of an item: unique in a table over its life, never reused, increasing with insertion.
using Key = std::uint64_t;

/// Where a table holds an item now: dense, 0..size-1.
using Slot = std::uint32_t;

enum class SelectorKind : std::uint8_t {
  kUniform = 0,
  kPrioritized = 1,
  kFifo = 2,
  kLifo = 3,
  kMaxHeap = 4,
  kMinHeap = 5
};
constexpr SelectorKind kSelectorKinds[] = {SelectorKind::kUniform, SelectorKind::kPrioritized, SelectorKind::kFifo,
                                           SelectorKind::kLifo,    SelectorKind::kMaxHeap,     SelectorKind::kMinHeap};

/// "uniform", "prioritized", "fifo", "lifo", "max_heap", "min_heap".
std::string_view to_string(SelectorKind kind);
/// The inverse; empty for any other name.
std::optional<SelectorKind> selector_kind(std::string_view name);
/// Whether it looks at items' priorities.
constexpr bool goes_by_priorities(SelectorKind kind) {
  return kind == SelectorKind::kPrioritized || kind == SelectorKind::kMaxHeap || kind == SelectorKind::kMinHeap;
}

inline constexpr double kMostPriorityExponent = 4;

struct SelectorOptions {
  SelectorKind kind = SelectorKind::kUniform;
  /// P(i) = p_i^exponent / sum_k p_k^exponent (Schaul et al. 2016, Eq. 1). 0..kMostPriorityExponent; read by
  /// kPrioritized only.
  double priority_exponent = 1.0;
};

/// Priorities lie in 0..kMaxPriority: its kMostPriorityExponent-th power, summed over every slot, is still a finite
/// double.
inline constexpr double kMaxPriority = 1e60;
inline bool valid_priority(double priority) { return priority >= 0 && priority <= kMaxPriority; }  // false for NaN

/// One draw.
struct Selection {
  Slot slot = 0;
  double probability = 0;  ///< with which this slot was drawn; 1 where there is no choice
};

/// Contract for implementers: state is a function of each slot's key order and priority alone, so that a table restored
/// from those selects bit for bit as before. (Heaps know of equal priorities which was set first, and forget it then,
/// as Reverb's do.) Priorities are valid_priority(), which the table checks; slots passed in are < size(). No call
/// fails or blocks. Not thread-safe.
class Selector {
 public:
  virtual ~Selector() = default;

  /// A new item, the newest, in slot size().
  virtual void append(double priority) = 0;
  /// The item in `slot` leaves; a new one, now the newest, takes the slot.
  virtual void replace(Slot slot, double priority) = 0;
  /// The item in `slot` leaves; the item in slot size()-1 moves there and keeps its age.
  virtual void erase(Slot slot) = 0;
  /// Sets priorities, in order: the last one wins if a slot comes twice. O(log size) each where priorities
  /// matter, else free.
  virtual void update(std::span<const Slot> slots, std::span<const double> priorities) = 0;
  /// Forgets everything and takes keys.size() items: slot i holds keys[i], older than every greater key.
  virtual void assign(std::span<const Key> keys, std::span<const double> priorities) = 0;

  /// Fills `out` with independent draws, with replacement; changes nothing but `rng`. size() > 0.
  virtual void select(Rng& rng, std::span<Selection> out) = 0;

  virtual std::int64_t size() const = 0;
  /// The sum of all items' weights, where an item of weight w is drawn with probability w / mass(). Every weight is 1
  /// unless the selector is prioritised; there it is priority^exponent, or 1 for all when all are 0.
  virtual double mass() const { return static_cast<double>(size()); }
};

/// The one list of selectors. Errors: kInvalidArgument naming the option.
Result<std::unique_ptr<Selector>> make_selector(const SelectorOptions& options);

}  // namespace troupe::replay
