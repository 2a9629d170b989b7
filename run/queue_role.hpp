#pragma once
// The kind of role that holds frames of one type between others (actors/roles/frame_queue.hpp), for a program's
// registry:
//   mine.role("celsius-queue", troupe::queue_of("Celsius"));
// and in a configuration [roles.buffer] kind = "celsius-queue", order = "shuffle", capacity = 500.
#include <string>

#include <troupe/actors/roles/frame_queue.hpp>
#include <troupe/run/registry.hpp>

namespace troupe {

/// priority: of a frame; with it order = "priority" may be chosen. Keys: order, capacity, min_after_dequeue.
RoleKind queue_of(std::string type, actors::FramePriority priority = nullptr);

}  // namespace troupe
