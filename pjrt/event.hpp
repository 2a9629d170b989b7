#pragma once
// When something that was begun on a PJRT device is done, or how it failed.
#include <functional>

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
  /// Waits on this thread for the device: the API has no deadline, so who needs one asks is_ready() or on_ready().
  /// Errors: of the work. An empty event is reached.
  Status await() const;
  /// `then` is called once, on a thread of the plug-in's or, if the event is reached already, on this one; it must not
  /// block. What it refers to must live until then. Errors: the plug-in's, after which it is never called.
  Status on_ready(std::function<void(Status)> then) const;

 private:
  Handle<c::Event, c::EventDestroy> handle_;
};

}  // namespace troupe::pjrt
