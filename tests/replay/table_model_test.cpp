// Tables of every kind, sampler, remover and max_times_sampled against a plain model, under random operations. Where
// chance decides what leaves, the model asks the table which key is gone and checks that it may have been that one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <troupe/tests/replay/tables_under_test.hpp>

namespace troupe::replay {
namespace {

struct ModelItem {
  std::int64_t id = 0;
  double priority = 0;
  std::int32_t times_sampled = 0;
  std::int64_t changed = 0;  // when its priority was set
};
using Model = std::map<Key, ModelItem>;  // in order of age

constexpr double kExponent = 0.7;
constexpr std::int64_t kCapacity = 13;

double weight(double priority) { return priority == 0 ? 0 : std::pow(priority, kExponent); }

/// With which `kind` chooses `key` from the model; 0 if it never does.
double probability(const Model& model, Key key, SelectorKind kind) {
  switch (kind) {
    case SelectorKind::kFifo:
      return model.begin()->first == key ? 1 : 0;
    case SelectorKind::kLifo:
      return model.rbegin()->first == key ? 1 : 0;
    case SelectorKind::kMaxHeap:
    case SelectorKind::kMinHeap: {
      const double sign = kind == SelectorKind::kMinHeap ? 1 : -1;
      const auto top = std::ranges::min_element(
          model, {}, [&](const auto& each) { return std::pair(sign * each.second.priority, each.second.changed); });
      return top->first == key ? 1 : 0;
    }
    case SelectorKind::kUniform:
      return 1.0 / static_cast<double>(model.size());
    case SelectorKind::kPrioritized: {
      double sum = 0;
      for (const auto& [k, item] : model) sum += weight(item.priority);
      return sum == 0 ? 1.0 / static_cast<double>(model.size()) : weight(model.at(key).priority) / sum;
    }
  }
  return 0;
}

/// Keys of the model that the table no longer knows; setting a priority to what it is changes nothing else than that.
std::vector<Key> missing(Table& table, Model& model, std::int64_t& changes) {
  std::vector<Key> gone;
  for (auto& [key, item] : model) {
    item.changed = changes++;
    if (*table.update_priorities({&key, 1}, {&item.priority, 1}) == 1) gone.push_back(key);
  }
  return gone;
}

class TableModel : public testing::TestWithParam<std::tuple<Where, SelectorKind, SelectorKind, int>> {
 protected:
  const SelectorKind sampler_ = std::get<1>(GetParam());
  const SelectorKind remover_ = std::get<2>(GetParam());
  const int max_times_ = std::get<3>(GetParam());
  Rng rng_{11};
  Model model_;
  Key next_ = 0, first_ = 0;  // of the inserts since the last reset
  std::int64_t changes_ = 0;
  std::unique_ptr<Table> table_ =
      make_table(std::get<0>(GetParam()), {.max_items = kCapacity,
                                           .sampler = {.kind = sampler_, .priority_exponent = kExponent},
                                           .remover = {.kind = remover_, .priority_exponent = kExponent},
                                           .max_times_sampled = max_times_,
                                           .seed = 3});

  void insert() {
    const double priority = static_cast<double>(rng_.below(4));
    const auto key = insert_one(*table_, static_cast<std::int64_t>(next_ * 7 % 1000), priority);
    ASSERT_TRUE(key.ok());
    ASSERT_EQ(*key, next_);
    model_[next_] = {static_cast<std::int64_t>(next_ * 7 % 1000), priority, 0, changes_++};
    ++next_;
    if (model_.size() > kCapacity) {
      const Model before = model_;
      const std::vector<Key> gone = missing(*table_, model_, changes_);
      ASSERT_EQ(gone.size(), 1u);
      ASSERT_GT(probability(before, gone[0], remover_), 0) << "evicted key " << gone[0];
      model_.erase(gone[0]);
    }
  }

