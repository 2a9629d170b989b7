#pragma once
// What was measured of the ways to compute a product or a convolution on this processor, kept in the user's cache
// folder from one process to the next. Written by learner/engine/cpu/fastest.cpp; `troupe doctor` shows it.
#include <map>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::learner {

/// The ways of one shape; the first is the one that was chosen.
struct MeasuredWays {
  struct Way {
    std::string name;
    double micros = 0;  ///< of one run
  };
  std::vector<Way> ways;
};

/// One file of text for each processor, whose first line has a checksum of the rest. It is replaced as a whole, under a
/// lock and together with what other processes wrote meanwhile; one that is damaged is said once and counts as empty.
/// At its bound, of 4,096 shapes, new ones are not kept. One thread at a time may use it.
class PlanCache {
 public:
  /// folder: made when first needed; "" keeps everything in memory. processor: one line that says what the times are
  /// of.
  PlanCache(std::string folder, std::string processor);

  /// Null where it was not measured.
  const MeasuredWays* find(const std::string& shape) const;
  void add(const std::string& shape, MeasuredWays ways);
  /// Writes what was added since; waits at most a second for others who write. Errors: kIo, kDeadlineExceeded; then it
  /// stays in memory and the next save() tries again.
  Status save();

  const std::map<std::string, MeasuredWays>& all() const { return shapes_; }
  const std::string& path() const { return path_; }
  const std::string& processor() const { return processor_; }

 private:
  Result<std::map<std::string, MeasuredWays>> read() const;
  std::string folder_, processor_, path_;
  std::map<std::string, MeasuredWays> shapes_;
  bool changed_ = false;
};

}  // namespace troupe::learner
