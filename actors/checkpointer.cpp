#include <troupe/actors/checkpointer.hpp>

#include <troupe/core/log.hpp>

namespace troupe::actors {

Checkpointer::Checkpointer(caf::actor_config& config, caf::actor supervisor, CutWriter writer, Duration period)
    : caf::event_based_actor(config), supervisor_(std::move(supervisor)), writer_(std::move(writer)), period_(period) {}

caf::behavior Checkpointer::make_behavior() {
  if (period_ > Duration::zero()) delayed_send(this, period_, tick_atom::value);
  return {
      [this](tick_atom) {
        if (!asked_) ask();
        delayed_send(this, period_, tick_atom::value);
      },
      [this](checkpoint_atom) {
        auto promise = make_response_promise();
        if (asked_) {
          next_.push_back(promise);
        } else {
          waiting_.push_back(promise);
          ask();
        }
        return promise;
      },
      [this](const CutMessage& message) { write(message); },
      [this](stop_atom) { quit(); },
  };
}

void Checkpointer::ask() {
  asked_ = true;
  // The supervisor answers within its cut deadline in any case, so nothing here waits without a bound.
  send(supervisor_, cut_atom::value);
}

void Checkpointer::write(const CutMessage& message) {
  asked_ = false;
  Status written = message.error ? Status(*message.error) : writer_(message.cut);
  if (!written.ok()) log::warn("checkpoint: {}", written.error().message);
  CheckpointDone done;
  if (!written.ok()) done.error = written.error();
  for (caf::response_promise& promise : waiting_) promise.deliver(done);
  waiting_ = std::move(next_);
  next_.clear();
  if (!waiting_.empty()) ask();
}

}  // namespace troupe::actors
