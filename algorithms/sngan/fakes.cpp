#include <troupe/algorithms/sngan/fakes.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include <troupe/core/check.hpp>

namespace troupe::learner::sngan {
namespace {

class WithFakes final : public InputPipeline {
 public:
  WithFakes(std::unique_ptr<InputPipeline> real, Fakes& fakes, MoreFakes more)
      : real_(std::move(real)), fakes_(fakes), more_(std::move(more)), signature_(real_->signature()) {
    signature_.insert(signature_.end(), fakes_.columns().begin(), fakes_.columns().end());
  }

  const Signature& signature() const override { return signature_; }
  bool ends() const override { return real_->ends(); }
  std::vector<Scalar> gauges() const override { return real_->gauges(); }

  Result<BatchView> next() override {
    if (!batch_) {
      TROUPE_ASSIGN(batch_, real_->next());
    }
    const std::int64_t rows = batch_->rows;
    while (fakes_.rows() < rows) {
      TROUPE_ASSIGN(const bool came, more_());
      if (!came) {
        return Error{Code::kUnavailable, fmt::format("{} of {} generated images", fakes_.rows(), rows)};
      }
    }
    if (buffer_ == nullptr || rows > buffer_->view().rows) {
      buffer_ = std::make_unique<BatchBuffer>(fakes_.columns(), std::max<std::int64_t>(rows, 1));
    }
    const MutableBatchView& all = buffer_->mutable_view();
    MutableBatchView out{all.signature, rows, {}};
    for (std::size_t c = 0; c < all.columns.size(); ++c) {
      out.columns.push_back(all.columns[c].first(static_cast<std::size_t>(rows) * fakes_.columns()[c].bytes()));
    }
    fakes_.take(out);
    BatchView batch = std::move(*batch_);
    batch_.reset();
    batch.signature = &signature_;
    for (const std::span<std::byte> column : out.columns) batch.columns.push_back(column);
    return batch;
  }

 private:
  const std::unique_ptr<InputPipeline> real_;
  Fakes& fakes_;
  const MoreFakes more_;
  Signature signature_;
  std::unique_ptr<BatchBuffer> buffer_;
  std::optional<BatchView> batch_;  ///< real images that wait for as many fakes
};

}  // namespace

void Fakes::set_newest(std::int64_t version) {
  newest_ = version;
  drop_stale();
}

Status Fakes::add(const BatchView& rows, std::int64_t version, std::shared_ptr<const void> owner) {
  TROUPE_TRY(check_same(*rows.signature, columns_, "generated images"));
  parts_.push_back({rows, version, std::move(owner)});
  rows_ += rows.rows;
  drop_stale();
  return {};
}

std::int64_t Fakes::staleness_of(std::int64_t version) const { return std::max<std::int64_t>(newest_ - version, 0); }

void Fakes::drop_stale() {
  std::erase_if(parts_, [this](const Part& part) {
    if (staleness_of(part.version) <= max_staleness_) return false;
    dropped_ += part.rows.rows - part.first;
    rows_ -= part.rows.rows - part.first;
    return true;
  });
}

void Fakes::take(const MutableBatchView& to) {
  TROUPE_CHECK(to.rows <= rows_, "take {} of {} generated images", to.rows, rows_);
  for (std::int64_t done = 0; done < to.rows;) {
    Part& part = parts_.front();
    const std::int64_t count = std::min(to.rows - done, part.rows.rows - part.first);
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::size_t each = columns_[c].bytes();
      std::memcpy(to.columns[c].data() + static_cast<std::size_t>(done) * each,
                  part.rows.columns[c].data() + static_cast<std::size_t>(part.first) * each,
                  static_cast<std::size_t>(count) * each);
    }
    staleness_.add(staleness_of(part.version), count);
    done += count;
    rows_ -= count;
    part.first += count;
    if (part.first == part.rows.rows) parts_.pop_front();
  }
}

std::unique_ptr<InputPipeline> with_fakes(std::unique_ptr<InputPipeline> real, Fakes& fakes, MoreFakes more) {
  return std::make_unique<WithFakes>(std::move(real), fakes, std::move(more));
}

}  // namespace troupe::learner::sngan
