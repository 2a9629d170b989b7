#include <troupe/collectives/nccl.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <troupe/collectives/detail/calling_communicator.hpp>
#include <troupe/collectives/detail/nccl_library.hpp>
#include <troupe/collectives/detail/nccl_network.hpp>
#include <troupe/collectives/reduce.hpp>
#include <troupe/collectives/verdict.hpp>
#include <troupe/core/log.hpp>

namespace troupe::collectives {
namespace {

using detail::NcclLibrary;
using std::chrono::steady_clock;
using SteadyTime = steady_clock::time_point;

constexpr Duration kPoll = std::chrono::microseconds(50);       // of the GPU and of NCCL, by the thread that waits
constexpr Duration kGrace = std::chrono::milliseconds(50);      // for a call that those who left have finished
constexpr Duration kRollCall = std::chrono::milliseconds(100);  // control may take 0.5 s more to know who is silent
constexpr Duration kRevoke = std::chrono::milliseconds(200);    // then it is aborted instead
constexpr Duration kEnd = std::chrono::seconds(1);              // of what was ended, on the device
constexpr const char* kInit = "ncclCommInitRankConfig";

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

/// One call on its way: all ranks agree by `control`, NCCL launches it, then the stream runs it.
struct NcclCall {
  enum class Stage : std::uint8_t { kAgreeing, kLaunching, kRunning };

  Call call;
  std::span<const float> in;  // device memory
  std::span<float> out;       // device memory
  SteadyTime made;
  SteadyTime deadline;
  Stage stage = Stage::kAgreeing;
  std::array<float, 2> weight{};  // the bits of a double; not a number: the arguments cannot work
  std::vector<float> weights;     // of all ranks
  std::optional<Error> invalid;   // what is wrong with this rank's arguments
  std::unique_ptr<Work> control;  // while the ranks agree
  std::optional<ncclRedOp_t> op;  // of its own, until NCCL has launched it
  cudaEvent_t done = nullptr;     // recorded behind it
  std::unique_ptr<Work> roll_call;
  std::optional<Status> answer;
};

/// One rank's part. Only the owning thread calls it, except abort().
class NcclRank {
 public:
  NcclRank(std::shared_ptr<Communicator> control, std::shared_ptr<const NcclLibrary> library, NcclOptions options)
      : control_(std::move(control)),
        library_(std::move(library)),
        device_(options.device),
        options_(std::move(options)) {}
  ~NcclRank() {
    (void)library_->set_device(device_);  // the owner may end it on another thread, after all calls
    if (ready_ && calls_.empty() && !failure_ && !aborted()) part();
    end({Code::kCancelled, "nccl: the communicator is gone"});
    free();
    if (stream_) library_->destroy_stream(stream_);
  }

  Communicator& control() { return *control_; }
  int device() const { return connected_ && control_->view().epoch == epoch_ ? device_ : -1; }

  void abort(std::string_view reason, std::optional<std::uint64_t> through) {
    control_->abort(reason, through);
    const std::lock_guard lock(mutex_);
    const std::uint64_t epoch = through.value_or(epoch_);
    if (!aborted_ || aborted_->first < epoch) aborted_.emplace(epoch, reason);
  }
  std::optional<Error> failure() const { return failure_ ? failure_ : control_->failure(); }

  Status reform(const GroupView& view, Duration timeout);
  std::shared_ptr<NcclCall> make(Call call, const CallOptions& options, std::span<const float> in,
                                 std::span<float> out);
  void wait(NcclCall& call);
  bool poll(NcclCall& call);
  void drop(NcclCall& call) {
    if (call.answer) return;
    fail({Code::kCancelled, fmt::format("collective: rank {} dropped {} before it was done", control_->view().rank,
                                        call.call.describe())});
  }

 private:
  Status check(ncclResult_t result, std::string_view what) const;
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

  Status connect(SteadyTime deadline);
  Status await_init(SteadyTime deadline);

  /// Lets calls go on as far as they can without waiting. Returns what breaks the group.
  Status advance();
  Status begin_calls();
  Status agreed(NcclCall& call) const;
  Status launch(NcclCall& call);
  Status launched(NcclCall& call);
  Status finish_calls();

