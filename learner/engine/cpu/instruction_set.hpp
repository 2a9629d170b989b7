#pragma once
// How far up the processor's instruction sets the learner's kernels, Eigen's products and oneDNN may go. A machine that
// has more can be held down to what another one has, by the environment variable TROUPE_MAX_ISA, so that tests show
// here what runs there (docs/processors.md). Read once, before the first kernel is chosen.
#include <cstdint>
#include <string_view>

#include <troupe/core/error.hpp>

namespace troupe::learner {

/// In this order, each above those before.
enum class InstructionSet : std::uint8_t {
  kSse41,   ///< "sse41": what every x86-64-v2 processor has
  kAvx,     ///< "avx": oneDNN's; our own kernels are those of kSse41
  kAvx2,    ///< "avx2", with FMA
  kAvx512,  ///< "avx512": F, BW, DQ and VL, without bfloat16 and matrix tiles
  kAll,     ///< nothing is held down
};

/// Errors: kInvalidArgument, with what was got and expected. "" is kAll.
Result<InstructionSet> parse_instruction_set(std::string_view text);

/// What TROUPE_MAX_ISA says. An error where it says nothing that is known: nothing may then be compiled.
const Result<InstructionSet>& max_instruction_set();

/// Whether kernels of this set may run, as far as max_instruction_set() is concerned.
bool may_use(InstructionSet set);

}  // namespace troupe::learner
