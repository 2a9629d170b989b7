#include <troupe/collectives/detail/nccl_library.hpp>

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace troupe::collectives::detail {
namespace {

constexpr const char* kName = "libnccl.so.2";

Result<std::shared_ptr<void>> open_first(const std::vector<std::string>& names) {
  std::string why;
  for (const std::string& name : names) {
    if (name.empty()) continue;
    // Never unmapped: an aborted communicator is freed by a thread of the library, which nobody can wait for.
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
      return std::shared_ptr<void>(handle, [](void* opened) { dlclose(opened); });
    }
    why += fmt::format("{}{}", why.empty() ? "" : "; ", dlerror());
  }
  return Error{Code::kUnavailable,
               fmt::format("nccl: cannot open its libraries: {}; install NVIDIA's libnccl2, or put {} where "
                           "$TROUPE_PLUGIN_PATH says",
                           why, kName)};
}

/// NCCL in the folder that the user has named for what is opened at run time; empty: there is none.
std::string beside_plugins() {
  const char* const folder = std::getenv("TROUPE_PLUGIN_PATH");
  if (folder == nullptr || *folder == '\0') return {};
  const std::filesystem::path file = std::filesystem::path(folder) / kName;
  std::error_code ignored;  // what cannot be looked at is not there
  return std::filesystem::is_regular_file(file, ignored) ? std::filesystem::absolute(file).string() : std::string();
}

/// Keeps both open as long as the functions are known.
struct Opened {
  std::shared_ptr<void> nccl;
  std::shared_ptr<void> cuda;  // empty where the first is both
  NcclLibrary functions;
};

}  // namespace

Result<std::shared_ptr<const NcclLibrary>> NcclLibrary::open(const std::filesystem::path& path) {
  auto opened = std::make_shared<Opened>();
  const std::string given = path.empty() ? beside_plugins() : path.string();
  TROUPE_ASSIGN(opened->nccl, open_first(given.empty() ? std::vector<std::string>{TROUPE_NCCL_LIBRARY, kName}
                                                       : std::vector<std::string>{given}));
  if (!dlsym(opened->nccl.get(), "cudaSetDevice")) {
    const std::string cudart = fmt::format("libcudart.so.{}", CUDART_VERSION / 1000);
    TROUPE_ASSIGN(opened->cuda, open_first({TROUPE_CUDART_LIBRARY, cudart}));
  }
  std::string missing;
  const auto find = [&](void* library, auto& function, const char* name, bool needed = true) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function && needed) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
  };
  NcclLibrary& all = opened->functions;
  void* const nccl = opened->nccl.get();
  find(nccl, all.version, "ncclGetVersion");
  find(nccl, all.get_unique_id, "ncclGetUniqueId");
  find(nccl, all.init_rank, "ncclCommInitRankConfig");
  find(nccl, all.async_error, "ncclCommGetAsyncError");
  find(nccl, all.finalize, "ncclCommFinalize");
  find(nccl, all.destroy, "ncclCommDestroy");
  find(nccl, all.abort, "ncclCommAbort");
  find(nccl, all.revoke, "ncclCommRevoke", false);
  find(nccl, all.error_string, "ncclGetErrorString");
  find(nccl, all.last_error, "ncclGetLastError");
  find(nccl, all.all_reduce, "ncclAllReduce");
  find(nccl, all.all_gather, "ncclAllGather");
  find(nccl, all.reduce_scatter, "ncclReduceScatter");
  find(nccl, all.broadcast, "ncclBroadcast");
  find(nccl, all.create_scaled_sum, "ncclRedOpCreatePreMulSum");
  find(nccl, all.destroy_op, "ncclRedOpDestroy");
  void* const cuda = opened->cuda ? opened->cuda.get() : nccl;
  find(cuda, all.set_device, "cudaSetDevice");
  find(cuda, all.pci_bus_id, "cudaDeviceGetPCIBusId");
  find(cuda, all.create_stream, "cudaStreamCreateWithFlags");
  find(cuda, all.query_stream, "cudaStreamQuery");
  find(cuda, all.destroy_stream, "cudaStreamDestroy");
  find(cuda, all.create_event, "cudaEventCreateWithFlags");
  find(cuda, all.record_event, "cudaEventRecord");
  find(cuda, all.query_event, "cudaEventQuery");
  find(cuda, all.destroy_event, "cudaEventDestroy");
  find(cuda, all.set_memory, "cudaMemsetAsync");
  find(cuda, all.cuda_error_string, "cudaGetErrorString");
  if (!missing.empty()) return Error{Code::kUnavailable, fmt::format("nccl: the library lacks {}", missing)};
  return std::shared_ptr<const NcclLibrary>(opened, &all);
}

}  // namespace troupe::collectives::detail
