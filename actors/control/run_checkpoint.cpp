#include <troupe/actors/control/run_checkpoint.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <troupe/actors/control/committed_cuts.hpp>
#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/core/log.hpp>

namespace troupe::actors {
namespace {

constexpr const char* kTopologyCounter = "run/topology";
/// And the name of each instance that the checkpoint holds: it may have no state at all.
constexpr const char* kInstancePrefix = "run/instance/";
constexpr const char* kWaiting = ".waiting";

/// Names of all instances, in the topology's order.
std::vector<std::string> instance_names(const Topology& topology) {
  std::vector<std::string> names;
  for (const RoleSpec& role : topology.roles) {
    for (std::int64_t index = 0; index < role.count; ++index) {
      names.push_back(RoleIdentity{role.name, index, role.count}.name());
    }
  }
  return names;
}

/// Edges are stored by channel number, so a checkpoint fits one list of roles and channels only.
std::int64_t topology_hash(const Topology& topology) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  auto mix = [&hash](const std::string& text) {
    for (char c : text + "\n") hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  };
  for (const RoleSpec& role : topology.roles) mix(fmt::format("{} x {}", role.name, role.count));
  for (const ChannelSpec& channel : topology.channels) mix(channel.name());
  return static_cast<std::int64_t>(hash);
}

/// A frame that waits is stored as three numbers of its edge, then its bytes.
using EdgeWords = std::array<std::uint32_t, 4>;

std::vector<std::byte> pack_waiting(const EdgeId& edge, const Frame& frame) {
  const EdgeWords words{edge.channel, edge.producer, edge.consumer, 0};
  const auto bytes = frame.bytes();
  std::vector<std::byte> chunk(sizeof(words) + bytes.size());
  std::memcpy(chunk.data(), words.data(), sizeof(words));
  std::copy(bytes.begin(), bytes.end(), chunk.begin() + sizeof(words));
  return chunk;
}

Result<std::pair<EdgeId, Frame>> unpack_waiting(messages::FramePool& pool, std::span<const std::byte> chunk) {
  EdgeWords words;
  if (chunk.size() < sizeof(words)) {
    return Error{Code::kCorrupt,
                 fmt::format("a waiting frame has {} bytes, expected {} or more", chunk.size(), sizeof(words))};
  }
  std::memcpy(words.data(), chunk.data(), sizeof(words));
  TROUPE_ASSIGN(Frame frame, pool.copy(chunk.subspan(sizeof(words))));
  return std::pair{EdgeId{words[0], words[1], words[2]}, std::move(frame)};
}

/// What of `name` follows "<instance>/", or nothing.
std::optional<std::string> local_name(const std::string& name, const std::string& instance) {
  if (name.size() <= instance.size() + 1 || !name.starts_with(instance) || name[instance.size()] != '/') return {};
  return name.substr(instance.size() + 1);
}

}  // namespace

messages::CheckpointContents to_contents(const Topology& topology, const Cut& cut,
                                         std::vector<messages::Counter> more) {
  messages::CheckpointContents contents;
  contents.counters = std::move(more);
  contents.counters.push_back({kTopologyCounter, topology_hash(topology)});
  for (const Cut::Instance& instance : cut.instances) {
    const std::string& name = instance.name;
    const InstanceState& state = *instance.state;
    contents.counters.push_back({kInstancePrefix + name, 1});
    for (const StateTensor& tensor : state.role.tensors) {
      contents.tensors.push_back({name + "/" + tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
    }
    for (const messages::Counter& counter : state.role.counters) {
      contents.counters.push_back({name + "/" + counter.name, counter.value});
    }
    if (!state.role.chunks.empty()) contents.roles.push_back({name, state.role.chunks});
    if (!state.waiting.empty()) {
      messages::RoleChunks& waiting = contents.roles.emplace_back();
      waiting.role = name + kWaiting;
      for (const auto& [edge, frame] : state.waiting) waiting.chunks.push_back(pack_waiting(edge, frame));
    }
  }
  return contents;
}

namespace {

Status check_topology(const Topology& topology, const messages::OpenCheckpoint& checkpoint) {
  TROUPE_ASSIGN(const std::int64_t hash, checkpoint.counter(kTopologyCounter));
  if (hash == topology_hash(topology)) return {};
  return Error{Code::kShapeMismatch,
               fmt::format("{}: the checkpoint has other roles, counts or channels than this run", checkpoint.path)};
}

/// Null when the instance is not in the checkpoint.
Result<std::shared_ptr<const InstanceState>> instance_state(const messages::OpenCheckpoint& checkpoint,
                                                            const std::string& name) {
  // An older checkpoint does not say which instances it has: all of them.
  const bool says = std::ranges::any_of(
      checkpoint.counters, [](const messages::Counter& counter) { return counter.name.starts_with(kInstancePrefix); });
  if (says && !checkpoint.counter(kInstancePrefix + name).ok()) return std::shared_ptr<const InstanceState>();
  messages::FramePool pool;
  auto state = std::make_shared<InstanceState>();
  for (const messages::TensorBytes& tensor : checkpoint.tensors) {
    if (auto local = local_name(tensor.name, name)) {
      state->role.tensors.push_back(
          {std::move(*local), tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}});
    }
  }
  for (const messages::Counter& counter : checkpoint.counters) {
    if (auto local = local_name(counter.name, name)) state->role.counters.push_back({*local, counter.value});
  }
  if (const auto* chunks = checkpoint.find_role(name)) state->role.chunks = *chunks;
  if (const auto* waiting = checkpoint.find_role(name + kWaiting)) {
    for (const auto& chunk : *waiting) {
      TROUPE_ASSIGN(auto item, unpack_waiting(pool, chunk));
      state->waiting.push_back(std::move(item));
    }
  }
  return std::shared_ptr<const InstanceState>(std::move(state));
}

/// Nodes whose part that holds the instance may be on this host, with the part's id where that is known.
std::vector<std::pair<std::string, std::string>> parts_with(const std::filesystem::path& directory,
                                                            const std::string& instance, std::uint64_t cut) {
  std::vector<std::pair<std::string, std::string>> nodes;
  if (const auto committed = find_cut(directory, cut); committed.ok()) {
    for (const CutPart& part : committed->parts) {
      const bool has = std::ranges::find(part.instances, instance) != part.instances.end();
      if (has) nodes.emplace_back(part.node, part.id);
    }
    return nodes;
  }
  // The file is on the chief's host.
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    if (std::filesystem::exists(entry.path() / cut_name(cut), ignored)) {
      nodes.emplace_back(entry.path().filename().string(), "");
    }
  }
  return nodes;
}

}  // namespace

