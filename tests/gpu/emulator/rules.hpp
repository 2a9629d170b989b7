#pragma once
// What the emulated runtime's functions have in common: when they refuse, and how work gets on a stream. All of it with
// the machine's lock held. Each returns an error after it has told failed() why.
#include <string_view>

#include <troupe/tests/gpu/emulator/machine.hpp>

namespace troupe_emulator {

/// No driver, or no device.
cudaError_t no_device();
/// That, or the device has failed for good.
cudaError_t no_good(int device);
/// What CUDA may not do while a stream is captured: spoils the capture.
cudaError_t spoils_capture(std::string_view what);
/// No stream, or one of a device that has failed.
cudaError_t bad_stream(cudaStream_t stream, std::string_view what);
/// On the stream, or into what it captures.
cudaError_t put(CUstream_st& stream, Work work);

}  // namespace troupe_emulator
