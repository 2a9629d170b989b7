#include <troupe/core/error.hpp>

#include <cstdio>
#include <cstdlib>

namespace troupe {

std::string_view to_string(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kShapeMismatch:
      return "shape_mismatch";
    case Code::kNotFound:
      return "not_found";
    case Code::kAlreadyExists:
      return "already_exists";
    case Code::kOutOfRange:
      return "out_of_range";
    case Code::kDeadlineExceeded:
      return "deadline_exceeded";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kCancelled:
      return "cancelled";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kIo:
      return "io";
    case Code::kInternal:
      return "internal";
    case Code::kLost:
      return "lost";
  }
  return "unknown";
}

void result_abort(const Error& error) {
  std::fprintf(stderr, "troupe: value() of a failed result: %s: %s\n", std::string(to_string(error.code)).c_str(),
               error.message.c_str());
  std::abort();
}

void Result<void>::value() const {
  if (!ok()) result_abort(error_);
}

}  // namespace troupe