Result<std::shared_ptr<const Cut>> to_cut(const Topology& topology, const messages::OpenCheckpoint& checkpoint) {
  TROUPE_TRY(check_topology(topology, checkpoint));
  auto cut = std::make_shared<Cut>();
  for (const std::string& name : instance_names(topology)) {
    TROUPE_ASSIGN(auto state, instance_state(checkpoint, name));
    if (state != nullptr) cut->instances.push_back({name, std::move(state)});
  }
  return std::shared_ptr<const Cut>(std::move(cut));
}

Result<std::shared_ptr<const InstanceState>> load_instance(const Topology& topology,
                                                           const std::filesystem::path& directory,
                                                           const std::string& instance, std::uint64_t cut) {
  for (const auto& [node, id] : parts_with(directory, instance, cut)) {
    const auto part = open_part(directory, node, cut, id);
    if (!part.ok()) {
      return Error{part.error().code, fmt::format("its state in checkpoint {}: part of node {}: {}", cut_name(cut),
                                                  node, part.error().message)};
    }
    TROUPE_TRY(check_topology(topology, *part));
    TROUPE_ASSIGN(auto state, instance_state(*part, instance));
    if (state != nullptr) return state;
  }
  return Error{Code::kNotFound, fmt::format("its state in checkpoint {} is in no part on this host, in {}",
                                            cut_name(cut), directory.string())};
}

Result<std::vector<messages::OpenCheckpoint>> open_parts(const std::filesystem::path& directory,
                                                         const CommittedCut& cut) {
  std::vector<messages::OpenCheckpoint> parts;
  for (const CutPart& part : cut.parts) {
    auto opened = open_part(directory, part.node, cut.number, part.id);
    if (!opened.ok() && !part.here) continue;  // it is on another host
    TROUPE_ASSIGN(messages::OpenCheckpoint here, std::move(opened));
    parts.push_back(std::move(here));
  }
  if (!parts.empty()) return parts;
  return Error{Code::kNotFound, fmt::format("{}: no node's part of checkpoint {} is on this host", directory.string(),
                                            cut_name(cut.number))};
}

Result<std::vector<messages::OpenCheckpoint>> open_run_checkpoint(const std::filesystem::path& directory) {
  std::vector<messages::OpenCheckpoint> parts;
  std::vector<messages::RejectedCheckpoint> rejected;
  std::string used;
  auto whole = whole_cuts(directory);
  if (whole.ok()) {
    const CommittedCut& cut = whole->cuts.front();
    used = cut_name(cut.number);
    rejected = std::move(whole->rejected);
    TROUPE_ASSIGN(parts, open_parts(directory, cut));
  } else if (whole.error().code == Code::kNotFound) {
    TROUPE_ASSIGN(auto newest, messages::open_newest_checkpoint(directory.string()));
    used = std::filesystem::path(newest.path).filename().string();
    rejected = newest.rejected;
    parts.push_back(std::move(newest));
  } else {
    return whole.error();
  }
  for (const auto& one : rejected) {
    log::warn("TRP-W603 checkpoint {} is damaged and not used: {}; using {}", one.name, one.reason, used);
  }
  return parts;
}

}  // namespace troupe::actors
