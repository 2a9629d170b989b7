#pragma once
// NCCL's and the CUDA runtime's functions, opened at run time. Private to the NCCL back end.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <filesystem>
#include <memory>

#include <troupe/core/error.hpp>

namespace troupe::collectives::detail {

struct NcclLibrary {
  decltype(&ncclGetVersion) version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  ncclResult_t (*revoke)(ncclComm_t, int) = nullptr;  ///< null before 2.28.7
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclRedOpCreatePreMulSum) create_scaled_sum = nullptr;
  decltype(&ncclRedOpDestroy) destroy_op = nullptr;

  decltype(&cudaSetDevice) set_device = nullptr;
  cudaError_t (*pci_bus_id)(char*, int, int) = nullptr;
  decltype(&cudaStreamCreateWithFlags) create_stream = nullptr;
  decltype(&cudaStreamQuery) query_stream = nullptr;
  decltype(&cudaStreamDestroy) destroy_stream = nullptr;
  decltype(&cudaEventCreateWithFlags) create_event = nullptr;
  decltype(&cudaEventRecord) record_event = nullptr;
  decltype(&cudaEventQuery) query_event = nullptr;
  decltype(&cudaEventDestroy) destroy_event = nullptr;
  decltype(&cudaMemsetAsync) set_memory = nullptr;
  decltype(&cudaGetErrorString) cuda_error_string = nullptr;

  /// path: as NcclOptions::library. A library that has the CUDA runtime's functions itself, as the simulated NCCL of
  /// the tests does, is both. The libraries stay open as long as the result lives. Errors: kUnavailable.
  static Result<std::shared_ptr<const NcclLibrary>> open(const std::filesystem::path& path);
};

}  // namespace troupe::collectives::detail
