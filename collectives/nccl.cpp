#include <troupe/collectives/nccl.hpp>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <troupe/collectives/detail/calling_communicator.hpp>
#include <troupe/collectives/detail/nccl_library.hpp>
#include <troupe/collectives/reduce.hpp>
#include <troupe/collectives/verdict.hpp>

namespace troupe::collectives {
namespace {

using detail::NcclLibrary;
using std::chrono::steady_clock;
using SteadyTime = steady_clock::time_point;

constexpr Duration kPoll = std::chrono::microseconds(50);  // of the GPU and of NCCL, by the thread that waits

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kProduct:
      return ncclProd;
    default:
      return ncclSum;
  }
}

/// One call on its way: all ranks agree by `control`, then the stream runs it.
struct NcclCall {
  Call call;
  std::span<const float> in;  // device memory
  std::span<float> out;       // device memory
  SteadyTime made;
  SteadyTime deadline;
  std::array<float, 2> weight{};  // the bits of a double
  std::vector<float> weights;     // of all ranks
  std::unique_ptr<Work> control;  // until all ranks have agreed
  cudaEvent_t done = nullptr;     // recorded behind it
  std::optional<Status> answer;
};

/// One rank's part. Only the owning thread calls it, except abort().
class NcclRank {
 public:
  NcclRank(std::unique_ptr<Communicator> control, std::shared_ptr<const NcclLibrary> library, int device)
      : control_(std::move(control)), library_(std::move(library)), device_(device) {}
  ~NcclRank() {
    leave({Code::kCancelled, "nccl: the communicator is gone"});
    if (stream_) library_->destroy_stream(stream_);
  }

  Communicator& control() { return *control_; }

  void abort(std::string_view reason, std::optional<std::uint64_t> through) {
    control_->abort(reason, through);
    const std::lock_guard lock(mutex_);
    const std::uint64_t epoch = through.value_or(epoch_);
    if (!aborted_ || aborted_->first < epoch) aborted_.emplace(epoch, reason);
  }

  Status reform(const GroupView& view, Duration timeout);
  std::shared_ptr<NcclCall> make(Call call, const CallOptions& options, std::span<const float> in,
                                 std::span<float> out);
  void wait(NcclCall& call);
  bool poll(NcclCall& call) {
    pump();
    if (!call.answer && steady_clock::now() >= call.deadline) fail(late(call));
    return call.answer.has_value();
  }
  void drop(NcclCall& call) {
    if (call.answer) return;
    fail({Code::kCancelled, fmt::format("collective: rank {} dropped {} before it was done", control_->view().rank,
                                        call.call.describe())});
  }

 private:
  Error error_of(ncclResult_t result, std::string_view what) const {
    const Code code = result == ncclRemoteError          ? Code::kCancelled
                      : result == ncclUnhandledCudaError ? Code::kUnavailable
                                                         : Code::kInternal;
    return {code, fmt::format("nccl: rank {} on device {}: {}: {}", control_->view().rank, device_, what,
                              library_->error_string(result))};
  }
  Status check(ncclResult_t result, std::string_view what) const {
    if (result == ncclSuccess || result == ncclInProgress) return {};
    return error_of(result, what);
  }
  Status check(cudaError_t error, std::string_view what) const {
    if (error == cudaSuccess) return {};
    return Error{Code::kInternal, fmt::format("nccl: rank {} on device {}: {}: {}", control_->view().rank, device_,
                                              what, library_->cuda_error_string(error))};
  }
  std::optional<Error> aborted() const {
    const std::lock_guard lock(mutex_);
    if (!aborted_ || epoch_ > aborted_->first) return std::nullopt;
    return Error{Code::kCancelled,
                 fmt::format("collective: rank {} aborted: {}", control_->view().rank, aborted_->second)};
  }
  /// Until what was begun on the communicator is no longer in progress.
  Status settle(std::string_view what, SteadyTime deadline) const;
  Status connect(SteadyTime deadline);
  Status launch(NcclCall& call);
  void pump();
  void fail(const Error& error);
  void leave(const Error& error);
  Error late(const NcclCall& call) const {
    return {Code::kDeadlineExceeded,
            fmt::format("collective: {} is not done on device {} after {:.1f} s", activity_of(call.call), device_,
                        seconds(steady_clock::now() - call.made))};
  }

