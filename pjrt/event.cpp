#include <troupe/pjrt/event.hpp>

namespace troupe::pjrt {

Result<bool> Event::is_ready() const {
  if (!handle_) return true;
  c::EventIsReady args{.event = handle_.get()};
  TROUPE_TRY(handle_.plugin().call(args));
  return args.ready;
}

Status Event::await() const {
  if (!handle_) return {};
  c::EventAwait args{.event = handle_.get()};
  return handle_.plugin().call(args);
}

Status Event::on_ready(std::function<void(Status)> then) const {
  if (!handle_) {
    then({});
    return {};
  }
  struct Waiting {
    std::shared_ptr<const Plugin> plugin;
    std::function<void(Status)> then;
  };
  auto waiting = std::make_unique<Waiting>(Waiting{handle_.keeper(), std::move(then)});
  c::EventOnReady args{.event = handle_.get(),
                       .callback =
                           [](c::Error* error, void* argument) {
                             const std::unique_ptr<Waiting> own(static_cast<Waiting*>(argument));
                             own->then(own->plugin->status_of(error, c::EventOnReady::kFunction.name));
                           },
                       .argument = waiting.get()};
  TROUPE_TRY(handle_.plugin().call(args));
  (void)waiting.release();  // the callback's, and perhaps gone already
  return {};
}

}  // namespace troupe::pjrt