  /// Which ranks still answer, where this one's device does not come to an end.
  std::unique_ptr<Work> call_the_roll() const { return control_->barrier({.name = "roll call", .timeout = kRollCall}); }
  Error late(std::string_view what, SteadyTime since, const Status& roll) const;

  void fail(const Error& error);
  /// All calls have this error, and nothing runs on the device any more. A communicator that could be revoked is left
  /// for free().
  void end(const Error& error);
  bool is_quiet_within(Duration limit) const;
  bool is_idle_within(Duration limit) const;
  /// The orderly way, of a rank that has nothing under way.
  void part();
  void free() {
    if (comm_) (void)library_->abort(comm_);  // frees it; whatever it says, there is nothing left to do
    comm_ = nullptr;
    ready_ = false;
    revoked_ = false;
  }

  const std::shared_ptr<Communicator> control_;
  const std::shared_ptr<const NcclLibrary> library_;
  const int device_;
  const NcclOptions options_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
  bool ready_ = false;      // its init has succeeded
  bool connected_ = false;  // the group of epoch_ has formed, whatever became of it
  bool revoked_ = false;
  std::deque<std::shared_ptr<NcclCall>> calls_;  // without an answer, in their order
  std::optional<Error> failure_;
  std::optional<Error> stuck_;                          // why no other call can begin
  std::optional<std::pair<Error, SteadyTime>> broken_;  // while this device runs: by whom, and since when it is known

