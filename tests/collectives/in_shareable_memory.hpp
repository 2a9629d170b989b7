#pragma once
// A communicator whose values lie in shareable memory, though its callers keep theirs elsewhere: they are brought there
// for each all-reduce and broadcast, and back at its end. For suites that know only plain memory.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <troupe/collectives/communicator.hpp>
#include <troupe/collectives/shareable_memory.hpp>

namespace troupe::collectives {

class InShareableMemory final : public Communicator {
 public:
  explicit InShareableMemory(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  const GroupView& view() const override { return inner_->view(); }
  Activity& activity() override { return inner_->activity(); }
  std::unique_ptr<Work> all_reduce(std::span<float> values, ReduceOp op, CallOptions options) override {
    return bring(values, [&](std::span<float> there) { return inner_->all_reduce(there, op, std::move(options)); });
  }
  std::unique_ptr<Work> broadcast(std::span<float> values, int root, CallOptions options) override {
    return bring(values, [&](std::span<float> there) { return inner_->broadcast(there, root, std::move(options)); });
  }
  std::unique_ptr<Work> all_gather(std::span<const float> in, std::span<float> out, CallOptions options) override {
    return inner_->all_gather(in, out, std::move(options));
  }
  std::unique_ptr<Work> reduce_scatter(std::span<const float> in, std::span<float> out, ReduceOp op,
                                       CallOptions options) override {
    return inner_->reduce_scatter(in, out, op, std::move(options));
  }
  std::unique_ptr<Work> barrier(CallOptions options) override { return inner_->barrier(std::move(options)); }
  void abort(std::string_view reason, std::optional<std::uint64_t> through) override { inner_->abort(reason, through); }
  std::optional<Error> failure() const override { return inner_->failure(); }
  Status reform(const GroupView& view, Duration timeout) override { return inner_->reform(view, timeout); }

 private:
  /// Lent to one call at a time, so that the next one finds a block that the others know.
  struct Place {
    ShareableArray memory;
    std::size_t bytes = 0;
    bool is_lent = false;
  };

  class Brought final : public Work {
   public:
    Brought(std::unique_ptr<Work> work, std::span<float> home, Place& place)
        : work_(std::move(work)), home_(home), place_(place) {}
    ~Brought() override {
      work_.reset();
      place_.is_lent = false;
    }
    bool done() override { return work_->done(); }
    Status wait() override {
      Status status = work_->wait();
      std::copy_n(reinterpret_cast<const float*>(place_.memory.get()), home_.size(), home_.begin());
      return status;
    }

   private:
    std::unique_ptr<Work> work_;
    const std::span<float> home_;
    Place& place_;
  };

  template <typename Call>
  std::unique_ptr<Work> bring(std::span<float> values, const Call& call) {
    auto place = std::ranges::find_if(
        places_, [&](const Place& one) { return !one.is_lent && one.bytes >= values.size_bytes(); });
    if (place == places_.end()) {
      places_.push_back({.memory = make_shareable(values.size_bytes()), .bytes = values.size_bytes()});
      place = std::prev(places_.end());
    }
    place->is_lent = true;
    const std::span there(reinterpret_cast<float*>(place->memory.get()), values.size());
    std::ranges::copy(values, there.begin());
    return std::make_unique<Brought>(call(there), values, *place);
  }

  std::list<Place> places_;  // the inner communicator's calls end before they do
  const std::unique_ptr<Communicator> inner_;
};

}  // namespace troupe::collectives
