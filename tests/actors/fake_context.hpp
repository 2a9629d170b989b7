#pragma once
// A RoleContext without actors: tests put frames into inlets, call step() by hand and look at what was sent.
#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <troupe/actors/runtime/role.hpp>
#include <troupe/core/check.hpp>

namespace troupe::actors::testing {

class FakeInlet final : public Inlet {
 public:
  struct Waiting {
    Waiting(Frame arrived, std::size_t from = 0) : frame(std::move(arrived)), producer(from) {}
    Frame frame;
    std::size_t producer;
  };
  bool empty() const override { return frames.empty(); }
  Frame take() override { return take(frames.front().producer); }
  const Frame* peek(std::size_t producer) const override {
    auto found = find(producer);
    return found == frames.end() ? nullptr : &found->frame;
  }
  std::size_t producers() const override {
    std::size_t producers = 0;
    for (const Waiting& waiting : frames) producers = std::max(producers, waiting.producer + 1);
    return producers;
  }
  Frame take(std::size_t producer) override {
    auto found = find(producer);
    Frame frame = found->frame;
    frames.erase(found);
    return frame;
  }
  Frame take_held() override {
    ++held;
    return take();
  }
  void release_held(std::size_t count) override { held -= static_cast<std::int64_t>(count); }
  std::deque<Waiting> frames;  ///< in the order of arrival; a test that does not care pushes bare frames
  std::int64_t held = 0;

 private:
  std::deque<Waiting>::const_iterator find(std::size_t producer) const {
    return std::find_if(frames.begin(), frames.end(), [&](const Waiting& w) { return w.producer == producer; });
  }
};

class FakeOutlet final : public Outlet {
 public:
  bool ready() const override { return room > 0; }
  void send(Frame frame) override { send_to(0, std::move(frame)); }
  std::size_t consumers() const override { return consumer_count; }
  std::int64_t credits(std::size_t consumer) const override {
    if (full.contains(consumer)) return 0;
    const auto found = fewer.find(consumer);
    return found != fewer.end() ? found->second : std::min(room, capacity);
  }
  bool ready(std::size_t consumer) const override { return credits(consumer) > 0; }
  void send_to(std::size_t consumer, Frame frame) override {
    TROUPE_CHECK(ready(consumer), "sent without credit");
    --room;
    sent.push_back(std::move(frame));
    receivers.push_back(consumer);
  }
  std::size_t consumer_count = 1;
  std::int64_t room = 1000;                   ///< over all consumers
  std::set<std::size_t> full;                 ///< consumers without room
  std::int64_t capacity = 2;                  ///< of the channel
  std::map<std::size_t, std::int64_t> fewer;  ///< credits of consumers that have not taken all
  std::vector<Frame> sent;
  std::vector<std::size_t> receivers;  ///< of `sent`, frame by frame
};

class FakeCaller final : public Caller {
 public:
  bool ready() const override { return wired && calls.size() < capacity; }
  void call(Frame request, Duration deadline, Reply reply) override {
    calls.push_back({std::move(request), deadline, std::move(reply)});
    if (answer) finish(answer(calls.front().request));
  }
  bool ready(std::size_t server) const override { return ready() && !gone.contains(server); }
  void call_to(std::size_t server, Frame request, Duration deadline, Reply reply) override {
    TROUPE_CHECK(ready(server), "called a server that is not ready");
    calls.push_back({std::move(request), deadline, std::move(reply), server});
  }
  /// Ends the oldest call.
  void finish(Result<Frame> answer) {
    const Reply reply = std::move(calls.front().reply);
    calls.pop_front();
    reply(std::move(answer));
  }
  struct Call {
    Frame request;
    Duration deadline;
    Reply reply;
    std::size_t server = 0;
  };
  bool wired = true;
  std::size_t capacity = 1;
  std::set<std::size_t> gone;  ///< servers that are not there
  std::deque<Call> calls;
  std::function<Result<Frame>(const Frame& request)> answer;  ///< at once; empty: the test calls finish()
};

class FakeServer final : public Server {
 public:
  bool empty() const override { return requests.empty(); }
  std::pair<Frame, std::function<void(Frame)>> take() override {
    Frame frame = std::move(requests.front());
    requests.pop_front();
    return {std::move(frame), [this](Frame answer) { answers.push_back(std::move(answer)); }};
  }
  bool alive(std::size_t caller) const override { return !gone.contains(caller); }
  std::deque<Frame> requests;
  std::vector<Frame> answers;
  std::set<std::size_t> gone;  ///< callers that are not there
};

class FakeContext final : public RoleContext {
 public:
  FakeInlet& in(std::string_view port) override { return inlets_[std::string(port)]; }
  FakeOutlet& out(std::string_view port) override { return outlets_[std::string(port)]; }
  FakeCaller& caller(std::string_view port) override { return callers_[std::string(port)]; }
  FakeServer& server(std::string_view port) override { return servers_[std::string(port)]; }
  const Clock& clock() const override { return manual_clock; }
  messages::FramePool& pool() override { return pool_; }
  void wake_after(Duration delay) override { woken_after = delay; }
  std::function<void()> waker() override {
    return [this] { ++wakes; };
  }
  bool alive(std::string_view role) const override { return !dead.contains(std::string(role)); }
  void refuse(std::string_view port, const Error& why) override {
    refused.push_back(std::string(port) + ": " + why.message);
  }

  ManualClock manual_clock;
  Duration woken_after{-1};
  int wakes = 0;               ///< by waker()
  std::set<std::string> dead;  ///< roles of which no instance is alive
  std::vector<std::string> refused;

 private:
  messages::FramePool pool_;
  std::map<std::string, FakeInlet> inlets_;
  std::map<std::string, FakeOutlet> outlets_;
  std::map<std::string, FakeCaller> callers_;
  std::map<std::string, FakeServer> servers_;
};

}  // namespace troupe::actors::testing
