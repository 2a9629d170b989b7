#pragma once
// A compiled program: what can be said of it, and running it. Clients make loaded ones (pjrt/client.hpp), topologies
// those that nothing here can run (pjrt/topology.hpp).
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <troupe/pjrt/buffer.hpp>

namespace troupe::pjrt {

/// Bytes that a program takes on each device. `alias` of the outputs lie in donated arguments.
struct MemoryUse {
  std::int64_t code = 0, arguments = 0, outputs = 0, alias = 0, temporaries = 0, peak = 0;
};

class Executable {
 public:
  Executable() = default;
  Executable(std::shared_ptr<const Plugin> keeper, c::Executable* executable)
      : handle_(std::move(keeper), executable) {}

  Result<std::size_t> outputs() const;
  /// What the compiler estimates, such as "flops" and "bytes accessed". Errors: some plug-ins have none.
  Result<std::vector<NamedValue>> cost() const;
  Result<MemoryUse> memory() const;
  /// How often each operation stands in what the compiler made of the program, by XLA's names: "all-reduce".
  Result<std::map<std::string, std::int64_t>> operations() const;
  /// For this build of the plug-in alone; see Client::load.
  Result<std::string> serialised() const;

 private:
  Handle<c::Executable, c::ExecutableDestroy> handle_;
};

/// Of one run, [device][output]. They may be used at once, also as arguments.
using Outputs = std::vector<std::vector<Buffer>>;

class LoadedExecutable {
 public:
  LoadedExecutable() = default;
  /// Errors: the plug-in's.
  static Result<LoadedExecutable> make(std::shared_ptr<const Plugin> keeper, c::LoadedExecutable* loaded);

  const Executable& about() const { return about_; }
  /// Begins a run on all devices that the program was compiled for; arguments[d] are those of device d. Arguments that
  /// the program says are donated are gone afterwards, but for those at the indexes `kept`; the handles stay the
  /// caller's. Returns before the devices are done, but the plug-in's queue is bounded and holds the caller up when it
  /// is full. Errors: the plug-in's, of the call: kInvalidArgument for arguments of another size, number or for a
  /// buffer that was donated before. What fails later is in the outputs' events (Buffer::ready).
  Result<Outputs> execute(std::span<const std::vector<const Buffer*>> arguments,
                          std::span<const std::int64_t> kept = {}) const;

 private:
  Handle<c::LoadedExecutable, c::LoadedExecutableDestroy> handle_;
  Executable about_;
  std::size_t outputs_ = 0;
};

/// The text of a program as the API takes it, which points to `code`.
c::Program program_of(std::string_view code);

}  // namespace troupe::pjrt
