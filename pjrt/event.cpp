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

}  // namespace troupe::pjrt
