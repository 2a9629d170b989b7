#pragma once
// Both kinds of tables for suites that hold for either: the host's, and the GPU's on the emulated device, or on the
// first GPU of this machine where TROUPE_PLUGIN_PATH names the folder of a plug-in.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include <troupe/replay/gpu_table.hpp>
#include <troupe/tests/replay/table_fixture.hpp>

namespace troupe::replay {

enum class Where { kHost, kGpu };
inline constexpr auto kEverywhere = {Where::kHost, Where::kGpu};
inline std::string to_string(Where where) { return where == Where::kHost ? "host" : "gpu"; }

inline std::shared_ptr<const gpu::Gpu> test_gpu() {
  static const auto opened = [] {
    setenv("TROUPE_PLUGIN_PATH", EMULATED_PLUGINS, 0);
    return gpu::Gpu::open(0);
  }();
  return opened.value();
}

/// Whether there are such tables at all.
inline bool exists(Where where, const TableOptions& options) {
  return where == Where::kHost || (options.remover.kind == SelectorKind::kFifo && options.max_times_sampled == 0);
}

inline Result<std::unique_ptr<Table>> try_table(Where where, TableOptions options) {
  if (where == Where::kHost) return Table::make(std::move(options));
  TROUPE_ASSIGN(auto table, GpuTable::make(std::move(options), test_gpu()));
  return std::unique_ptr<Table>(std::move(table));
}

inline std::unique_ptr<Table> make_table(Where where, TableOptions options) {
  if (options.signature.empty()) options.signature = test_signature();
  return try_table(where, std::move(options)).value();
}

/// A suite over both.
class EveryTable : public testing::TestWithParam<Where> {
 protected:
  std::unique_ptr<Table> make(TableOptions options) { return make_table(GetParam(), std::move(options)); }
};
inline std::string table_name(const testing::TestParamInfo<Where>& info) { return to_string(info.param); }

}  // namespace troupe::replay
