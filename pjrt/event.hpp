#pragma once
// When something that was begun on a PJRT device is done, or how it failed.
#include <troupe/pjrt/plugin.hpp>

namespace troupe::pjrt {

/// Empty until made and after a move. It may go before it is reached; the work goes on.
class Event {
 public:
  Event() = default;
  Event(std::shared_ptr<const Plugin> keeper, c::Event* event) : handle_(std::move(keeper), event) {}
  explicit operator bool() const { return static_cast<bool>(handle_); }

  /// Whether await() would return at once. Errors: the plug-in's, of asking.
  Result<bool> is_ready() const;
  /// Waits on this thread for the device: the API has no deadline, so who needs one asks is_ready(). Errors: of the
  /// work. An empty event is reached.
  Status await() const;

 private:
  Handle<c::Event, c::EventDestroy> handle_;
};

}  // namespace troupe::pjrt
