#pragma once
// A RoleContext without actors: tests put frames into inlets, call step() by hand and look at what was sent.
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <troupe/actors/role.hpp>
#include <troupe/core/check.hpp>

namespace troupe::actors::testing {

class FakeInlet final : public Inlet {
 public:
  bool empty() const override { return frames.empty(); }
  Frame take() override {
    Frame frame = std::move(frames.front());
    frames.pop_front();
    return frame;
  }
  std::deque<Frame> frames;
};

class FakeOutlet final : public Outlet {
 public:
  bool ready() const override { return room > 0; }
  void send(Frame frame) override {
    TROUPE_CHECK(room > 0, "sent without credit");
    --room;
    sent.push_back(std::move(frame));
  }
  std::int64_t room = 1000;
  std::vector<Frame> sent;
};

class FakeContext final : public RoleContext {
 public:
  FakeInlet& in(std::string_view port) override { return inlets_[std::string(port)]; }
  FakeOutlet& out(std::string_view port) override { return outlets_[std::string(port)]; }
  Caller& caller(std::string_view port) override { TROUPE_CHECK(false, "no caller {}", port); }
  Server& server(std::string_view port) override { TROUPE_CHECK(false, "no server {}", port); }
  const Clock& clock() const override { return manual_clock; }
  messages::FramePool& pool() override { return pool_; }
  void wake_after(Duration delay) override { woken_after = delay; }

  ManualClock manual_clock;
  Duration woken_after{-1};

 private:
  messages::FramePool pool_;
  std::map<std::string, FakeInlet> inlets_;
  std::map<std::string, FakeOutlet> outlets_;
};

}  // namespace troupe::actors::testing
