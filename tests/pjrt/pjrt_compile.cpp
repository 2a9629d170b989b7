// pjrt_compile PLUGIN TOPOLOGY REPLICAS < TEXT: compiles StableHLO for devices that need not be there, and prints what
// came of it. A process of its own because libtpu ends its process on some programs, and because it reads its
// environment as it is loaded.
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <string>

#include <troupe/pjrt/gpu_topology.hpp>
#include <troupe/pjrt/topology.hpp>

namespace troupe::pjrt {
namespace {

Status compile(const char* path, const char* topology_name, int replicas) {
  TROUPE_ASSIGN(const auto plugin, Plugin::open(path));
  if (std::string_view(topology_name) == "client") {
    TROUPE_ASSIGN(const auto client, Client::make(plugin));
    std::cout << "platform " << client->platform() << "\n";
    return {};
  }
  TROUPE_ASSIGN(const Topology topology, Topology::make(plugin, topology_name));
  TROUPE_ASSIGN(const std::vector<DeviceInfo> devices, topology.devices());
  std::cout << "devices " << devices.size() << "\nkind " << devices[0].kind << "\n";
  for (const NamedValue& each : devices[0].attributes) std::cout << "attribute " << to_string(each) << "\n";
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  CompileOptions options{.replicas = replicas, .quickly = true};
  if (is_gpu_topology(topology_name)) options.flags = {{"xla_gpu_autotune_level", std::int64_t{0}}};
  TROUPE_ASSIGN(const Executable program, topology.compile(text, options));
  TROUPE_ASSIGN(const std::size_t outputs, program.outputs());
  TROUPE_ASSIGN(const MemoryUse memory, program.memory());
  TROUPE_ASSIGN(const std::string bytes, program.serialised());
  const auto costs = program.cost();  // which not all have
  std::cout << "outputs " << outputs << "\nalias " << memory.alias << "\narguments " << memory.arguments << "\npeak "
            << memory.peak << "\nserialised " << (bytes.size() > 1000 ? "yes" : "no") << "\n";
  TROUPE_ASSIGN(const auto operations, program.operations());
  for (const auto& [name, count] : operations) std::cout << "operation " << name << " " << count << "\n";
  if (!costs.ok()) return {};
  for (const NamedValue& each : *costs) std::cout << "cost " << to_string(each) << "\n";
  return {};
}

}  // namespace
}  // namespace troupe::pjrt

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  troupe::pjrt::prepare_libtpu_to_compile();
  (void)troupe::pjrt::prepare_cuda_to_compile();
  const troupe::Status done = troupe::pjrt::compile(argv[1], argv[2], std::atoi(argv[3]));
  if (!done.ok()) {
    std::cout << "error " << troupe::to_string(done.error().code) << " " << done.error().message << "\n";
  }
  std::cout.flush();
  std::_Exit(done.ok() ? 0 : 1);  // libtpu's threads need no farewell
}
