#pragma once
// A training on the processor's PJRT plug-in by modules of whole steps, for tests that compare it with the processor's
// program.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <troupe/learner/engine/pjrt/hlo_module.hpp>
#include <troupe/learner/engine/pjrt/hlo_update.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/pjrt/client.hpp>

namespace troupe::learner {

/// Begins where the program is; the graph outlives it.
class Trained {
 public:
  Trained(std::shared_ptr<const pjrt::Client> client, const Graph& graph, Program& start)
      : client_(std::move(client)), graph_(graph), data_(GraphAccess::data(graph)) {
    for (std::size_t g = 0; g < start.group_count(); ++g) {
      keep(HloRole::kParams, g, 0, start.group(g).layout(), start.group(g).values());
    }
    for (std::size_t i = 0; i < data_.minimized.size(); ++i) {
      const ParamBuffer& group = start.group(static_cast<std::size_t>(data_.minimized[i].group));
      for (std::size_t part = 0; part < group.slots().size(); ++part) {
        keep(HloRole::kSlot, i, part, group.layout(), group.slot(part));
      }
    }
    keep(HloRole::kState, 0, 0, start.state().layout(), start.state().values());
  }

  /// Step number `step` with this batch, whose columns are called as the inputs. Returns whether it was skipped.
  bool step(std::int64_t step, const BatchView& batch) {
    launch(step, {{batch}});
    return metrics.back() != 0;
  }
  /// The same of several steps in one run, in none of which a group is left out.
  void launch(std::int64_t first, std::span<const BatchView> batches) {
    std::vector<bool> due;
    for (const MinimizeDef& each : data_.minimized) due.push_back((first + 1) % each.spec.every_steps == 0);
    std::vector<float> rules;
    std::vector<std::int32_t> follows;
    for (std::size_t s = 0; s < batches.size(); ++s) {
      const std::int64_t step = first + static_cast<std::int64_t>(s);
      for (const MinimizeDef& each : data_.minimized) {
        const auto row = hlo_rule(each.spec, step / each.spec.every_steps);
        rules.insert(rules.end(), row.begin(), row.end());
      }
      for (const GroupDef& group : data_.groups) {
        bool now = group.online >= 0 && (step + 1) % group.every_steps == 0;
        for (std::size_t i = 0; i < data_.minimized.size(); ++i) {
          if (group.decay > 0 && data_.minimized[i].group == group.online) now = now && due[i];
        }
        follows.push_back(now ? 1 : 0);
      }
    }
    const auto rows = static_cast<std::int32_t>(batches[0].rows);
    const Compiled& of = compiled(due, batches.size());
    std::vector<pjrt::Buffer> inputs;
    inputs.reserve(of.module.arguments.size());
    std::vector<const pjrt::Buffer*> arguments;
    for (const HloSlot& slot : of.module.arguments) {
      pjrt::HostArray array{&rows, DType::kI32, slot.type.shape};
      std::vector<std::byte> bytes;
      if (slot.role == HloRole::kInput) {
        const int column = batches[0].find(data_.inputs[slot.index].name);
        EXPECT_GE(column, 0) << data_.inputs[slot.index].name;
        const auto c = static_cast<std::size_t>(column);
        for (const BatchView& each : batches) {
          bytes.insert(bytes.end(), each.columns[c].begin(), each.columns[c].end());
        }
        array = {bytes.data(), (*batches[0].signature)[c].dtype, slot.type.shape};
      }
      if (slot.role == HloRole::kRules) array = {rules.data(), DType::kF32, slot.type.shape};
      if (slot.role == HloRole::kDue) array = {follows.data(), DType::kI32, slot.type.shape};
      if (const auto kept = kept_.find({slot.role, slot.index, slot.part, slot.entry}); kept != kept_.end()) {
        arguments.push_back(&kept->second);
      } else {
        arguments.push_back(&inputs.emplace_back(upload(array)));
      }
    }
    auto made = of.program.execute({{arguments}});
    ASSERT_TRUE(made.ok()) << made.error().message;
    for (std::size_t r = 0; r < of.module.results.size(); ++r) {
      const HloSlot& slot = of.module.results[r];
      pjrt::Buffer& buffer = (*made)[0][r];
      if (slot.role == HloRole::kMetrics) {
        metrics = download(buffer, slot.type.shape.elements());
      } else {
        kept_.insert_or_assign({slot.role, slot.index, slot.part, slot.entry}, std::move(buffer));
      }
    }
  }

