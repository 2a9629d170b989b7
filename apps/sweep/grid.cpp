#include <troupe/apps/sweep/grid.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include <troupe/core/text.hpp>

namespace troupe::apps {
namespace {

constexpr std::string_view kRange = "..";

/// The parts of a text between its commas; those within brackets and quotes are not looked at.
std::optional<std::vector<std::string>> split_values(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\' && quote == '"' && i + 1 < text.size()) {
        parts.back() += c;
        parts.back() += text[++i];
        continue;
      }
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[') {
      ++depth;
    } else if (c == ']') {
      if (--depth < 0) return std::nullopt;
    } else if (c == ',' && depth == 0) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
  }
  if (depth != 0 || quote != 0) return std::nullopt;
  return parts;
}

std::optional<std::int64_t> seed_of(std::string_view text) {
  std::int64_t seed = -1;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, seed);
  if (parsed.ec != std::errc() || parsed.ptr != end || seed < 0) return std::nullopt;
  return seed;
}

Error bad_seeds(const std::string& text, std::string_view what) {
  return {Code::kInvalidArgument,
          fmt::format("--seeds {}: {}, expected FIRST..LAST, a number, or several of these with "
                      "commas between them, each from 0 to {}",
                      printable(text), what, std::numeric_limits<std::int64_t>::max())};
}

Error bad_setting(const std::string& text, std::string_view what) {
  return {Code::kInvalidArgument, fmt::format("--set {}: {}", printable(text), what)};
}

Result<SweptKey> parse_swept_key(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return bad_setting(text, "expected KEY=VALUE or KEY=VALUE,VALUE,...");
  SweptKey swept{.key = text.substr(0, equals), .values = {}};
  if (swept.key == "seed") return bad_setting(text, "seeds have an option of their own: --seeds 1..5");
  auto values = split_values(std::string_view(text).substr(equals + 1));
  if (!values) return bad_setting(text, "a bracket or a quote has no other end");
  for (std::string& value : *values) {
    if (value.empty()) return bad_setting(text, "a value is empty, expected KEY=VALUE or KEY=VALUE,VALUE,...");
    if (std::ranges::find(swept.values, value) != swept.values.end()) {
      return bad_setting(text, fmt::format("the value {} stands there twice", printable(value)));
    }
    swept.values.push_back(std::move(value));
  }
  return swept;
}

}  // namespace

Result<std::vector<std::int64_t>> parse_seeds(const std::string& text) {
  std::vector<std::int64_t> seeds;
  for (std::string_view rest = text; !rest.empty() || seeds.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    if (comma + 1 == rest.size()) return bad_seeds(text, "nothing behind the last comma");
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const std::size_t dots = part.find(kRange);
    const auto first = seed_of(part.substr(0, dots));
    const auto last = dots == std::string_view::npos ? first : seed_of(part.substr(dots + kRange.size()));
    if (!first || !last) return bad_seeds(text, fmt::format("got \"{}\"", printable(part)));
    if (*last < *first) return bad_seeds(text, fmt::format("the range {} goes down", part));
    if (static_cast<std::uint64_t>(*last - *first) >= kSweepRunsMax - seeds.size()) {
      return bad_seeds(text, fmt::format("more than {} seeds", kSweepRunsMax));
    }
    for (std::int64_t i = 0; i <= *last - *first; ++i) {
      if (std::ranges::find(seeds, *first + i) != seeds.end()) {
        return bad_seeds(text, fmt::format("the seed {} stands there twice", *first + i));
      }
      seeds.push_back(*first + i);
    }
  }
  return seeds;
}

Result<std::vector<SweptKey>> parse_swept_keys(std::span<const std::string> texts) {
  std::vector<SweptKey> keys;
  for (const std::string& text : texts) {
    TROUPE_ASSIGN(SweptKey swept, parse_swept_key(text));
    if (std::ranges::find(keys, swept.key, &SweptKey::key) != keys.end()) {
      return bad_setting(text, fmt::format("the key stands in an earlier --set, too: name it once, with all of its "
                                           "values: --set {}=VALUE,VALUE",
                                           printable(swept.key)));
    }
    keys.push_back(std::move(swept));
  }
  return keys;
}

std::vector<std::vector<Setting>> combinations(std::span<const SweptKey> keys) {
  std::vector<std::vector<Setting>> all(1);
  for (const SweptKey& swept : keys) {
    std::vector<std::vector<Setting>> longer;
    for (const std::vector<Setting>& before : all) {
      for (const std::string& value : swept.values) {
        longer.push_back(before);
        longer.back().emplace_back(swept.key, value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::size_t count_combinations(std::span<const SweptKey> keys) {
  std::size_t count = 1;
  for (const SweptKey& swept : keys) count = std::min(count * swept.values.size(), kSweepRunsMax + 1);
  return count;
}

std::string in_words(std::span<const Setting> settings) {
  std::string words;
  for (const auto& [key, value] : settings) words += fmt::format("{}{}={}", words.empty() ? "" : ", ", key, value);
  return words;
}

}  // namespace troupe::apps
