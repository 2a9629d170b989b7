#include <troupe/collectives/nccl.hpp>

namespace troupe::collectives {

namespace {
const Error kUnavailable{Code::kUnavailable, "nccl: built without NCCL: no nccl.h and CUDA toolkit were there"};
}

Result<std::unique_ptr<Communicator>> make_nccl_communicator(std::unique_ptr<Communicator>, NcclOptions) {
  return kUnavailable;
}

Result<std::unique_ptr<Communicator>> make_nccl_communicator(Communicator&, NcclOptions) { return kUnavailable; }

Result<std::string> nccl_version() { return kUnavailable; }

Result<NcclMember> nccl_member(const NcclOptions&) { return kUnavailable; }

}  // namespace troupe::collectives
