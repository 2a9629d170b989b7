#pragma once
// What a sweep varies, as a user writes it: `--seeds 1..5` and `--set KEY=V1,V2`, and every combination of it.
// `troupe sweep` makes runs of them (apps/sweep/plan.hpp). Pure: no configuration is looked at here.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::apps {

/// More runs than this in one sweep are refused: somebody has mistyped a range.
inline constexpr std::size_t kSweepRunsMax = 4096;

/// A key with one value, as an override has them.
using Setting = std::pair<std::string, std::string>;

/// A key and the values that it takes in turn, each as it would stand behind `--set KEY=`.
struct SweptKey {
  std::string key;
  std::vector<std::string> values;
};

/// "1..5", "1,2,7" or "1..3,7" as numbers, in that order. Errors: kInvalidArgument: anything else, a range that goes
/// down, a seed twice, more than kSweepRunsMax.
Result<std::vector<std::int64_t>> parse_seeds(const std::string& text);

/// "KEY=V1,V2", one each. Values end at commas outside of brackets and quotes, so that a list is one value:
/// "d4pg.policy_layers=[64,64],[128]". Errors: kInvalidArgument: no "=", an empty key or value, a bracket or quote that
/// does not end, a value or a key twice, and the key `seed`, which has an option of its own.
Result<std::vector<SweptKey>> parse_swept_keys(std::span<const std::string> texts);

/// Every combination of one value of each key; the last key changes fastest. Without keys there is one, which is empty.
std::vector<std::vector<Setting>> combinations(std::span<const SweptKey> keys);

/// How many those are; no more than kSweepRunsMax + 1 is ever said.
std::size_t count_combinations(std::span<const SweptKey> keys);

/// "d4pg.sigma=0.2, seed=1"; empty for none.
std::string in_words(std::span<const Setting> settings);

}  // namespace troupe::apps
