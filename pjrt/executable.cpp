#include <troupe/pjrt/executable.hpp>

#include <fmt/format.h>

#include <string_view>

#include <troupe/core/proto_reader.hpp>

namespace troupe::pjrt {

c::Program program_of(std::string_view code) {
  static constexpr std::string_view kFormat = "mlir";  // StableHLO as text or bytecode
  return {.code = code.data(), .code_size = code.size(), .format = kFormat.data(), .format_size = kFormat.size()};
}

Result<std::size_t> Executable::outputs() const {
  c::ExecutableNumOutputs args{.executable = handle_.get()};
  TROUPE_TRY(handle_.plugin().call(args));
  return args.count;
}

Result<std::vector<NamedValue>> Executable::cost() const {
  c::ExecutableGetCostAnalysis args{.executable = handle_.get()};
  TROUPE_TRY(handle_.plugin().call(args));
  return from_c(args.properties, args.count);
}

Result<MemoryUse> Executable::memory() const {
  c::ExecutableGetCompiledMemoryStats args{.executable = handle_.get()};
  TROUPE_TRY(handle_.plugin().call(args));
  return MemoryUse{args.code, args.arguments, args.outputs, args.alias, args.temporaries, args.peak};
}

Result<std::map<std::string, std::int64_t>> Executable::operations() const {
  c::Program program;
  c::ExecutableOptimizedProgram args{.executable = handle_.get(), .program = &program};
  TROUPE_TRY(handle_.plugin().call(args));
  std::vector<std::uint8_t> bytes(program.code_size);
  program.code = reinterpret_cast<const char*>(bytes.data());
  TROUPE_TRY(handle_.plugin().call(args));
  // Of xla/service/hlo.proto: HloModuleProtoWithConfig, or its HloModuleProto alone.
  enum : std::uint64_t { kModule = 1, kComputations = 3, kInstructions = 2, kOpcode = 2 };
  constexpr std::string_view kWhere = "pjrt: the optimised program";
  const std::string_view format(program.format, program.format_size);
  if (!format.starts_with("hlo")) {
    return Error{Code::kInvalidArgument, fmt::format("{} is {}, expected hlo", kWhere, format)};
  }
  std::map<std::string, std::int64_t> counts;
  const auto instruction = [&](ProtoReader::Bytes of) {
    return each_message(of, kOpcode, kWhere, [&](ProtoReader::Bytes name) -> Status {
      ++counts[std::string(name.begin(), name.end())];
      return {};
    });
  };
  const auto module = [&](ProtoReader::Bytes of) {
    return each_message(of, kComputations, kWhere, [&](ProtoReader::Bytes computation) {
      return each_message(computation, kInstructions, kWhere, instruction);
    });
  };
  TROUPE_TRY(format == "hlo" ? module(bytes) : each_message(bytes, kModule, kWhere, module));
  return counts;
}

Result<std::string> Executable::serialised() const {
  c::ExecutableSerialize args{.executable = handle_.get()};
  TROUPE_TRY(handle_.plugin().call(args));
  std::string bytes(args.bytes, args.size);
  if (args.release != nullptr) args.release(args.backing);
  return bytes;
}

Result<LoadedExecutable> LoadedExecutable::make(std::shared_ptr<const Plugin> keeper, c::LoadedExecutable* loaded) {
  LoadedExecutable made;
  made.handle_ = {keeper, loaded};
  c::LoadedExecutableGetExecutable args{.loaded = loaded};
  TROUPE_TRY(keeper->call(args));
  made.about_ = Executable(std::move(keeper), args.executable);
  TROUPE_ASSIGN(made.outputs_, made.about_.outputs());
  return made;
}

Result<Outputs> LoadedExecutable::execute(std::span<const std::vector<const Buffer*>> arguments,
                                          std::span<const std::int64_t> kept) const {
  const std::size_t devices = arguments.size(), count = devices == 0 ? 0 : arguments[0].size();
  std::vector<c::Buffer*> buffers;  // all inputs, then all outputs
  buffers.reserve(devices * (count + outputs_));
  for (const auto& list : arguments) {
    if (list.size() != count) {
      return Error{Code::kInvalidArgument,
                   fmt::format("pjrt: execute: {} arguments for one device and {} for another", count, list.size())};
    }
    for (const Buffer* const each : list) {
      if (!*each) {
        return Error{Code::kInvalidArgument,
                     fmt::format("pjrt: execute: argument {} is an empty buffer", buffers.size() % count)};
      }
      buffers.push_back(each->get());
    }
  }
  buffers.resize(devices * (count + outputs_));
  std::vector<c::Buffer**> lists(2 * devices);
  for (std::size_t d = 0; d < devices; ++d) {
    lists[d] = buffers.data() + d * count;
    lists[devices + d] = buffers.data() + devices * count + d * outputs_;
  }
  c::Buffer** const* const output_lists = lists.data() + devices;
  c::ExecuteOptions options{.not_donated = kept.data(), .not_donated_count = kept.size()};
  c::LoadedExecutableExecute args{.executable = handle_.get(),
                                  .options = &options,
                                  .arguments = lists.data(),
                                  .devices = devices,
                                  .argument_count = count,
                                  .outputs = output_lists};
  TROUPE_TRY(handle_.plugin().call(args));
  Outputs made(devices);
  for (std::size_t d = 0; d < devices; ++d) {
    made[d].reserve(outputs_);
    for (std::size_t o = 0; o < outputs_; ++o) made[d].emplace_back(handle_.keeper(), output_lists[d][o]);
  }
  return made;
}

}  // namespace troupe::pjrt