  const std::unique_ptr<Communicator> control_;
  const std::shared_ptr<const NcclLibrary> library_;
  const int device_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
  std::deque<std::shared_ptr<NcclCall>> calls_;  // without an answer, in their order
  std::optional<Error> failure_;

  mutable std::mutex mutex_;  // of what abort() writes
  std::uint64_t epoch_ = 0;
  std::optional<std::pair<std::uint64_t, std::string>> aborted_;  // through which epoch, and why
};

Status NcclRank::settle(std::string_view what, SteadyTime deadline) const {
  for (;;) {
    ncclResult_t state = ncclSuccess;
    TROUPE_TRY(check(library_->async_error(comm_, &state), what));
    if (state == ncclSuccess) return {};
    TROUPE_TRY(check(state, what));
    if (const auto error = aborted()) return *error;
    if (steady_clock::now() >= deadline) {
      return Error{Code::kDeadlineExceeded, fmt::format("nccl: rank {} on device {}: {} is not over by its deadline",
                                                        control_->view().rank, device_, what)};
    }
    std::this_thread::sleep_for(kPoll);
  }
}

Status NcclRank::reform(const GroupView& view, Duration timeout) {
  const SteadyTime deadline = steady_clock::now() + timeout;
  const std::uint64_t before = control_->view().epoch;
  const Status formed = control_->reform(view, timeout);
  if (!formed.ok() && control_->view().epoch == before) return formed;  // nothing changed
  leave({Code::kCancelled, fmt::format("collective: rank {} has left epoch {}", view.rank, before)});
  {
    const std::lock_guard lock(mutex_);
    epoch_ = view.epoch;
  }
  failure_.reset();
  if (!formed.ok()) {
    failure_ = formed.error();
    return formed;
  }
  const Status connected = connect(deadline);
  if (!connected.ok()) fail(connected.error());
  return connected;
}

