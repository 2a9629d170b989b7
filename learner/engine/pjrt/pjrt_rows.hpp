#pragma once
// Rows that stay in the memory of a program's device: replay's, of which a launch says the numbers and gets the rows
// without their coming from the host. An array for each input, to which rows are written in place and from which a
// small program of its own takes the batches of a launch, in the order in which the device gets its work.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/learner/graph/op.hpp>
#include <troupe/pjrt/client.hpp>
#include <troupe/pjrt/executable.hpp>

namespace troupe::learner {

/// How the program finds rows: by one operation, or in a loop. On TPUs a gather lays the whole array out anew first:
/// 256 images of 84 x 84 x 9 from 10,000 take 2.1 ms on a v5e by libtpu's estimate, and 0.17 in a loop. On processors
/// and GPUs a turn of a loop costs more than a row.
enum class RowLookup : std::uint8_t { kGather, kRowByRow };

class PjrtRows {
 public:
  /// `count` rows of zeros of each of these inputs, whose specs are those of a batch. lookup: by default what suits the
  /// plug-in. Errors: the plug-in's, mostly that there is no memory for them.
  static Result<PjrtRows> make(std::shared_ptr<const pjrt::Client> client, std::size_t device,
                               std::vector<ValueSpec> inputs, std::int64_t count, std::optional<RowLookup> lookup = {});

  /// Writes rows first .. first + rows - 1, of all inputs in their order. What has begun with the rows before still has
  /// those. Errors: the plug-in's, after which the rows are gone.
  Status store(std::int64_t first, std::span<const std::span<const std::byte>> columns, std::int64_t rows);
  /// The inputs of `steps` steps, as a launch takes them: the rows of these numbers, a batch for each step.
  Result<std::vector<pjrt::Buffer>> take(std::span<const std::int32_t> numbers, int steps);
  std::size_t bytes() const;

 private:
  PjrtRows(std::shared_ptr<const pjrt::Client> client, std::size_t device, std::vector<ValueSpec> inputs,
           std::int64_t count, RowLookup lookup)
      : client_(std::move(client)), device_(device), inputs_(std::move(inputs)), count_(count), lookup_(lookup) {}

  Result<pjrt::LoadedExecutable> compiled(const std::string& text) const;
  Result<std::vector<pjrt::Buffer>> run(const pjrt::LoadedExecutable& program,
                                        const std::vector<const pjrt::Buffer*>& arguments) const;

  std::shared_ptr<const pjrt::Client> client_;
  std::size_t device_;
  std::vector<ValueSpec> inputs_;
  std::int64_t count_;
  RowLookup lookup_;
  std::vector<pjrt::Buffer> rows_;  ///< by inputs
  pjrt::LoadedExecutable store_;
  std::map<int, pjrt::LoadedExecutable> takes_;  ///< by the steps of a launch
  std::vector<std::byte> padded_;
};

}  // namespace troupe::learner
