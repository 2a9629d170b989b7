#pragma once
// Parameters that keep their length (Graph::keep_length): who holds their values calls this at first and after each
// update of their group, on a processor. The program on a GPU has a kernel for it.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/graph/param_buffer.hpp>

namespace troupe::learner {

/// The work for a group, cut into parts that several threads may take. A column is added up by one of them, row after
/// row in float64, so no bit depends on how many there are.
class KeptLengths {
 public:
  KeptLengths() = default;
  explicit KeptLengths(const ParamLayout& layout);
  /// Those alone whose parameters lie all in [begin, end) of the layout.
  KeptLengths(const ParamLayout& layout, std::int64_t begin, std::int64_t end);

  bool empty() const { return works_.empty(); }
  /// Part `part` of `parts` of the work. values: the group's flat buffer; shadow: its bfloat16 copy, or null.
  void restore(float* values, std::uint16_t* shadow, std::size_t part = 0, std::size_t parts = 1) const;

 private:
  struct Matrix {
    std::int64_t offset = 0, rows = 0;
  };
  /// Some columns of matrices that stand one upon the other.
  struct Work {
    std::vector<Matrix> matrices;
    std::int64_t columns = 0, begin = 0, end = 0;
    double length = 1;
  };
  static void restore(const Work& work, float* values, std::uint16_t* shadow);
  std::vector<Work> works_;
};

}  // namespace troupe::learner
