#include <troupe/collectives/communicator.hpp>

#include <cstring>
#include <utility>

namespace troupe::collectives {

Result<std::vector<std::int64_t>> Communicator::gather_integers(std::span<const std::int64_t> own,
                                                                CallOptions options) {
  // Every back end moves what is gathered as it is, so an integer may travel as the bits of two float32.
  constexpr std::size_t kFloats = sizeof(std::int64_t) / sizeof(float);
  const auto ranks = static_cast<std::size_t>(view().size);
  std::vector<float> in(own.size() * kFloats), out(in.size() * ranks);
  if (!own.empty()) std::memcpy(in.data(), own.data(), own.size_bytes());
  options.dtype = DType::kI64;
  TROUPE_TRY(host().all_gather(in, out, std::move(options))->wait());
  std::vector<std::int64_t> all(own.size() * ranks);
  if (!all.empty()) std::memcpy(all.data(), out.data(), out.size() * sizeof(float));
  return all;
}

}  // namespace troupe::collectives
