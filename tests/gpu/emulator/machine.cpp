#include <troupe/tests/gpu/emulator/machine.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace troupe_emulator {

namespace {

/// What $TROUPE_EMULATOR says to a program that no test can call.
void obey_environment(Machine& made) {
  const char* const told = std::getenv("TROUPE_EMULATOR");
  if (told == nullptr || *told == '\0') return;
  long long number = 0;
  if (std::sscanf(told, "driver=%lld", &number) == 1) {
    made.driver = static_cast<int>(number);
  } else if (std::sscanf(told, "fail_kernel=%lld", &number) == 1) {
    made.until_failure = number;
  } else if (constexpr std::string_view kWhen = "fail_when="; std::string_view(told).starts_with(kWhen)) {
    made.fail_when = told + kWhen.size();
  } else {
    fmt::print(stderr, "TROUPE_EMULATOR is \"{}\", expected driver=N, fail_kernel=N or fail_when=FILE\n", told);
    std::abort();
  }
}

}  // namespace

Machine& machine() {
  static Machine* const one = [] {
    auto* made = new Machine;
    made->reset();
    obey_environment(*made);
    return made;
  }();
  return *one;
}

void Machine::reset() {
  driver = 13000;
  device_count = 2;
  until_failure = -1;
  fail_when.clear();
  orders.seed();
  allocations = launches = kernels = graph_launches = 0;
  for (Device& device : devices) {
    device.failed = cudaSuccess;
    device.why.clear();
    device.memory.set_total(std::size_t{1} << 30);
  }
}

std::int64_t Machine::alive() const {
  std::size_t count = pinned.count() + streams.size() + events.size() + graphs.size() + executables.size();
  for (const Device& device : devices) count += device.memory.count();
  return static_cast<std::int64_t>(count);
}

bool Machine::is_device(const void* memory) const {
  return std::ranges::any_of(devices, [&](const Device& device) { return device.memory.contains(memory); });
}

bool Machine::is_known(const void* memory, std::size_t bytes) const {
  return pinned.holds(memory, bytes) >= 0 ||
         std::ranges::any_of(devices, [&](const Device& device) { return device.memory.holds(memory, bytes) >= 0; });
}

bool Machine::idle(int device) const {
  return std::ranges::all_of(streams,
                             [&](const CUstream_st* each) { return each->device != device || each->work.empty(); });
}

void Machine::step(CUstream_st& stream) {
  const Work work = std::move(stream.work.front());
  stream.work.pop_front();
  if (const auto* wait = std::get_if<WaitWork>(&work)) {
    while (!wait->mark->passed) step(*wait->mark->stream);
  } else if (const auto* record = std::get_if<RecordWork>(&work)) {
    record->mark->passed = true;
  } else if (devices[static_cast<std::size_t>(stream.device)].failed == cudaSuccess) {
    run(work, stream.device);
  }
}

cudaError_t Machine::finish(CUstream_st& stream) {
  while (!stream.work.empty()) step(stream);
  settle();
  const Device& device = devices[static_cast<std::size_t>(stream.device)];
  return device.failed == cudaSuccess ? cudaSuccess : failed(device.failed, device.why);
}

void Machine::put_graph(const CUgraphExec_st& graph, CUstream_st& stream) {
  std::vector<std::size_t> waits(graph.nodes.size(), 0), ready;
  std::vector<std::vector<std::size_t>> followers(graph.nodes.size());
  for (const CUgraphNode_st& node : graph.nodes) {
    waits[node.index] = node.after.size();
    for (const std::size_t before : node.after) followers[before].push_back(node.index);
    if (node.after.empty()) ready.push_back(node.index);
  }
  while (!ready.empty()) {
    std::swap(ready[orders() % ready.size()], ready.back());
    const std::size_t next = ready.back();
    ready.pop_back();
    stream.work.push_back(graph.nodes[next].work);
    for (const std::size_t follower : followers[next]) {
      if (--waits[follower] == 0) ready.push_back(follower);
    }
  }
}

void Machine::settle() {
  for (int i = 0; i < kMostDevices; ++i) {
    Device& device = devices[static_cast<std::size_t>(i)];
    if (!device.memory.is_open()) continue;
    const std::string wrong = device.memory.check(idle(i));
    device.memory.close();
    if (!wrong.empty()) fail(i, cudaErrorIllegalAddress, wrong);
  }
}

void Machine::run(const Work& work, int device) {
  if (const auto* kernel = std::get_if<KernelWork>(&work)) {
    run(*kernel);
  } else if (const auto* copy = std::get_if<CopyWork>(&work)) {
    run(*copy, device);
  } else if (const auto* fill = std::get_if<FillWork>(&work)) {
    if (!is_known(fill->to, fill->bytes)) {
      return fail(device, cudaErrorIllegalAddress,
                  fmt::format("fill: the {} bytes to fill have been released since", fill->bytes));
    }
    for (Device& each : devices) {
      if (each.memory.contains(fill->to)) each.memory.open();
    }
    std::memset(fill->to, fill->byte, fill->bytes);
  }
}

bool Machine::fails_now() {
  std::error_code ignored;  // of several processes one gets to remove it
  if (!fail_when.empty() && std::filesystem::remove(fail_when, ignored)) return true;
  if (until_failure < 0) return false;
  return until_failure-- == 0;
}

void Machine::run(const KernelWork& kernel) {
  if (fails_now()) {
    return fail(kernel.device, cudaErrorIllegalAddress, "the kernel that a test wanted to fail");
  }
  // Memory of other devices is as far away as the host's.
  for (int i = 0; i < kMostDevices; ++i) {
    if (i != kernel.device && devices[static_cast<std::size_t>(i)].memory.is_open()) {
      settle();
      break;
    }
  }
  devices[static_cast<std::size_t>(kernel.device)].memory.open();
  if (!runner.run(kernel.blocks, kernel.threads, kernel.thread)) {
    return fail(kernel.device, cudaErrorLaunchFailure, runner.why());
  }
  ++kernels;
}

void Machine::run(const CopyWork& copy, int device) {
  const bool from_known = copy.staged != nullptr || !copy.from_is_known || is_known(copy.from, copy.bytes);
  const bool to_known = !copy.to_is_known || is_known(copy.to, copy.bytes);
  if (!from_known || !to_known) {
    return fail(
        device, cudaErrorIllegalAddress,
        fmt::format("copy: the {} bytes to {} have been released since", copy.bytes, from_known ? "write" : "read"));
  }
  for (Device& each : devices) {
    if (each.memory.contains(copy.to) || each.memory.contains(copy.from)) each.memory.open();
  }
  std::memmove(copy.to, copy.staged != nullptr ? copy.staged->data() : copy.from, copy.bytes);
}

void Machine::fail(int device, cudaError_t error, std::string why) {
  Device& at = devices[static_cast<std::size_t>(device)];
  if (at.failed != cudaSuccess) return;
  at.failed = error;
  at.why = std::move(why);
}

}  // namespace troupe_emulator

cudaGraphNode_t CUgraph_st::add(troupe_emulator::Work work, std::span<const cudaGraphNode_t> after) {
  CUgraphNode_st& node = nodes.emplace_back();
  node.index = nodes.size() - 1;
  node.work = std::move(work);
  for (const cudaGraphNode_t each : after) node.after.push_back(each->index);
  return &node;
}
