#include <troupe/learner/engine/pjrt/pjrt_rows.hpp>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <troupe/learner/engine/pjrt/pjrt_clients.hpp>
#include <troupe/learner/engine/pjrt/program_cache.hpp>
#include <troupe/learner/graph/hlo.hpp>

namespace troupe::learner {

namespace {

/// Rows that are written by one run of a program. Fewer are filled up by the last of them, which changes nothing.
constexpr std::int64_t kStoredTogether = 64;

/// Flat rows: compilers lay out an array of more axes so that a row of it is no stretch of memory, and copy all of it.
hlo::Type many(const ValueSpec& input, std::int64_t rows) {
  const std::int64_t elements = input.shape.elements() / input.shape[0];
  return {input.shape.rank() == 1 ? Shape({rows}) : Shape({rows, elements}), hlo::element_of(input.dtype)};
}

std::string zeros(std::span<const ValueSpec> inputs, std::int64_t count) {
  hlo::Builder to;
  std::vector<hlo::Value> made;
  for (const ValueSpec& input : inputs) made.push_back(to.constant(0, many(input, count)));
  return to.module("zeros", made);
}

std::string storing(std::span<const ValueSpec> inputs, std::int64_t count) {
  hlo::Builder to;
  std::vector<hlo::Value> kept, rows;
  for (const ValueSpec& input : inputs) kept.push_back(to.argument(many(input, count)));
  for (const ValueSpec& input : inputs) rows.push_back(to.argument(many(input, kStoredTogether)));
  const hlo::Value numbers = to.argument({Shape({kStoredTogether}), hlo::Element::kI32});
  const auto written =
      to.loop(kStoredTogether, kept, [&](const hlo::Value& index, std::span<const hlo::Value> carried) {
        std::vector<hlo::Value> next;
        for (std::size_t i = 0; i < carried.size(); ++i) {
          next.push_back(with_row(carried[i], row_of(numbers, index), row_of(rows[i], index)));
        }
        return next;
      });
  hlo::Builder::Aliases aliases(2 * inputs.size() + 1, -1);
  std::iota(aliases.begin(), aliases.begin() + static_cast<std::ptrdiff_t>(inputs.size()), 0);
  return to.module("store_rows", written, aliases);
}

std::string taking(std::span<const ValueSpec> inputs, std::int64_t count, int steps, RowLookup lookup) {
  hlo::Builder to;
  std::vector<hlo::Value> kept, taken;
  for (const ValueSpec& input : inputs) kept.push_back(to.argument(many(input, count)));
  const std::int64_t numbers = inputs[0].shape[0] * steps;
  const hlo::Value index = to.argument({Shape({numbers, 1}), hlo::Element::kI32});
  std::vector<hlo::Value> rows;
  if (lookup == RowLookup::kGather) {
    for (const hlo::Value& each : kept) rows.push_back(take(each, index, {0}));
  } else {
    for (const ValueSpec& input : inputs) rows.push_back(to.constant(0, many(input, numbers)));
    rows = to.loop(numbers, rows, [&](const hlo::Value& row, std::span<const hlo::Value> carried) {
      const hlo::Value number = reshape(row_of(index, row), Shape());
      std::vector<hlo::Value> next;
      for (std::size_t i = 0; i < kept.size(); ++i) {
        next.push_back(with_row(carried[i], row, row_of(kept[i], number)));
      }
      return next;
    });
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Shape& batch = inputs[i].shape;
    taken.push_back(reshape(rows[i], steps == 1 ? batch : batch.with_leading(steps)));
  }
  return to.module("take_rows", taken);
}

}  // namespace

Result<PjrtRows> PjrtRows::make(std::shared_ptr<const pjrt::Client> client, std::size_t device,
                                std::vector<ValueSpec> inputs, std::int64_t count, std::optional<RowLookup> lookup) {
  const RowLookup usual = client->platform() == "tpu" ? RowLookup::kRowByRow : RowLookup::kGather;
  PjrtRows made(std::move(client), device, std::move(inputs), count, lookup.value_or(usual));
  TROUPE_ASSIGN(const pjrt::LoadedExecutable fill, made.compiled(zeros(made.inputs_, count)));
  TROUPE_ASSIGN(made.rows_, made.run(fill, {}));
  TROUPE_ASSIGN(made.store_, made.compiled(storing(made.inputs_, count)));
  return made;
}

Result<pjrt::LoadedExecutable> PjrtRows::compiled(const std::string& text) const {
  return program_cache().program(*client_, text,
                                 {.devices = {static_cast<std::int64_t>(device_)}, .flags = compile_flags(*client_)});
}

Result<std::vector<pjrt::Buffer>> PjrtRows::run(const pjrt::LoadedExecutable& program,
                                                const std::vector<const pjrt::Buffer*>& arguments) const {
  TROUPE_ASSIGN(pjrt::Outputs outputs, program.execute(std::span(&arguments, 1)));
  return std::move(outputs[0]);
}

Status PjrtRows::store(std::int64_t first, std::span<const std::span<const std::byte>> columns, std::int64_t rows) {
  for (std::int64_t begin = 0; begin < rows; begin += kStoredTogether) {
    const std::int64_t count = std::min(kStoredTogether, rows - begin);
    std::vector<pjrt::Buffer> sent;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Shape shape = many(inputs_[i], kStoredTogether).shape;
      const std::size_t bytes = columns[i].size() / static_cast<std::size_t>(rows);
      const auto part = columns[i].subspan(static_cast<std::size_t>(begin) * bytes);
      padded_.resize(bytes * static_cast<std::size_t>(kStoredTogether));
      for (std::int64_t row = 0; row < kStoredTogether; ++row) {
        const auto at = static_cast<std::size_t>(std::min(row, count - 1)) * bytes;
        std::ranges::copy(part.subspan(at, bytes), padded_.begin() + row * static_cast<std::ptrdiff_t>(bytes));
      }
      TROUPE_ASSIGN(pjrt::Buffer buffer, client_->copy_from_host({padded_.data(), inputs_[i].dtype, shape}, device_));
      sent.push_back(std::move(buffer));
    }
    std::array<std::int32_t, kStoredTogether> numbers{};
    for (std::int64_t row = 0; row < kStoredTogether; ++row) {
      numbers[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(first + begin + std::min(row, count - 1));
    }
    TROUPE_ASSIGN(const pjrt::Buffer where,
                  client_->copy_from_host({numbers.data(), DType::kI32, Shape({kStoredTogether})}, device_));
    std::vector<const pjrt::Buffer*> arguments;
    for (const pjrt::Buffer& each : rows_) arguments.push_back(&each);
    for (const pjrt::Buffer& each : sent) arguments.push_back(&each);
    arguments.push_back(&where);
    TROUPE_ASSIGN(rows_, run(store_, arguments));
  }
  return {};
}

Result<std::vector<pjrt::Buffer>> PjrtRows::take(std::span<const std::int32_t> numbers, int steps) {
  auto found = takes_.find(steps);
  if (found == takes_.end()) {
    TROUPE_ASSIGN(pjrt::LoadedExecutable program, compiled(taking(inputs_, count_, steps, lookup_)));
    found = takes_.emplace(steps, std::move(program)).first;
  }
  TROUPE_ASSIGN(const pjrt::Buffer index,
                client_->copy_from_host(
                    {numbers.data(), DType::kI32, Shape({static_cast<std::int64_t>(numbers.size()), 1})}, device_));
  std::vector<const pjrt::Buffer*> arguments;
  for (const pjrt::Buffer& each : rows_) arguments.push_back(&each);
  arguments.push_back(&index);
  return run(found->second, arguments);
}

std::size_t PjrtRows::bytes() const {
  std::size_t bytes = 0;
  for (const ValueSpec& input : inputs_) {
    bytes += static_cast<std::size_t>(many(input, count_).shape.elements()) * dtype_bytes(input.dtype);
  }
  return bytes;
}

}  // namespace troupe::learner
