#include <troupe/learner/engine/cpu/instruction_set.hpp>

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <utility>

#include <troupe/core/text.hpp>

namespace troupe::learner {

Result<InstructionSet> parse_instruction_set(std::string_view text) {
  constexpr std::array kNames{std::pair{std::string_view(), InstructionSet::kAll},
                              std::pair{std::string_view("sse41"), InstructionSet::kSse41},
                              std::pair{std::string_view("avx"), InstructionSet::kAvx},
                              std::pair{std::string_view("avx2"), InstructionSet::kAvx2},
                              std::pair{std::string_view("avx512"), InstructionSet::kAvx512}};
  for (const auto& [name, set] : kNames) {
    if (text == name) return set;
  }
  return Error{Code::kInvalidArgument,
               fmt::format("TROUPE_MAX_ISA is \"{}\", expected sse41, avx, avx2 or avx512", printable(text))};
}

const Result<InstructionSet>& max_instruction_set() {
  static const Result<InstructionSet> max = [] {
    const char* const text = std::getenv("TROUPE_MAX_ISA");
    return parse_instruction_set(text == nullptr ? "" : text);
  }();
  return max;
}

bool may_use(InstructionSet set) { return !max_instruction_set().ok() || set <= *max_instruction_set(); }

}  // namespace troupe::learner
