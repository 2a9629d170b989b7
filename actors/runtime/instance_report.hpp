#pragma once
// How an instance's Report travels to the metrics role: as a Metrics message whose scalars say role, index and kind.
// One place that writes these names and one that reads them.
#include <cstdint>
#include <string>

#include <troupe/actors/runtime/role.hpp>
#include <troupe/core/error.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::actors {

struct InstanceReport {
  std::string role;
  std::int64_t index = 0;
  Report content;
};

// The prefixes of what the shell counts for each port of a role: "frames/" and the name of the port, and so on.
inline const std::string kPortFrames = "frames/", kPortBytes = "bytes/", kPortWaitedS = "wait_s/",
                         kPortRefused = "refused/", kPortDepth = "depth/";

/// Errors: those of messages::make_metrics.
Result<Frame> make_instance_report(messages::FramePool& pool, const InstanceReport& report);

/// The most scalars of one report, which is many times what a role has.
inline constexpr std::size_t kReportScalarsMax = 4096;

/// Errors: kCorrupt or kInvalidArgument when the frame is not such a report: wrong names or too many, more than one
/// instance, or a total that counts nothing (negative or not finite).
Result<InstanceReport> read_instance_report(const Frame& frame);

}  // namespace troupe::actors
