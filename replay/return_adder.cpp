#include <troupe/replay/return_adder.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <troupe/replay/bytes.hpp>
#include <troupe/replay/detail/signature_bytes.hpp>

namespace troupe::replay {
namespace {

constexpr std::uint64_t kReturnMagic = 0x314e525455524e54;  // "TNRUTRN1"
constexpr const char* kReturnColumn = "return";

class ReturnAdder final : public Adder {
 public:
  ReturnAdder(std::unique_ptr<Adder> items, double discount)
      : items_(std::move(items)), discount_(discount), signature_(items_->signature()) {
    signature_.push_back({kReturnColumn, DType::kF32, Shape{}});
  }

  const Signature& signature() const override { return signature_; }
  std::int64_t most_rows() const override { return items_->most_rows(); }
  Status first(std::span<const std::byte> observation) override { return items_->first(observation); }
  std::int64_t rows_of_next(bool last) const override { return items_->rows_of_next(last); }
  std::int64_t unfinished() const override { return items_->unfinished(); }

  Result<std::int64_t> add(const AdderStep& step, const MutableBatchView& out, std::int64_t row) override {
    TROUPE_TRY(check_same(*out.signature, signature_, "return adder"));
    of_items_.signature = &items_->signature();
    of_items_.rows = out.rows;
    of_items_.columns.assign(out.columns.begin(), out.columns.end() - 1);
    TROUPE_ASSIGN(const std::int64_t rows, items_->add(step, of_items_, row));
    return_ = (step.last ? 0 : discount_ * return_) + step.reward;
    const auto column = out.as<float>(signature_.size() - 1);
    for (std::int64_t i = row; i < row + rows; ++i) column[static_cast<std::size_t>(i)] = static_cast<float>(return_);
    return rows;
  }

  std::vector<std::byte> save_state() const override {
    const std::vector<std::byte> of_items = items_->save_state();
    ByteWriter out;
    out.reserve(of_items.size() + 64);
    out.put(kReturnMagic);
    out.put(discount_);
    out.put(return_);
    out.put_bytes(of_items);
    return out.take();
  }

  Status restore_state(std::span<const std::byte> state) override {
    ByteReader in(state);
    if (in.get<std::uint64_t>() != kReturnMagic) return Error{Code::kCorrupt, "return adder: state of something else"};
    const auto discount = in.get<double>(), value = in.get<double>();
    constexpr std::size_t kOwn = sizeof(kReturnMagic) + 2 * sizeof(double);
    if (state.size() < kOwn || !std::isfinite(value)) {
      return Error{Code::kCorrupt, "return adder: state is cut short or impossible"};
    }
    if (discount != discount_) {
      return Error{Code::kShapeMismatch,
                   fmt::format("return adder: state of discount {}, expected {}", discount, discount_)};
    }
    TROUPE_TRY(items_->restore_state(state.subspan(kOwn)));
    return_ = value;
    return {};
  }

 private:
  std::unique_ptr<Adder> items_;
  double discount_;
  Signature signature_;
  MutableBatchView of_items_;  // a member, so that it allocates once
  double return_ = 0;
};

}  // namespace

MakeAdder with_return(MakeAdder items, double discount) {
  return [items = std::move(items), discount](const Signature& observation,
                                              const Signature& acted) -> Result<std::unique_ptr<Adder>> {
    TROUPE_ASSIGN(auto made, items(observation, acted));
    if (std::ranges::count(made->signature(), kReturnColumn, &TensorSpec::name) > 0) {
      return Error{Code::kInvalidArgument, fmt::format("return adder: items have a column {} already", kReturnColumn)};
    }
    return {std::make_unique<ReturnAdder>(std::move(made), discount)};
  };
}

}  // namespace troupe::replay
