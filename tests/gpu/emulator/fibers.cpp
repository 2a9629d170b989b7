#include <troupe/tests/gpu/emulator/fibers.hpp>

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

uint3 threadIdx{}, blockIdx{};
dim3 blockDim{}, gridDim{};

#if defined(__x86_64__)
// Keeps the registers that a call must keep on the present stack, tells its end in *from, and goes on at `to`.
extern "C" void troupe_emulator_switch(void** from, void* to);
asm(R"(
.pushsection .text
.hidden troupe_emulator_switch
.globl troupe_emulator_switch
.type troupe_emulator_switch, @function
troupe_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size troupe_emulator_switch, .-troupe_emulator_switch
.popsection
)");
#endif

namespace troupe_emulator {

namespace {

constexpr unsigned kLanes = 32;
constexpr std::size_t kPage = 4096, kStackBytes = 256 * 1024;  // kernels need little; sanitizers more

/// Thrown in the threads that wait when a kernel has failed, so that they end.
struct Cancelled {};

BlockRunner* runner = nullptr;  // the one that runs a kernel now

}  // namespace

/// A stack to run on, or the host thread's.
struct BlockRunner::Fiber {
  void* memory = nullptr;  // null: the host's
  unsigned thread = 0;     // to begin with
#if defined(__x86_64__)
  void* top = nullptr;
#else
  ucontext_t context{};
#endif
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* fake_stack = nullptr;
#endif
#if defined(__SANITIZE_THREAD__)
  void* tsan = nullptr;
#endif

