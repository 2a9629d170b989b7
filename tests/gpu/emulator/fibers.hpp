#pragma once
// The threads of an emulated kernel's block, as fibers of the one host thread that runs it: a thread runs until it ends
// or waits, so one that never waits costs a call. Used by runtime.cpp.
//
// Warps run one after the other, each as far as it can without the others; which comes first changes from block to
// block and from launch to launch. So a kernel that lacks a barrier sees what it should not, sooner or later.
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime.h>

namespace troupe_emulator {

class BlockRunner {
 public:
  BlockRunner();
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  /// Runs thread() for every thread of the grid. False where a barrier or shuffle misses threads: then the kernel has
  /// ended there, and why() says what happened. One call at a time.
  bool run(dim3 blocks, dim3 threads, const std::function<void()>& thread);
  const std::string& why() const { return why_; }
  /// In its block, of the thread that runs now.
  unsigned thread_index() const { return current_; }

 private:
  struct Fiber;
  enum class State : std::uint8_t { kNew, kReady, kAtBarrier, kInWarp, kDone };
  struct Thread {
    State state = State::kNew;
    Fiber* fiber = nullptr;
    Site site{};
    unsigned mask = 0;        // of the lanes that take part; 0: not in a warp's operation
    std::uint64_t value = 0;  // of a shuffle: what the thread brings, then what it takes
    unsigned from = 0;
  };

  bool run_block(bool backwards);
  void run_warp(unsigned warp, bool backwards);
  bool release_warp(unsigned warp);
  bool release_block();
  void explain();
  void cancel();

  void start(unsigned thread);
  void resume(unsigned thread);
  void switch_to(Fiber& fiber);
  void wait();
  [[noreturn]] static void fiber_main();
  void run_fiber(Fiber& fiber);
  void enter(unsigned thread);
  std::string describe(unsigned thread) const;

  friend void block_barrier(Site site);
  friend void warp_barrier(unsigned mask, Site site);
  friend std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned from, Site site);

  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::unique_ptr<Fiber> host_;
  const std::function<void()>* body_ = nullptr;
  unsigned current_ = 0;  // thread
  Fiber* running_ = nullptr;
  bool cancelled_ = false;
  bool backwards_ = false;
  std::uint64_t launches_ = 0;
  std::string why_;
};

}  // namespace troupe_emulator