  mutable std::mutex mutex_;  // of what abort() writes
  std::uint64_t epoch_ = 0;
  std::optional<std::pair<std::uint64_t, std::string>> aborted_;  // through which epoch, and why
};

Status NcclRank::check(ncclResult_t result, std::string_view what) const {
  if (result == ncclSuccess || result == ncclInProgress) return {};
  const Code code = result == ncclRemoteError          ? Code::kCancelled
                    : result == ncclUnhandledCudaError ? Code::kUnavailable
                                                       : Code::kInternal;
  const char* said = library_->last_error(comm_);  // of this process's latest trouble, which is this or its cause
  return Error{code, fmt::format("nccl: rank {} on device {}: {}: {}{}{}", control_->view().rank, device_, what,
                                 library_->error_string(result), said && *said ? ": " : "", said ? said : "")};
}

Status NcclRank::reform(const GroupView& view, Duration timeout) {
  const SteadyTime deadline = steady_clock::now() + timeout;
  TROUPE_TRY(detail::check_hosts(view, options_.interface));
  const std::uint64_t before = control_->view().epoch;
  const bool is_there = control_->view().size > 0 && before == view.epoch && view.epoch > epoch_;
  const Status formed = is_there ? Status{} : control_->reform(view, timeout);
  if (!formed.ok() && control_->view().epoch == before) return formed;  // nothing changed
  end({Code::kCancelled, fmt::format("collective: rank {} has left epoch {}", view.rank, epoch_)});
  free();
  connected_ = false;
  {
    const std::lock_guard lock(mutex_);
    epoch_ = view.epoch;
  }
  failure_.reset();
  stuck_.reset();
  broken_.reset();
  if (!formed.ok()) {
    failure_ = formed.error();
    return formed;
  }
  const std::string activity = control_->activity().now().what;
  const Status connected = connect(deadline);
  control_->activity().enter(activity);
  if (!connected.ok()) fail(connected.error());
  connected_ = connected.ok();
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

  control_->activity().enter(kInit);
  const cudaError_t chosen = library_->set_device(device_);  // without a driver, NCCL refuses below
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const std::string name = fmt::format("troupe epoch {}", view.epoch);
  config.commName = name.c_str();
  Status made = check(library_->init_rank(&comm_, view.size, id, view.rank, &config), kInit);
  if (made.ok()) made = await_init(deadline);
  if (!made.ok() && chosen != cudaSuccess) {
    return Error{made.error().code,
                 fmt::format("{} (cudaSetDevice: {})", made.error().message, library_->cuda_error_string(chosen))};
  }
  TROUPE_TRY(made);
  ready_ = true;
  TROUPE_TRY(check(chosen, "cudaSetDevice"));
  if (!stream_) TROUPE_TRY(check(library_->create_stream(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"));
  return {};
}

Status NcclRank::await_init(SteadyTime deadline) {
  const SteadyTime since = steady_clock::now();
  for (;;) {
    ncclResult_t state = ncclSuccess;
    TROUPE_TRY(check(library_->async_error(comm_, &state), kInit));
    if (state == ncclSuccess) return {};
    TROUPE_TRY(check(state, kInit));
    if (const auto error = aborted()) return *error;
    const SteadyTime now = steady_clock::now();
    if (const auto error = control_->failure(); error && !broken_) broken_.emplace(*error, now);
    if (broken_ && now >= broken_->second + kGrace) return broken_->first;
    if (now >= deadline) return late(kInit, since, call_the_roll()->wait());
    std::this_thread::sleep_for(kPoll);
  }
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
  Status good = check_arguments(made->call, options, view, in.size(), out.size());
  if (good.ok() && made->call.wire != DType::kF32) {
    good = Error{Code::kInvalidArgument,
                 fmt::format("collective: rank {} calls {}: NCCL carries float32", view.rank, made->call.describe())};
  }
  // The others are to hear of it, so it is agreed on all the same.
  if (!good.ok()) made->invalid = good.error();
  const double weight = good.ok() ? options.weight : std::numeric_limits<double>::quiet_NaN();
  made->in = in;
  made->out = out;
  made->made = steady_clock::now();
  made->deadline = made->made + options.timeout;
  std::memcpy(made->weight.data(), &weight, sizeof(weight));
  made->weights.resize(2 * static_cast<std::size_t>(view.size));
  // The name says all that must agree; what is gathered are the weights.
  made->control =
      control_->all_gather(made->weight, made->weights, {.name = in_place_of(made->call), .timeout = options.timeout});
  calls_.push_back(made);
  return made;
}

Status NcclRank::agreed(NcclCall& call) const {
  const Status status = call.control->wait();
  if (call.invalid && (status.ok() || status.error().code != Code::kShapeMismatch)) return *call.invalid;
  TROUPE_TRY(status);
  for (std::size_t rank = 0; 2 * rank < call.weights.size(); ++rank) {
    double weight = 0;
    std::memcpy(&weight, call.weights.data() + 2 * rank, sizeof(weight));
    if (!std::isnan(weight)) continue;
    return Error{Code::kInvalidArgument,
                 fmt::format("collective: rank {} calls {} with arguments that cannot work: its "
                             "own error says which",
                             rank, call.call.describe())};
  }
  return {};
}

Status NcclRank::launch(NcclCall& call) {
  const Call& what = call.call;
  const std::size_t count = what.count;
  TROUPE_TRY(check(library_->set_device(device_), "cudaSetDevice"));
  ncclRedOp_t op = nccl_op(what.op);
  if (what.op == ReduceOp::kMean && (what.kind == CallKind::kAllReduce || what.kind == CallKind::kReduceScatter)) {
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
    call.op = op;
  }
  call.stage = NcclCall::Stage::kLaunching;
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
      break;
  }
  return check(begun, activity_of(what));
}

Status NcclRank::launched(NcclCall& call) {
  call.stage = NcclCall::Stage::kRunning;
  if (call.op) TROUPE_TRY(check(library_->destroy_op(*call.op, comm_), "ncclRedOpDestroy"));
  call.op.reset();
  if (call.call.kind == CallKind::kBarrier) return {};
  TROUPE_TRY(check(library_->create_event(&call.done, cudaEventDisableTiming), "cudaEventCreate"));
  return check(library_->record_event(call.done, stream_), "cudaEventRecord");
}

Status NcclRank::begin_calls() {
  for (const auto& call : calls_) {
    if (call->stage == NcclCall::Stage::kRunning) continue;
    if (call->stage == NcclCall::Stage::kAgreeing) {
      if (!call->control->done()) return {};
      TROUPE_TRY(agreed(*call));
    }
    // While a launch is in progress, which may need the other ranks, NCCL takes no other call.
    ncclResult_t state = ncclSuccess;
    TROUPE_TRY(check(library_->async_error(comm_, &state), "polling"));
    TROUPE_TRY(check(state, "a collective"));
    if (state == ncclInProgress) return {};
    if (call->stage == NcclCall::Stage::kAgreeing) {
      call->control.reset();
      TROUPE_TRY(launch(*call));
      TROUPE_TRY(check(library_->async_error(comm_, &state), "polling"));
      TROUPE_TRY(check(state, activity_of(call->call)));
      if (state == ncclInProgress) return {};
    }
    TROUPE_TRY(launched(*call));
  }
  return {};
}

Status NcclRank::finish_calls() {
  while (!calls_.empty() && calls_.front()->stage == NcclCall::Stage::kRunning) {
    NcclCall& front = *calls_.front();
    if (front.done) {
      const cudaError_t error = library_->query_event(front.done);
      if (error == cudaErrorNotReady) return {};
      TROUPE_TRY(check(error, activity_of(front.call)));
      TROUPE_TRY(check(library_->destroy_event(front.done), "cudaEventDestroy"));
      front.done = nullptr;
    }
    front.answer = Status{};
    calls_.pop_front();
  }
  return {};
}

Status NcclRank::advance() {
  if (calls_.empty()) return {};
  if (const auto error = aborted()) return *error;
  ncclResult_t state = ncclSuccess;
  TROUPE_TRY(check(library_->async_error(comm_, &state), "polling"));
  TROUPE_TRY(check(state, "a collective"));
  if (!stuck_) {
    if (const Status begun = begin_calls(); !begun.ok()) stuck_ = begun.error();
  }
  TROUPE_TRY(finish_calls());  // those before the one that is stuck
  if (calls_.empty()) return {};
  const NcclCall::Stage stage = calls_.front()->stage;
  if (stuck_ && stage != NcclCall::Stage::kRunning) return *stuck_;
  if (stage == NcclCall::Stage::kAgreeing) return {};  // control has the word
  // The device runs, and control would be heard only at the next call. A rank may have left because it is done, and
  // then so will this one be.
  const SteadyTime now = steady_clock::now();
  if (!broken_ && stuck_) broken_.emplace(*stuck_, now);
  if (!broken_) {
    if (const auto error = control_->failure()) broken_.emplace(*error, now);
  }
  if (broken_ && now >= broken_->second + kGrace) return broken_->first;
  return {};
}

bool NcclRank::poll(NcclCall& call) {
  if (const Status status = advance(); !status.ok()) fail(status.error());
  if (call.answer) return true;
  if (steady_clock::now() < call.deadline) return false;
  if (call.control) {
    if (!call.control->done()) return false;  // it has the same deadline, and knows whom it waits for
    if (const Status status = agreed(call); !status.ok()) {
      fail(status.error());
      return true;
    }
  }
  if (!call.roll_call) call.roll_call = call_the_roll();
  if (call.roll_call->done()) fail(late(activity_of(call.call), call.made, call.roll_call->wait()));
  return call.answer.has_value();
}

void NcclRank::wait(NcclCall& call) {
  if (poll(call)) return;
  const std::string before = control_->activity().now().what;
  control_->activity().enter(activity_of(call.call));
  do {
    // While ranks have not agreed, control sleeps; later calls' answers may be wanted before this one's.
    const std::shared_ptr<NcclCall> front = calls_.front();
    if (front->control && front->deadline <= call.deadline) {
      (void)front->control->wait();
    } else {
      std::this_thread::sleep_for(kPoll);
    }
  } while (!poll(call));
  control_->activity().enter(before);
}

Error NcclRank::late(std::string_view what, SteadyTime since, const Status& roll) const {
  return {
      Code::kDeadlineExceeded,
      fmt::format("nccl: step {}: {}, which all ranks have entered, is not done on device {} of rank {} after {:.1f} "
                  "s; {}",
                  control_->activity().now().step, what, device_, control_->view().rank,
                  seconds(steady_clock::now() - since), roll.ok() ? "all ranks answer" : roll.error().message)};
}

void NcclRank::fail(const Error& error) {
  if (!failure_) failure_ = error;
  control_->abort(failure_->message);
  end(*failure_);
}

bool NcclRank::is_quiet_within(Duration limit) const {
  const SteadyTime deadline = steady_clock::now() + limit;
  for (;;) {
    ncclResult_t state = ncclSuccess;
    if (library_->async_error(comm_, &state) != ncclSuccess) return false;
    if (state != ncclInProgress) return state == ncclSuccess;
    if (steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPoll);
  }
}

bool NcclRank::is_idle_within(Duration limit) const {
  const SteadyTime deadline = steady_clock::now() + limit;
  while (stream_ && library_->query_stream(stream_) == cudaErrorNotReady) {
    if (steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

void NcclRank::end(const Error& error) {
  const auto calls = std::exchange(calls_, {});
  for (const auto& call : calls) {
    if (call->done) (void)library_->destroy_event(call->done);
    call->done = nullptr;
    call->control.reset();
    call->roll_call.reset();
  }
  if (comm_ && !revoked_ && (failure_ || !calls.empty())) {
    // One whose init is not over has nothing that could be revoked.
    if (ready_ && library_->revoke) {
      const ncclResult_t begun = library_->revoke(comm_, 0);  // NCCL_REVOKE_DEFAULT, which old headers lack
      revoked_ = (begun == ncclSuccess || begun == ncclInProgress) && is_quiet_within(kRevoke);
    }
    if (!revoked_) free();
    // The buffers are the callers' again with the answers, so nothing may run on them any more.
    bool idle = is_idle_within(kEnd);
    if (!idle && comm_) {
      free();
      idle = is_idle_within(kEnd);
    }
    if (!idle) {
      log::error("nccl: rank {} on device {}: what was aborted still runs on the device", control_->view().rank,
                 device_);
      (void)library_->destroy_stream(stream_);  // the next epoch's calls must not wait behind it
      stream_ = nullptr;
    }
  }
  for (const auto& call : calls) call->answer = failure_.value_or(error);
}

void NcclRank::part() {
  // An abort would take the ground from under ranks whose devices still read what this one has sent.
  const ncclResult_t begun = library_->finalize(comm_);
  if ((begun != ncclSuccess && begun != ncclInProgress) || !is_quiet_within(kEnd)) return;
  (void)library_->destroy(comm_);
  comm_ = nullptr;
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
  int device() const override { return rank_->device(); }
  Communicator& host() override { return rank_->control(); }
  Activity& activity() override { return rank_->control().activity(); }
  void abort(std::string_view reason, std::optional<std::uint64_t> through) override { rank_->abort(reason, through); }
  std::optional<Error> failure() const override { return rank_->failure(); }
  Status reform(const GroupView& view, Duration timeout) override { return rank_->reform(view, timeout); }

 private:
  std::unique_ptr<Work> call(Call call, const CallOptions& options, std::span<const float> in,
                             std::span<float> out) override {
    return std::make_unique<NcclWork>(rank_, rank_->make(std::move(call), options, in, out));
  }

  std::shared_ptr<NcclRank> rank_;  // shared with works that outlive this
};

Result<std::unique_ptr<Communicator>> make(std::shared_ptr<Communicator> control, NcclOptions options) {
  TROUPE_ASSIGN(std::shared_ptr<const NcclLibrary> library, NcclLibrary::open(options.library));
  TROUPE_TRY(detail::confine_nccl(options.interface));
  auto rank = std::make_shared<NcclRank>(std::move(control), std::move(library), std::move(options));
  return std::unique_ptr<Communicator>(std::make_unique<NcclCommunicator>(std::move(rank)));
}

}  // namespace

Result<std::unique_ptr<Communicator>> make_nccl_communicator(std::unique_ptr<Communicator> control,
                                                             NcclOptions options) {
  return make(std::move(control), std::move(options));
}

Result<std::unique_ptr<Communicator>> make_nccl_communicator(Communicator& control, NcclOptions options) {
  return make({&control, [](Communicator*) {}}, std::move(options));
}

}  // namespace troupe::collectives