  Fiber() = default;
  ~Fiber() {
    if (memory == nullptr) return;
    munmap(memory, kPage + kStackBytes);
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(tsan);
#endif
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// With a stack of its own, behind a page that nobody may touch.
  explicit Fiber(void (*main)()) {
    memory = mmap(nullptr, kPage + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, kPage, PROT_NONE) != 0) {
      std::perror("emulated device: stack of a thread");
      std::abort();
    }
    char* const end = static_cast<char*>(memory) + kPage + kStackBytes;
#if defined(__x86_64__)
    void** const stack = reinterpret_cast<void**>(end) - 8;  // six registers, where to go, and where that returns to
    std::memset(stack, 0, 8 * sizeof(void*));
    stack[6] = reinterpret_cast<void*>(main);
    top = stack;
#else
    getcontext(&context);
    context.uc_stack.ss_sp = end - kStackBytes;
    context.uc_stack.ss_size = kStackBytes;
    makecontext(&context, main, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
    bottom = end - kStackBytes;
    bytes = kStackBytes;
#endif
#if defined(__SANITIZE_THREAD__)
    tsan = __tsan_create_fiber(0);
#endif
  }

  /// From this one to `to`; comes back when somebody goes on with this one.
  void leave_for(Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_stack, to.bottom, to.bytes);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(to.tsan, 0);
#endif
#if defined(__x86_64__)
    troupe_emulator_switch(&top, to.top);
#else
    swapcontext(&context, &to.context);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  }
};

BlockRunner::BlockRunner() : host_(std::make_unique<Fiber>()) {}
BlockRunner::~BlockRunner() = default;

bool BlockRunner::run(dim3 blocks, dim3 threads, const std::function<void()>& thread) {
  runner = this;
  body_ = &thread;
  gridDim = blocks;
  blockDim = threads;
  why_.clear();
#if defined(__SANITIZE_THREAD__)
  host_->tsan = __tsan_get_current_fiber();
#endif
  threads_.resize(std::size_t{threads.x} * threads.y * threads.z);
  const bool last_first = launches_++ % 2 != 0;
  const std::uint64_t count = std::uint64_t{blocks.x} * blocks.y * blocks.z;
  bool good = true;
  for (std::uint64_t i = 0; i < count && good; ++i) {
    const std::uint64_t block = last_first ? count - 1 - i : i;
    blockIdx = {static_cast<unsigned>(block % blocks.x), static_cast<unsigned>(block / blocks.x % blocks.y),
                static_cast<unsigned>(block / blocks.x / blocks.y)};
    good = run_block((launches_ + block) % 2 != 0);
  }
  runner = nullptr;
  return good;
}

bool BlockRunner::run_block(bool backwards) {
  for (Thread& thread : threads_) thread = {};
  backwards_ = backwards;
  const auto warps = static_cast<unsigned>((threads_.size() + kLanes - 1) / kLanes);
  do {
    for (unsigned i = 0; i < warps; ++i) run_warp(backwards ? warps - 1 - i : i, backwards);
  } while (release_block());
  for (const Thread& thread : threads_) {
    if (thread.state == State::kDone) continue;
    explain();
    cancel();
    return false;
  }
  return true;
}

/// Until all its threads have ended, wait for the block, or wait for each other in vain.
void BlockRunner::run_warp(unsigned warp, bool backwards) {
  const unsigned first = warp * kLanes;
  const unsigned count = std::min<unsigned>(kLanes, static_cast<unsigned>(threads_.size()) - first);
  do {
    for (unsigned i = 0; i < count; ++i) {
      const unsigned thread = first + (backwards ? count - 1 - i : i);
      if (threads_[thread].state == State::kNew) start(thread);
      if (threads_[thread].state == State::kReady) resume(thread);
    }
  } while (release_warp(warp));
}

/// Lets go those lanes whose partners have all come; false: none.
bool BlockRunner::release_warp(unsigned warp) {
  const unsigned first = warp * kLanes;
  const unsigned count = std::min<unsigned>(kLanes, static_cast<unsigned>(threads_.size()) - first);
  Thread* const lanes = threads_.data() + first;
  bool released = false;
  for (unsigned lane = 0; lane < count; ++lane) {
    const Thread one = lanes[lane];
    if (one.state != State::kInWarp) continue;
    const auto takes_part = [&](unsigned other) { return (one.mask >> other & 1U) != 0; };
    bool complete = takes_part(lane);
    for (unsigned other = 0; other < kLanes && complete; ++other) {
      if (!takes_part(other)) continue;
      complete = other < count && lanes[other].state == State::kInWarp && lanes[other].mask == one.mask &&
                 lanes[other].site.line == one.site.line && lanes[other].site.file == one.site.file;
    }
    if (!complete) continue;
    std::uint64_t brought[kLanes];
    for (unsigned other = 0; other < count; ++other) brought[other] = lanes[other].value;
    for (unsigned other = 0; other < count; ++other) {
      if (!takes_part(other)) continue;
      const unsigned from = lanes[other].from;
      lanes[other].value = takes_part(from) ? brought[from] : ~std::uint64_t{0};  // undefined: so NaN
      lanes[other].state = State::kReady;
    }
    released = true;
  }
  return released;
}

bool BlockRunner::release_block() {
  const Site site = threads_[0].site;
  for (const Thread& thread : threads_) {
    if (thread.state != State::kAtBarrier || thread.site.line != site.line || thread.site.file != site.file)
      return false;
  }
  for (Thread& thread : threads_) thread.state = State::kReady;
  return true;
}

std::string BlockRunner::describe(unsigned thread) const {
  const Thread& t = threads_[thread];
  switch (t.state) {
    case State::kAtBarrier:
      return fmt::format("thread {} waits in __syncthreads at {}:{}", thread, t.site.file, t.site.line);
    case State::kInWarp:
      return fmt::format("thread {} waits for lanes {:#x} at {}:{}", thread, t.mask, t.site.file, t.site.line);
    default:
      return fmt::format("thread {} has ended", thread);
  }
}

void BlockRunner::explain() {
  unsigned waits = 0;
  while (threads_[waits].state == State::kDone) ++waits;
  const Thread& one = threads_[waits];
  const auto other = std::ranges::find_if(threads_, [&](const Thread& each) {
    return each.state != one.state || each.site.line != one.site.line || each.mask != one.mask;
  });
  const std::string rest =
      other == threads_.end() ? "lanes are missing" : describe(static_cast<unsigned>(other - threads_.begin()));
  why_ = fmt::format("block ({}, {}, {}) of {} threads: {}, but {}", blockIdx.x, blockIdx.y, blockIdx.z,
                     threads_.size(), describe(waits), rest);
}

void BlockRunner::cancel() {
  cancelled_ = true;
  for (unsigned thread = 0; thread < threads_.size(); ++thread) {
    if (threads_[thread].state != State::kDone) resume(thread);
  }
  cancelled_ = false;
}

// ---- between fibers ----

void BlockRunner::start(unsigned thread) {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(&BlockRunner::fiber_main));
    idle_.push_back(fibers_.back().get());
  }
  Fiber& fiber = *idle_.back();
  idle_.pop_back();
  fiber.thread = thread;
  switch_to(fiber);
}

