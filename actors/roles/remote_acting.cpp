#include <fmt/format.h>

#include <algorithm>

#include <troupe/actors/roles/acting.hpp>
#include <troupe/messages/inference.hpp>

namespace troupe::actors {
namespace {

/// About what it takes to notice that a node is dead; a batched forward pass takes milliseconds.
constexpr Duration kCallDeadline = std::chrono::seconds(1);
/// Calls that are refused come back at once: without a pause they would be made in a tight loop.
constexpr Duration kPauseAfterRefusal = std::chrono::milliseconds(100);
/// Longer than any restart of a server, and than a learner takes to give a new run its first parameters.
constexpr Duration kGiveUpAfter = std::chrono::minutes(5);

class RemoteActing final : public Acting {
 public:
  RemoteActing(const RoleIdentity& identity, const learner::PolicyColumns& columns)
      : producer_(static_cast<std::uint32_t>(identity.index)),
        inputs_(std::make_shared<const Signature>(columns.inputs)) {}

  Status refresh(RoleContext&) override { return {}; }

  Result<std::optional<std::int64_t>> act(RoleContext& context, const BatchView& inputs,
                                          const MutableBatchView& outputs) override {
    if (answer_) {
      const Answer answer = *std::exchange(answer_, std::nullopt);
      const BatchView& given = answer.content.outputs;
      TROUPE_TRY(check_same(*given.signature, *outputs.signature, "inference answer"));
      if (given.rows != outputs.rows) {
        return Error{Code::kShapeMismatch,
                     fmt::format("inference answer: got {} rows, expected {}", given.rows, outputs.rows)};
      }
      for (std::size_t c = 0; c < given.columns.size(); ++c) {
        std::ranges::copy(given.columns[c], outputs.columns[c].begin());
      }
      return std::optional(answer.content.parameters_version);
    }
    TROUPE_TRY(ask(context, inputs));
    return std::optional<std::int64_t>();
  }

  std::string waiting_for() const override {
    if (failures_ == 0) return "an answer of the inference server;";
    return fmt::format("an answer of the inference server, asked again after {} failed calls (the last: {});",
                       failures_, last_error_);
  }

  void report(Report& report) const override {
    report.counters.push_back({"inference_calls_failed", static_cast<double>(failed_calls_)});
  }

 private:
  Status ask(RoleContext& context, const BatchView& inputs) {
    Caller& caller = context.caller("inference");
    if (calling_ || !caller.ready()) return {};
    const Duration now = context.clock().now();
    if (failures_ > 0 && now - asked_first_ > kGiveUpAfter) {
      return Error{Code::kUnavailable, fmt::format("no answer of the inference server in {:.0f} s and {} calls, the "
                                                   "last: {}",
                                                   seconds(now - asked_first_), failures_, last_error_)};
    }
    if (now < ask_again_) {
      context.wake_after(ask_again_ - now);
      return {};
    }
    if (failures_ == 0) asked_first_ = now;
    TROUPE_ASSIGN(Frame request, messages::make_inference_request(context.pool(), {producer_, inputs_, inputs}));
    calling_ = true;
    caller.call(std::move(request), kCallDeadline,
                [this, &clock = context.clock()](Result<Frame> answer) { take(std::move(answer), clock); });
    return {};
  }

  void take(Result<Frame> frame, const Clock& clock) {
    calling_ = false;
    auto answer = frame.ok() ? messages::read_inference_answer(*frame) : frame.error();
    if (answer.ok()) {
      answer_ = Answer{std::move(frame).value(), *answer};
      failures_ = 0;
      return;
    }
    ++failures_;
    ++failed_calls_;
    last_error_ = answer.error().message;
    if (answer.error().code != Code::kDeadlineExceeded) ask_again_ = clock.now() + kPauseAfterRefusal;
  }

  struct Answer {
    Frame frame;
    messages::InferenceAnswer content;  // leads into the frame
  };

  std::uint32_t producer_;
  std::shared_ptr<const Signature> inputs_;
  bool calling_ = false;
  std::optional<Answer> answer_;
  Duration asked_first_{};  ///< first call for these actions
  Duration ask_again_{};
  std::int64_t failures_ = 0;  ///< of calls for these actions
  std::string last_error_;
  std::int64_t failed_calls_ = 0;
};

}  // namespace

ActingSpec remote_acting(learner::PolicyColumns columns) {
  auto make = [columns](const RoleIdentity& identity, std::int64_t) -> Result<std::unique_ptr<Acting>> {
    return {std::make_unique<RemoteActing>(identity, columns)};
  };
  return {std::move(columns), {}, {{"inference", "InferenceRequest", ChannelKind::kRequest}}, std::move(make)};
}

}  // namespace troupe::actors
