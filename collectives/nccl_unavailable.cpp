#include <troupe/collectives/nccl.hpp>

namespace troupe::collectives {

Result<std::unique_ptr<Communicator>> make_nccl_communicator(std::unique_ptr<Communicator>, NcclOptions) {
  return Error{Code::kUnavailable, "nccl: built without NCCL: no nccl.h and CUDA toolkit were there"};
}

}  // namespace troupe::collectives
