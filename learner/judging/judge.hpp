#pragma once
// How the parameters of a replica group are judged: an evaluation's program (a Replica whose step updates nothing) runs
// batch by batch, a judge looks at what each batch came to, and says what all of them mean together. Used by the
// evaluator of a replica group (actors/roles/evaluator.hpp).
#include <cstdint>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/core/picture.hpp>
#include <troupe/learner/engine/program.hpp>

namespace troupe::learner {

/// What one version of the parameters is worth. Of a picture the judge leaves source and step to its caller.
struct Verdict {
  std::vector<Scalar> scalars;
  std::vector<Picture> pictures;
};

/// prepare() until it is true, then for each version take() every batch and verdict() once. One thread at a time.
class Judge {
 public:
  virtual ~Judge() = default;
  /// A bounded slice, some 10 ms, of what must be done once before anything is judged. True when nothing is left.
  virtual Result<bool> prepare() { return true; }
  /// The program has run a batch; its first `rows` rows count.
  virtual Status take(const Program& program, std::int64_t rows) = 0;
  /// Of all batches since the last verdict, at least one.
  virtual Result<Verdict> verdict() = 0;
};

/// The mean of every metric over rows.
class MeanJudge final : public Judge {
 public:
  Status take(const Program& program, std::int64_t rows) override;
  Result<Verdict> verdict() override;

 private:
  std::vector<Scalar> sums_;  ///< metric x rows
  std::int64_t rows_ = 0;
};

}  // namespace troupe::learner
