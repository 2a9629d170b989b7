#include <troupe/replay/selector.hpp>

#include <fmt/format.h>

#include <troupe/replay/selectors/by_age.hpp>
#include <troupe/replay/selectors/by_priority.hpp>
#include <troupe/replay/selectors/prioritized.hpp>
#include <troupe/replay/selectors/uniform.hpp>

namespace troupe::replay {

std::string_view to_string(SelectorKind kind) {
  switch (kind) {
    case SelectorKind::kUniform:
      return "uniform";
    case SelectorKind::kPrioritized:
      return "prioritized";
    case SelectorKind::kFifo:
      return "fifo";
    case SelectorKind::kLifo:
      return "lifo";
    case SelectorKind::kMaxHeap:
      return "max_heap";
    case SelectorKind::kMinHeap:
      return "min_heap";
  }
  return "unknown";
}

std::optional<SelectorKind> selector_kind(std::string_view name) {
  for (const SelectorKind kind : kSelectorKinds) {
    if (name == to_string(kind)) return kind;
  }
  return std::nullopt;
}

Result<std::unique_ptr<Selector>> make_selector(const SelectorOptions& options) {
  switch (options.kind) {
    case SelectorKind::kUniform:
      return std::unique_ptr<Selector>(std::make_unique<UniformSelector>());
    case SelectorKind::kPrioritized:
      if (!(options.priority_exponent >= 0 && options.priority_exponent <= kMostPriorityExponent)) {
        return Error{Code::kInvalidArgument, fmt::format("selector: priority_exponent is {}, expected 0..{}",
                                                         options.priority_exponent, kMostPriorityExponent)};
      }
      return std::unique_ptr<Selector>(std::make_unique<PrioritizedSelector>(options.priority_exponent));
    case SelectorKind::kFifo:
      return std::unique_ptr<Selector>(std::make_unique<ByAgeSelector>(ByAgeSelector::Pick::kOldest));
    case SelectorKind::kLifo:
      return std::unique_ptr<Selector>(std::make_unique<ByAgeSelector>(ByAgeSelector::Pick::kNewest));
    case SelectorKind::kMaxHeap:
      return std::unique_ptr<Selector>(std::make_unique<ByPrioritySelector>(ByPrioritySelector::Pick::kHighest));
    case SelectorKind::kMinHeap:
      return std::unique_ptr<Selector>(std::make_unique<ByPrioritySelector>(ByPrioritySelector::Pick::kLowest));
  }
  return Error{Code::kInvalidArgument,
               fmt::format("selector: kind {} is not one of the enum", static_cast<int>(options.kind))};
}

}  // namespace troupe::replay