void BlockRunner::resume(unsigned thread) {
  enter(thread);
  switch_to(*threads_[thread].fiber);
}

void BlockRunner::switch_to(Fiber& fiber) {
  running_ = &fiber;
  host_->leave_for(fiber);
  running_ = nullptr;
}

void BlockRunner::enter(unsigned thread) {
  current_ = thread;
  threadIdx = {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / blockDim.x / blockDim.y};
}

void BlockRunner::fiber_main() {
  Fiber& self = *runner->running_;
#if defined(__SANITIZE_ADDRESS__)
  // The first arrival tells where the host's stack lies.
  __sanitizer_finish_switch_fiber(nullptr, &runner->host_->bottom, &runner->host_->bytes);
#endif
  for (;;) {
    runner->run_fiber(self);
    self.leave_for(*runner->host_);
  }
}

/// Its thread, and then those behind it in the warp that have not begun: until one of them has to wait, in which case
/// this fiber stays with that thread until its end.
void BlockRunner::run_fiber(Fiber& fiber) {
  for (unsigned thread = fiber.thread;;) {
    threads_[thread].fiber = &fiber;
    enter(thread);
    try {
      (*body_)();
    } catch (const Cancelled&) {
    }
    thread = current_;
    threads_[thread].state = State::kDone;
    const unsigned warp = thread / kLanes;
    const unsigned next = backwards_ ? thread - 1 : thread + 1;  // of the first one: none
    if (next >= threads_.size() || next / kLanes != warp || threads_[next].state != State::kNew) break;
    thread = next;
  }
  idle_.push_back(&fiber);
}

void BlockRunner::wait() {
  Fiber& fiber = *threads_[current_].fiber;
  fiber.leave_for(*host_);
  if (cancelled_) throw Cancelled{};
}

// ---- what kernels call ----

namespace {
BlockRunner& in_kernel(const char* what) {
  if (runner == nullptr) {
    std::fprintf(stderr, "emulated device: %s outside of a kernel\n", what);
    std::abort();
  }
  return *runner;
}
}  // namespace

void block_barrier(Site site) {
  BlockRunner& r = in_kernel("__syncthreads");
  BlockRunner::Thread& thread = r.threads_[r.current_];
  thread.state = BlockRunner::State::kAtBarrier;
  thread.site = site;
  thread.mask = 0;
  r.wait();
}

std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned from, Site site) {
  BlockRunner& r = in_kernel("a shuffle");
  BlockRunner::Thread& thread = r.threads_[r.current_];
  thread.state = BlockRunner::State::kInWarp;
  thread.site = site;
  thread.mask = mask;
  thread.value = value;
  thread.from = from;
  r.wait();
  return thread.value;
}

void warp_barrier(unsigned mask, Site site) { exchange(mask, 0, lane(), site); }

unsigned lane() { return in_kernel("a shuffle").thread_index() % kLanes; }

}  // namespace troupe_emulator