Status NcclRank::connect(SteadyTime deadline) {
  const GroupView& view = control_->view();
  const Duration left = std::max<Duration>(deadline - steady_clock::now(), std::chrono::milliseconds(1));
  ncclUniqueId id{};
  static_assert(sizeof(id) % sizeof(float) == 0);
  if (view.rank == 0) TROUPE_TRY(check(library_->get_unique_id(&id), "ncclGetUniqueId"));
  std::array<float, sizeof(id) / sizeof(float)> bits{};
  std::memcpy(bits.data(), &id, sizeof(id));
  TROUPE_TRY(control_->broadcast(bits, 0, {.name = "nccl id", .timeout = left})->wait());
  std::memcpy(&id, bits.data(), sizeof(id));

  const cudaError_t chosen = library_->set_device(device_);  // without a driver, NCCL refuses below
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const std::string name = fmt::format("troupe epoch {}", view.epoch);
  config.commName = name.c_str();
  Status made = check(library_->init_rank(&comm_, view.size, id, view.rank, &config), "ncclCommInitRankConfig");
  if (made.ok()) made = settle("ncclCommInitRankConfig", deadline);
  if (!made.ok() && chosen != cudaSuccess) {
    return Error{made.error().code,
                 fmt::format("{} (cudaSetDevice: {})", made.error().message, library_->cuda_error_string(chosen))};
  }
  TROUPE_TRY(made);
  TROUPE_TRY(check(chosen, "cudaSetDevice"));
  if (!stream_) TROUPE_TRY(check(library_->create_stream(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"));
  return {};
}

void NcclRank::leave(const Error& error) {
  for (const auto& call : calls_) call->answer = failure_.value_or(error);
  for (const auto& call : calls_) {
    if (call->done) library_->destroy_event(call->done);
    call->done = nullptr;
    call->control.reset();
  }
  calls_.clear();
  if (!comm_) return;
  // NCCL's order for a communicator that may be broken: revoke, which ends what is under way, then abort.
  if (library_->revoke && library_->revoke(comm_, NCCL_REVOKE_DEFAULT) == ncclInProgress) {
    (void)settle("ncclCommRevoke", steady_clock::now() + std::chrono::milliseconds(200));
  }
  (void)library_->abort(comm_);  // frees it; whatever it says, there is nothing left to do
  comm_ = nullptr;
}

void NcclRank::fail(const Error& error) {
  if (!failure_) failure_ = error;
  control_->abort(failure_->message);
  leave(*failure_);
}

std::shared_ptr<NcclCall> NcclRank::make(Call call, const CallOptions& options, std::span<const float> in,
                                         std::span<float> out) {
  auto made = std::make_shared<NcclCall>();
  made->call = std::move(call);
  const GroupView& view = control_->view();
  if (view.size == 0) {
    made->answer = no_group_yet(made->call);
    return made;
  }
  Status good = check_arguments(made->call, options, view, in.size(), out.size());
  if (good.ok() && made->call.wire != DType::kF32) {
    good = Error{Code::kInvalidArgument,
                 fmt::format("collective: rank {} calls {}: NCCL carries float32", view.rank, made->call.describe())};
  }
  if (!good.ok() && !failure_) fail(good.error());
  if (failure_) {
    made->answer = *failure_;
    return made;
  }
  if (calls_.size() == Communicator::kMaxPending) {
    made->answer =
        Error{Code::kUnavailable, fmt::format("collective: rank {} has {} unfinished calls already, and calls {}",
                                              view.rank, calls_.size(), made->call.describe())};
    return made;
  }
  made->in = in;
  made->out = out;
  made->made = steady_clock::now();
  made->deadline = made->made + options.timeout;
  std::memcpy(made->weight.data(), &options.weight, sizeof(options.weight));
  made->weights.resize(2 * static_cast<std::size_t>(view.size));
  // The name says all that must agree; what is gathered are the weights.
  made->control =
      control_->all_gather(made->weight, made->weights, {.name = made->call.describe(), .timeout = options.timeout});
  calls_.push_back(made);
  return made;
}

Status NcclRank::launch(NcclCall& call) {
  const Call& what = call.call;
  const std::size_t count = what.count;
  ncclRedOp_t op = nccl_op(what.op);
  const bool mean =
      what.op == ReduceOp::kMean && (what.kind == CallKind::kAllReduce || what.kind == CallKind::kReduceScatter);
  if (mean) {
    std::vector<double> weights(call.weights.size() / 2);
    std::memcpy(weights.data(), call.weights.data(), weights.size() * sizeof(double));
    double total = 0;
    for (const double weight : weights) total += weight;
    if (total == 0) {
      return Error{Code::kInvalidArgument,
                   fmt::format("collective: {}: the weights of all {} ranks are 0", what.describe(), weights.size())};
    }
    float share = mean_shares(weights)[static_cast<std::size_t>(control_->view().rank)];
    if (share == 0 && what.kind == CallKind::kAllReduce) {  // its values are unread, and 0 times NaN is NaN
      TROUPE_TRY(check(library_->set_memory(call.out.data(), 0, call.out.size_bytes(), stream_), "cudaMemsetAsync"));
    }
    TROUPE_TRY(check(library_->create_scaled_sum(&op, &share, ncclFloat, ncclScalarHostImmediate, comm_),
                     "ncclRedOpCreatePreMulSum"));
  }
  ncclResult_t begun = ncclSuccess;
  switch (what.kind) {
    case CallKind::kAllReduce:
      begun = library_->all_reduce(call.in.data(), call.out.data(), count, ncclFloat, op, comm_, stream_);
      break;
    case CallKind::kAllGather:
      begun = library_->all_gather(call.in.data(), call.out.data(), count, ncclFloat, comm_, stream_);
      break;
    case CallKind::kReduceScatter:
      begun = library_->reduce_scatter(call.in.data(), call.out.data(), count, ncclFloat, op, comm_, stream_);
      break;
    case CallKind::kBroadcast:
      begun = library_->broadcast(call.in.data(), call.out.data(), count, ncclFloat, what.root, comm_, stream_);
      break;
    case CallKind::kBarrier:  // all ranks have agreed that they came
      return {};
  }
  TROUPE_TRY(check(begun, activity_of(what)));
  TROUPE_TRY(settle(activity_of(what), call.deadline));
  if (mean) TROUPE_TRY(check(library_->destroy_op(op, comm_), "ncclRedOpDestroy"));
  TROUPE_TRY(check(library_->create_event(&call.done, cudaEventDisableTiming), "cudaEventCreate"));
  return check(library_->record_event(call.done, stream_), "cudaEventRecord");
}

void NcclRank::pump() {
  if (calls_.empty()) return;
  if (const auto error = aborted()) return fail(*error);
  ncclResult_t state = ncclSuccess;
  if (const Status polled = check(library_->async_error(comm_, &state), "polling"); !polled.ok())
    return fail(polled.error());
  if (const Status healthy = check(state, "a collective"); !healthy.ok()) return fail(healthy.error());
  for (const auto& call : calls_) {
    if (!call->control) continue;  // launched
    if (!call->control->done()) break;
    const Status agreed = call->control->wait();
    call->control.reset();
    if (!agreed.ok()) return fail(agreed.error());
    if (const Status launched = launch(*call); !launched.ok()) return fail(launched.error());
  }
  while (!calls_.empty() && !calls_.front()->control) {
    NcclCall& front = *calls_.front();
    if (front.done) {
      const cudaError_t error = library_->query_event(front.done);
      if (error == cudaErrorNotReady) return;
      if (const Status ran = check(error, activity_of(front.call)); !ran.ok()) return fail(ran.error());
      library_->destroy_event(front.done);
      front.done = nullptr;
    }
    front.answer = Status{};
    calls_.pop_front();
  }
}

void NcclRank::wait(NcclCall& call) {
  while (!poll(call)) {
    // While ranks have not agreed, control sleeps, and knows whom it waits for.
    if (const auto& front = calls_.front(); front->control) {
      (void)front->control->wait();
    } else {
      std::this_thread::sleep_for(kPoll);
    }
  }
}

class NcclWork final : public Work {
 public:
  NcclWork(std::shared_ptr<NcclRank> rank, std::shared_ptr<NcclCall> call)
      : rank_(std::move(rank)), call_(std::move(call)) {}
  ~NcclWork() override { rank_->drop(*call_); }
  bool done() override { return call_->answer || rank_->poll(*call_); }
  Status wait() override {
    if (!call_->answer) rank_->wait(*call_);
    return *call_->answer;
  }

 private:
  std::shared_ptr<NcclRank> rank_;
  std::shared_ptr<NcclCall> call_;
};

class NcclCommunicator final : public detail::CallingCommunicator {
 public:
  explicit NcclCommunicator(std::shared_ptr<NcclRank> rank) : rank_(std::move(rank)) {}

  const GroupView& view() const override { return rank_->control().view(); }
  Activity& activity() override { return rank_->control().activity(); }
  void abort(std::string_view reason, std::optional<std::uint64_t> through) override { rank_->abort(reason, through); }
  Status reform(const GroupView& view, Duration timeout) override { return rank_->reform(view, timeout); }

 private:
  std::unique_ptr<Work> call(Call call, const CallOptions& options, std::span<const float> in,
                             std::span<float> out) override {
    return std::make_unique<NcclWork>(rank_, rank_->make(std::move(call), options, in, out));
  }

  std::shared_ptr<NcclRank> rank_;  // shared with works that outlive this
};

}  // namespace

Result<std::unique_ptr<Communicator>> make_nccl_communicator(std::unique_ptr<Communicator> control,
                                                             NcclOptions options) {
  TROUPE_ASSIGN(std::shared_ptr<const NcclLibrary> library, NcclLibrary::open(options.library));
  auto rank = std::make_shared<NcclRank>(std::move(control), std::move(library), options.device);
  return std::unique_ptr<Communicator>(std::make_unique<NcclCommunicator>(std::move(rank)));
}

}  // namespace troupe::collectives
