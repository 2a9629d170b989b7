#pragma once
// `troupe train --page`: a `troupe watch` of the run beside it, as a process of its own that ends with it. The run
// itself listens nowhere.
#include <memory>

#include <troupe/core/error.hpp>
#include <troupe/run/run_directory.hpp>

namespace troupe::apps {

class PageChild {
 public:
  /// Starts it; it waits for the run to begin and prints the link. Errors: kIo.
  static Result<PageChild> start(const RunDirectory& run);
  PageChild(PageChild&& other) noexcept;
  ~PageChild();  ///< Ends it, and waits for that.

 private:
  struct Impl;
  explicit PageChild(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::apps
