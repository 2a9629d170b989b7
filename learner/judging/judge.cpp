#include <troupe/learner/judging/judge.hpp>

#include <utility>

namespace troupe::learner {

Status MeanJudge::take(const Program& program, std::int64_t rows) {
  if (sums_.empty()) {
    for (const std::string& name : program.metric_names()) sums_.push_back({name, 0});
  }
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i].value += program.metrics()[i] * static_cast<double>(rows);
  rows_ += rows;
  return {};
}

Result<Verdict> MeanJudge::verdict() {
  Verdict verdict{.scalars = std::exchange(sums_, {}), .pictures = {}};
  for (Scalar& scalar : verdict.scalars) scalar.value /= static_cast<double>(rows_);
  rows_ = 0;
  return verdict;
}

}  // namespace troupe::learner