  void draw() {
    const auto rows = static_cast<std::int64_t>(1 + rng_.below(4));
    if (table_->sampleable(rows) < rows) {
      ASSERT_FALSE(table_->sample_blocker(rows).empty());
      ASSERT_FALSE(sample(*table_, rows).ok());
      return;
    }
    const auto drawn = sample(*table_, rows);
    ASSERT_TRUE(drawn.ok()) << drawn.error().message;
    for (const auto& [id, item] : *drawn) {
      ASSERT_TRUE(model_.contains(item.key)) << "drew the absent key " << item.key;
      ModelItem& expected = model_.at(item.key);
      ASSERT_EQ(id, expected.id);
      ASSERT_EQ(item.priority, expected.priority);
      ASSERT_EQ(item.times_sampled, ++expected.times_sampled);
      ASSERT_EQ(item.table_items, static_cast<std::int64_t>(model_.size()));
      ASSERT_NEAR(item.probability, probability(model_, item.key, sampler_), 1e-12);  // rounding of a sum
      ASSERT_GT(item.probability, 0);
      if (expected.times_sampled == max_times_) model_.erase(item.key);
    }
  }

  /// Of an item that is there, has left, or is yet to come.
  Key recent_key() { return next_ < 30 ? rng_.below(next_ + 2) : next_ - 30 + rng_.below(32); }

  void update() {
    std::vector<Key> keys(3);
    std::vector<double> priorities(3);
    std::int64_t unknown = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = recent_key();
      priorities[i] = static_cast<double>(rng_.below(4));
      const auto found = model_.find(keys[i]);
      unknown += found == model_.end();
      if (found == model_.end()) continue;
      found->second.priority = priorities[i];
      found->second.changed = changes_++;
    }
    ASSERT_EQ(*table_->update_priorities(keys, priorities), unknown);
  }

  void erase() {
    std::vector<Key> keys(1 + rng_.below(3));
    std::int64_t unknown = 0;
    for (Key& key : keys) {
      key = recent_key();
      unknown += static_cast<std::int64_t>(1 - model_.erase(key));
    }
    ASSERT_EQ(*table_->erase(keys), unknown);
  }

  void reset() {
    ASSERT_TRUE(table_->reset().ok());
    model_.clear();
    first_ = next_;
    ASSERT_EQ(table_->info().samples, 0);
  }
};

TEST_P(TableModel, AgreesUnderRandomOperations) {
  for (int step = 0; step < 3000 && !HasFatalFailure(); ++step) {
    const std::uint64_t choice = rng_.below(std::get<0>(GetParam()) == Where::kHost ? 210 : 200);
    choice < 100 ? insert() : choice < 160 ? draw() : choice < 200 ? update() : choice < 209 ? erase() : reset();
    ASSERT_EQ(table_->info().items, static_cast<std::int64_t>(model_.size()));
    ASSERT_EQ(table_->info().inserts, static_cast<std::int64_t>(next_ - first_));
    ASSERT_EQ(table_->info().evictions, static_cast<std::int64_t>(next_ - first_ - model_.size()));
    if (step % 500 == 0) {  // and it is a table's business to survive being saved at any moment
      const auto image = table_->save();
      ASSERT_TRUE(table_->restore(image).ok());
      ASSERT_EQ(table_->save(), image);
      for (auto& [key, item] : model_) item.changed = changes_++;  // what heaps forget
    }
  }
  ASSERT_TRUE(missing(*table_, model_, changes_).empty());
}

std::string name(const testing::TestParamInfo<TableModel::ParamType>& info) {
  const auto [where, sampler, remover, times] = info.param;
  return to_string(where) + "_" + std::string(to_string(sampler)) + "_out_" + std::string(to_string(remover)) +
         "_times_" + std::to_string(times);
}
INSTANTIATE_TEST_SUITE_P(Host, TableModel,
                         testing::Combine(testing::Values(Where::kHost), testing::ValuesIn(kSelectorKinds),
                                          testing::ValuesIn(kSelectorKinds), testing::Values(0, 1, 3)),
                         name);
INSTANTIATE_TEST_SUITE_P(Gpu, TableModel,
                         testing::Combine(testing::Values(Where::kGpu),
                                          testing::Values(SelectorKind::kUniform, SelectorKind::kPrioritized,
                                                          SelectorKind::kFifo, SelectorKind::kLifo),
                                          testing::Values(SelectorKind::kFifo), testing::Values(0)),
                         name);

}  // namespace
}  // namespace troupe::replay
