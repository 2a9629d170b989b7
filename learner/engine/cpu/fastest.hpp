#pragma once
// Which of several ways to compute the same is the fastest on this machine: measured where a program is compiled, and
// remembered (learner/engine/cpu/plan_cache.hpp). make_gemm() and make_convolution() ask it for PlanChoice::kMeasured.
//
// Ways run in turn, and the shortest time of each on the processor counts, so that other load on the machine meets all
// of them, and waiting for it none. A shape takes 40 ms, or three runs of each way where these take longer; a process
// measures for two seconds in all, and what is left goes by rule until a later process has measured it. Within a
// process a shape's answer never changes, so all that a program asks about it fits together.
#include <functional>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <troupe/core/error.hpp>
#include <troupe/learner/engine/cpu/plan_cache.hpp>

namespace troupe::learner {

struct Way {
  std::string_view name;  ///< without spaces, short: people read it
  /// Makes a plan with operands of its own and returns what runs it once. An error: there is no such way here.
  std::function<Result<std::function<void()>>()> prepare;
};

/// Safe from any thread; others wait meanwhile.
class Measurer {
 public:
  /// seconds: after how much measuring it stops, to the end of the shape that it is at.
  explicit Measurer(PlanCache cache, double seconds = 2) : cache_(std::move(cache)), seconds_(seconds) {}

  /// The index of the fastest of these ways to compute `shape`, one line that says all about it. The first way is the
  /// rule's: it stays where no other is at least 3 % faster, or where the time for measuring is used up.
  std::size_t fastest(const std::string& shape, std::span<const Way> ways);
  /// Writes what was measured for later processes; the first time that it cannot, it says why.
  void keep();
  /// As it is now.
  PlanCache measured() const;

 private:
  std::size_t measure(const std::string& shape, std::span<const Way> ways);

  // Recursive: the product within a convolution is asked for while that is measured.
  mutable std::recursive_mutex mutex_;
  PlanCache cache_;
  const double seconds_;
  double spent_ = 0;
  std::set<std::string> by_rule_;  ///< what came too late, so that its answer stays
  bool told_ = false;
};

/// That of this process, with the user's cache folder.
Measurer& measurer();

}  // namespace troupe::learner
