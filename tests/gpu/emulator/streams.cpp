// The CUDA runtime's functions about streams, events, copies and graphs.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <troupe/tests/gpu/emulator/machine.hpp>
#include <troupe/tests/gpu/emulator/rules.hpp>

namespace troupe_emulator {

cudaError_t bad_stream(cudaStream_t stream, std::string_view what) {
  if (const cudaError_t error = no_device()) return error;
  if (!machine().streams.contains(stream)) {
    return failed(
        cudaErrorInvalidResourceHandle,
        fmt::format("{}: {}", what,
                    stream == nullptr ? "on the default stream, which waits for all others" : "on what is no stream"));
  }
  return no_good(stream->device);
}

cudaError_t put(CUstream_st& stream, Work work) {
  if (stream.capture == nullptr) {
    stream.work.push_back(std::move(work));
  } else {
    if (stream.capture->spoiled) {
      return failed(cudaErrorStreamCaptureInvalidated, "something else has spoilt the capture before");
    }
    stream.capture->last = {stream.capture->graph->add(std::move(work), stream.capture->last)};
  }
  return cudaSuccess;
}

namespace {

cudaError_t spoil(CUstream_st& stream, std::string_view what) {
  stream.capture->spoiled = true;
  return failed(cudaErrorStreamCaptureUnsupported, fmt::format("{} on a stream that is captured", what));
}

cudaError_t bad_event(cudaEvent_t event, std::string_view what) {
  if (const cudaError_t error = no_device()) return error;
  if (machine().events.contains(event)) return cudaSuccess;
  return failed(cudaErrorInvalidResourceHandle, fmt::format("{}: of what is no event", what));
}

}  // namespace
}  // namespace troupe_emulator

using namespace troupe_emulator;  // NOLINT: the rest of the file is the runtime's own functions

// ---- copies ----

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = bad_stream(stream, "copy")) return error;
  if (bytes == 0) return cudaSuccess;
  const bool to_device = m.is_device(to), from_device = m.is_device(from);
  const int actual = (from_device ? 2 : 0) + (to_device ? 1 : 0);
  if (kind != cudaMemcpyDefault && kind != actual) {
    return failed(cudaErrorInvalidMemcpyDirection,
                  fmt::format("copy: of kind {}, but it is {}", static_cast<int>(kind), actual));
  }
  CopyWork copy{.to = to, .from = from, .bytes = bytes};
  copy.to_is_known = m.is_known(to, bytes);
  copy.from_is_known = m.is_known(from, bytes);
  const bool to_cut = !copy.to_is_known && (to_device || m.is_known(to, 1));
  const bool from_cut = !copy.from_is_known && (from_device || m.is_known(from, 1));
  if (to == nullptr || from == nullptr || to_cut || from_cut) {
    return failed(cudaErrorInvalidValue, fmt::format("copy: {} bytes {} what is no allocation, or goes beyond it",
                                                     bytes, to == nullptr || to_cut ? "to" : "from"));
  }
  const bool pageable = !copy.to_is_known || !copy.from_is_known;
  if (pageable && stream->capture != nullptr) return spoil(*stream, "copy: of memory that is not pinned");
  if (!copy.from_is_known) {
    const auto* const data = static_cast<const std::byte*>(from);
    copy.staged = std::make_shared<const std::vector<std::byte>>(data, data + bytes);
  }
  const bool returns_late = !copy.to_is_known;
  if (const cudaError_t error = put(*stream, std::move(copy))) return error;
  return returns_late ? m.finish(*stream) : cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t stream) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = bad_stream(stream, "fill")) return error;
  if (bytes == 0) return cudaSuccess;
  if (!m.is_known(to, bytes)) {
    return failed(cudaErrorInvalidValue,
                  fmt::format("fill: {} bytes of what is no allocation, or goes beyond it", bytes));
  }
  return put(*stream, FillWork{to, byte, bytes});
}

// ---- streams ----

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = no_good(current_device())) return error;
  auto* const made = new CUstream_st{.device = current_device(), .work = {}, .capture = nullptr};
  m.streams.insert(made);
  *stream = made;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (!m.streams.contains(stream)) return failed(cudaErrorInvalidResourceHandle, "destroy: of what is no stream");
  if (stream->capture != nullptr) return spoil(*stream, "destroy");
  m.finish(*stream);
  const int device = stream->device;
  m.streams.erase(stream);
  delete stream;
  return no_good(device);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = bad_stream(stream, "synchronise")) return error;
  if (stream->capture != nullptr) return spoil(*stream, "synchronise");
  if (const cudaError_t error = spoils_capture("synchronise")) return error;
  return m.finish(*stream);
}

cudaError_t cudaDeviceSynchronize() {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = no_good(current_device())) return error;
  for (CUstream_st* each : m.streams) {
    if (each->device == current_device() && each->capture != nullptr) return spoil(*each, "synchronise the device");
  }
  if (const cudaError_t error = spoils_capture("synchronise the device")) return error;
  for (CUstream_st* each : m.streams) {
    if (each->device == current_device()) m.finish(*each);
  }
  return no_good(current_device());
}

