#pragma once
// A replay table's items on the device: inserts, draws with their rows, new priorities. As in the table of api.h, on
// CUDA's own streams. All of it may be captured.
#include <cuda_runtime.h>

#include <cstdint>

#include <troupe/gpu/api.h>

namespace troupe_cuda {

/// One launch: a block goes up the tree level by level.
cudaError_t replay_insert(const TroupeCudaReplay& table, const TroupeCudaReplayItem* items, std::int64_t first,
                          std::int64_t count, std::int64_t present, cudaStream_t stream);
/// Two launches: the draws with their rows, then what draws have to know of each other; one more for each further
/// TROUPE_CUDA_REPLAY_COLUMNS columns.
cudaError_t replay_draw(const TroupeCudaReplay& table, const TroupeCudaDraws& draws, std::int64_t rows,
                        const TroupeCudaReplayColumn* columns, std::int32_t column_count, float* weights,
                        double importance_exponent, cudaStream_t stream);
/// One launch, like replay_insert().
cudaError_t replay_update(const TroupeCudaReplay& table, const std::uint32_t* slots, const std::int32_t* last,
                          const void* priorities, std::int32_t dtype, std::int64_t count,
                          const TroupeCudaControl* control, cudaStream_t stream);

}  // namespace troupe_cuda
