#include <troupe/actors/run_checkpoint.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include <troupe/actors/protocol.hpp>
#include <troupe/core/atomic_file.hpp>

namespace troupe::actors {
namespace {

constexpr const char* kTopologyCounter = "run/topology";
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

/// Null when the checkpoint holds nothing of this instance.
Result<std::shared_ptr<const InstanceState>> instance_state(const messages::OpenCheckpoint& checkpoint,
                                                            const std::string& name) {
  messages::FramePool pool;
  auto state = std::make_shared<InstanceState>();
  bool any = false;
  for (const messages::TensorBytes& tensor : checkpoint.tensors) {
    if (auto local = local_name(tensor.name, name)) {
      any = true;
      state->role.tensors.push_back(
          {std::move(*local), tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}});
    }
  }
  for (const messages::Counter& counter : checkpoint.counters) {
    if (auto local = local_name(counter.name, name)) {
      any = true;
      state->role.counters.push_back({*local, counter.value});
    }
  }
  if (const auto* chunks = checkpoint.find_role(name)) {
    any = true;
    state->role.chunks = *chunks;
  }
  if (const auto* waiting = checkpoint.find_role(name + kWaiting)) {
    any = true;
    for (const auto& chunk : *waiting) {
      TROUPE_ASSIGN(auto item, unpack_waiting(pool, chunk));
      state->waiting.push_back(std::move(item));
    }
  }
  return any ? std::shared_ptr<const InstanceState>(std::move(state)) : nullptr;
}

std::string shard_name(std::uint64_t cut) { return fmt::format("step-{:09}", cut); }

/// Folders of nodes that have a part of the cut, sorted.
std::vector<std::filesystem::path> shards(const std::filesystem::path& directory, std::uint64_t cut) {
  std::vector<std::filesystem::path> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    if (std::filesystem::exists(entry.path() / shard_name(cut), ignored)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Result<std::shared_ptr<const Cut>> to_cut(const Topology& topology, const messages::OpenCheckpoint& checkpoint) {
  TROUPE_TRY(check_topology(topology, checkpoint));
  auto cut = std::make_shared<Cut>();
  for (const std::string& name : instance_names(topology)) {
    TROUPE_ASSIGN(auto state, instance_state(checkpoint, name));
    if (state == nullptr) state = std::make_shared<const InstanceState>();
    cut->instances.push_back({name, std::move(state)});
  }
  return std::shared_ptr<const Cut>(std::move(cut));
}

Status commit_cut(const std::filesystem::path& directory, std::uint64_t cut, const std::vector<std::string>& nodes) {
  const nlohmann::ordered_json json = {{"cut", cut}, {"nodes", nodes}};
  return write_file_atomic((directory / "cut.json").string(), json.dump() + "\n");
}

Result<std::uint64_t> committed_cut(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "cut.json";
  std::ifstream stream(file);
  if (!stream) {
    return Error{Code::kNotFound, fmt::format("{}: no checkpoint of a run over nodes is here", file.string())};
  }
  const auto json = nlohmann::json::parse(stream, nullptr, false);
  if (!json.is_object() || !json.contains("cut") || !json["cut"].is_number_unsigned()) {
    return Error{Code::kCorrupt, fmt::format("{}: got no cut", file.string())};
  }
  return json["cut"].get<std::uint64_t>();
}

Result<messages::OpenCheckpoint> open_part(const std::filesystem::path& directory, const std::string& node,
                                           std::uint64_t cut) {
  return messages::open_checkpoint((directory / node).string(), shard_name(cut));
}

Result<std::shared_ptr<const InstanceState>> load_instance(const Topology& topology,
                                                           const std::filesystem::path& directory,
                                                           const std::string& instance, std::uint64_t cut) {
  for (const std::filesystem::path& node : shards(directory, cut)) {
    TROUPE_ASSIGN(const auto shard, open_part(directory, node.filename().string(), cut));
    TROUPE_TRY(check_topology(topology, shard));
    TROUPE_ASSIGN(auto state, instance_state(shard, instance));
    if (state != nullptr) return state;
  }
  return std::shared_ptr<const InstanceState>();
}

Result<std::vector<messages::OpenCheckpoint>> open_run_checkpoint(const std::filesystem::path& directory) {
  std::vector<messages::OpenCheckpoint> parts;
  auto cut = committed_cut(directory);
  if (!cut.ok()) {
    if (cut.error().code != Code::kNotFound) return cut.error();
    TROUPE_ASSIGN(auto whole, messages::open_newest_checkpoint(directory.string()));
    parts.push_back(std::move(whole));
    return parts;
  }
  for (const std::filesystem::path& node : shards(directory, *cut)) {
    TROUPE_ASSIGN(auto shard, open_part(directory, node.filename().string(), *cut));
    parts.push_back(std::move(shard));
  }
  if (parts.empty()) {
    return Error{Code::kNotFound, fmt::format("{}: no node's part of cut {} is here", directory.string(), *cut)};
  }
  return parts;
}

Result<std::vector<float>> group_values(std::span<const messages::TensorBytes> tensors, const std::string& instance,
                                        const learner::ParamLayout& layout) {
  std::vector<float> values(static_cast<std::size_t>(layout.elements), 0.0F);
  for (const learner::ParamEntry& entry : layout.entries) {
    const std::string name = instance + "/" + entry.name;
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const messages::TensorBytes& tensor) { return tensor.name == name; });
    if (found == tensors.end()) return Error{Code::kNotFound, fmt::format("no tensor \"{}\"", name)};
    if (found->dtype != DType::kF32 || found->shape != entry.shape) {
      return Error{Code::kShapeMismatch,
                   fmt::format("tensor \"{}\" is {}{}, expected float32{}", name, to_string(found->dtype),
                               found->shape.to_string(), entry.shape.to_string())};
    }
    std::memcpy(values.data() + entry.offset, found->bytes.data(), found->bytes.size());
  }
  return values;
}

}  // namespace troupe::actors
