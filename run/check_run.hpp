#pragma once
// Whether a run can begin: everything that its roles would refuse when they are made, found without making them. For
// commands that look before anything is written.
#include <troupe/core/error.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::actors {

struct CheckRunOptions {
  bool data = true;  ///< the data that groups learn from should be on this host, and what their devices need
};

/// Builds the topology and the graph of a step of every group, and looks for their data; nothing is compiled or
/// trained. Errors: kInvalidArgument, one line a mistake, each beginning with the key that is wrong:
/// "replicas.gan.data_dir: ...".
Status check_run(const TrainOptions& options, const CheckRunOptions& how = {});

}  // namespace troupe::actors