  /// Every number that is kept, bit for bit.
  std::vector<std::uint32_t> bits() {
    std::vector<std::uint32_t> all;
    for (const auto& [key, buffer] : kept_) {
      if (std::get<0>(key) == HloRole::kOutput) continue;
      for (const float x : download(buffer, static_cast<std::int64_t>(*buffer.bytes() / sizeof(float)))) {
        all.push_back(std::bit_cast<std::uint32_t>(x));
      }
    }
    return all;
  }

  /// All parameters, slots and states are the program's, within `relative` of the largest of each buffer.
  void expect_near(Program& program, float relative) {
    for (std::size_t g = 0; g < program.group_count(); ++g) {
      expect_near(HloRole::kParams, g, 0, program.group(g).layout(), program.group(g).values(), relative);
    }
    for (std::size_t i = 0; i < data_.minimized.size(); ++i) {
      const ParamBuffer& group = program.group(static_cast<std::size_t>(data_.minimized[i].group));
      for (std::size_t part = 0; part < group.slots().size(); ++part) {
        expect_near(HloRole::kSlot, i, part, group.layout(), group.slot(part), relative);
      }
    }
    expect_near(HloRole::kState, 0, 0, program.state().layout(), program.state().values(), relative);
  }

  std::vector<float> metrics;  ///< of the last run's steps, and behind those of each whether it was skipped

 private:
  struct Compiled {
    HloModule module;
    pjrt::LoadedExecutable program;
  };
  const Compiled& compiled(const std::vector<bool>& due, std::size_t steps) {
    const auto found = compiled_.find({due, steps});
    if (found != compiled_.end()) return found->second;
    auto module =
        make_hlo_module(graph_, {.phase = HloPhase::kUpdate, .due = due, .steps = static_cast<std::int64_t>(steps)});
    EXPECT_TRUE(module.ok()) << module.error().message;
    auto program = client_->compile(module->text);
    EXPECT_TRUE(program.ok()) << program.error().message;
    // All that is updated lies where it lay.
    std::int64_t updated = 0;
    for (const HloSlot& slot : module->arguments) updated += slot.lends_to < 0 ? 0 : 4 * slot.type.shape.elements();
    EXPECT_EQ(program->about().memory()->alias, updated);
    return compiled_.emplace(std::pair(due, steps), Compiled{std::move(*module), std::move(*program)}).first->second;
  }
  pjrt::Buffer upload(const pjrt::HostArray& array) {
    auto made = client_->copy_from_host(array);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(made).value();
  }
  static std::vector<float> download(const pjrt::Buffer& buffer, std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    const Status copied = buffer.copy_to(std::span(values));
    EXPECT_TRUE(copied.ok()) << copied.error().message;
    return values;
  }
  void expect_near(HloRole role, std::size_t index, std::size_t part, const ParamLayout& layout,
                   std::span<const float> expected, float relative) {
    float largest = 0;
    for (const float x : expected) largest = std::max(largest, std::abs(x));
    for (std::size_t e = 0; e < layout.entries.size(); ++e) {
      const ParamEntry& entry = layout.entries[e];
      const std::vector<float> got = download(kept_.at({role, index, part, e}), entry.shape.elements());
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], expected[static_cast<std::size_t>(entry.offset) + i], relative * largest)
            << to_string(role) << " " << index << " " << part << ", " << entry.name << ", " << i;
      }
    }
  }
  void keep(HloRole role, std::size_t index, std::size_t part, const ParamLayout& layout,
            std::span<const float> values) {
    for (std::size_t e = 0; e < layout.entries.size(); ++e) {
      const ParamEntry& entry = layout.entries[e];
      kept_.insert_or_assign({role, index, part, e}, upload({values.data() + entry.offset, DType::kF32, entry.shape}));
    }
  }

  std::shared_ptr<const pjrt::Client> client_;
  const Graph& graph_;
  const GraphData& data_;
  std::map<std::tuple<HloRole, std::size_t, std::size_t, std::size_t>, pjrt::Buffer> kept_;
  std::map<std::pair<std::vector<bool>, std::size_t>, Compiled> compiled_;
};

}  // namespace troupe::learner
