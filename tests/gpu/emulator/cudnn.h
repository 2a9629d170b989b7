#pragma once
// What the plug-in's table (gpu/cudnn/plugin.cpp) uses of cuDNN itself, for the emulated device; the
// convolutions are in conv.cpp.
#include <cstddef>

inline std::size_t cudnnGetVersion() { return 91900; }