// ---- events ----

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = no_good(current_device())) return error;
  auto* const made = new CUevent_st{.device = current_device(), .mark = nullptr};
  m.events.insert(made);
  *event = made;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (m.events.erase(event) == 0) return failed(cudaErrorInvalidResourceHandle, "destroy: of what is no event");
  const int device = event->device;
  delete event;
  return no_good(device);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard hold(machine().lock);
  if (const cudaError_t error = bad_stream(stream, "record")) return error;
  if (const cudaError_t error = bad_event(event, "record")) return error;
  if (stream->capture != nullptr) return spoil(*stream, "record");
  if (event->device != stream->device) {
    return failed(cudaErrorInvalidResourceHandle,
                  fmt::format("record: an event of device {} on a stream of device {}", event->device, stream->device));
  }
  event->mark = std::make_shared<Mark>(Mark{.stream = stream});
  return put(*stream, RecordWork{event->mark});
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard hold(machine().lock);
  if (const cudaError_t error = bad_stream(stream, "wait")) return error;
  if (const cudaError_t error = bad_event(event, "wait")) return error;
  if (stream->capture != nullptr) return spoil(*stream, "wait");
  if (event->mark == nullptr || event->mark->passed) return cudaSuccess;
  return put(*stream, WaitWork{event->mark});
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = bad_event(event, "query")) return error;
  if (const cudaError_t error = spoils_capture("query")) return error;
  if (const cudaError_t error = no_good(event->device)) return error;
  if (event->mark == nullptr || event->mark->passed) return cudaSuccess;
  m.step(*event->mark->stream);  // time goes on, so that who asks again and again gets there
  m.settle();
  if (const cudaError_t error = no_good(event->device)) return error;
  return cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = bad_event(event, "synchronise")) return error;
  if (const cudaError_t error = spoils_capture("synchronise")) return error;
  while (event->mark != nullptr && !event->mark->passed) m.step(*event->mark->stream);
  m.settle();
  return no_good(event->device);
}

// ---- graphs ----

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const std::lock_guard hold(machine().lock);
  if (const cudaError_t error = bad_stream(stream, "capture")) return error;
  if (stream->capture != nullptr) return failed(cudaErrorIllegalState, "capture: the stream is captured already");
  stream->capture = std::make_unique<Capture>();
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->graph = new CUgraph_st{.device = stream->device, .nodes = {}};
  machine().graphs.insert(stream->capture->graph);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (!m.streams.contains(stream)) return failed(cudaErrorInvalidResourceHandle, "end capture: on what is no stream");
  if (stream->capture == nullptr) return failed(cudaErrorIllegalState, "end capture: none has begun");
  if (stream->capture->mode != cudaStreamCaptureModeRelaxed && stream->capture->thread != std::this_thread::get_id()) {
    return failed(cudaErrorStreamCaptureWrongThread, "end capture: another thread has begun it");
  }
  const std::unique_ptr<Capture> capture = std::move(stream->capture);
  *graph = nullptr;
  if (capture->spoiled) {
    m.graphs.erase(capture->graph);
    delete capture->graph;
    return failed(cudaErrorStreamCaptureInvalidated, "end capture: something has spoilt it");
  }
  *graph = capture->graph;
  return no_good(stream->device);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long*,
                                     cudaGraph_t* graph, const cudaGraphNode_t** last, const cudaGraphEdgeData** edges,
                                     std::size_t* count) {
  const std::lock_guard hold(machine().lock);
  if (const cudaError_t error = bad_stream(stream, "what is captured")) return error;
  if (stream->capture == nullptr) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
  }
  *status = stream->capture->spoiled ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  *graph = stream->capture->graph;
  *last = stream->capture->last.data();
  *edges = nullptr;
  *count = stream->capture->last.size();
  return cudaSuccess;
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData*,
                                                std::size_t count, unsigned flags) {
  const std::lock_guard hold(machine().lock);
  if (const cudaError_t error = bad_stream(stream, "what follows what")) return error;
  if (stream->capture == nullptr || flags != cudaStreamSetCaptureDependencies) {
    return failed(cudaErrorIllegalState, "what follows what: the stream is not captured, or not to be set");
  }
  stream->capture->last.assign(nodes, nodes + count);
  return cudaSuccess;
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                  std::size_t count) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (!m.graphs.contains(graph)) return failed(cudaErrorInvalidValue, "an empty node: of what is no graph");
  *node = graph->add({}, {after, count});
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (!m.graphs.contains(graph)) return failed(cudaErrorInvalidValue, "instantiate: what is no graph");
  if (const cudaError_t error = no_good(graph->device)) return error;
  auto* const made = new CUgraphExec_st{.device = graph->device, .nodes = graph->nodes};
  m.executables.insert(made);
  *exec = made;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (const cudaError_t error = bad_stream(stream, "launch a graph")) return error;
  if (!m.executables.contains(exec)) return failed(cudaErrorInvalidValue, "launch a graph: what is none");
  if (stream->capture != nullptr) return spoil(*stream, "launch a graph");
  if (exec->device != stream->device) {
    return failed(cudaErrorInvalidValue,
                  fmt::format("launch a graph: of device {} on a stream of device {}", exec->device, stream->device));
  }
  ++m.graph_launches;
  m.put_graph(*exec, *stream);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (m.executables.erase(exec) == 0) return failed(cudaErrorInvalidValue, "destroy: of what is no graph");
  const int device = exec->device;
  delete exec;
  return no_good(device);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  Machine& m = machine();
  const std::lock_guard hold(m.lock);
  if (m.graphs.erase(graph) == 0) return failed(cudaErrorInvalidValue, "destroy: of what is no graph");
  const int device = graph->device;
  delete graph;
  return no_good(device);
}
