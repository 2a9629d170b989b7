#pragma once
// The part of PJRT's C API that Troupe calls, in declarations of our own: a plug-in is a shared object that exports
// GetPjrtApi(), so this is an ABI, and all that has to agree are offsets. The API grows at the ends of its table and of
// its structs alone, and a plug-in reads no more of a struct than `struct_size` says; these are the structs of version
// 0.114. Only the sources of pjrt/ and their tests include this header.
//
// The indexes and offsets were compared by hand with the header pjrt_c_api.h 0.114 of the OpenXLA project, as the
// source archive pypjrt 0.1.1 has it; tests/pjrt/api_test.cpp keeps them where they are.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe::pjrt::c {

// Objects of the plug-in, which only its own functions look into.
struct Error;
struct Event;
struct Client;
struct Device;
struct DeviceDescription;
struct Buffer;
struct Executable;
struct LoadedExecutable;
struct TopologyDescription;
struct SerializedExecutable;

/// Every struct of the API begins so.
struct Head {
  std::size_t struct_size = 0;
  void* extension = nullptr;
};

/// What GetPjrtApi() returns; function i is the i-th pointer behind it, see kFirstFunction.
struct Api {
  Head head;
  Head version_head;
  int major = 0;
  int minor = 0;
};
inline constexpr std::size_t kFirstFunction = 40;
inline constexpr const char* kEntry = "GetPjrtApi";

/// Which function of the table takes a struct of arguments; each struct below has one as kFunction.
struct Function {
  std::size_t index = 0;
  std::string_view name;
};

enum Type : int { kPred = 1, kS32 = 4, kS64 = 5, kU8 = 6, kF32 = 11, kF64 = 12, kBF16 = 13 };

enum NamedValueType : int { kString, kInt64, kInt64List, kFloat, kBool };
struct NamedValue {
  Head head{sizeof(NamedValue)};
  const char* name = nullptr;
  std::size_t name_size = 0;
  NamedValueType type = kString;
  union {
    const char* string;
    std::int64_t int64;
    const std::int64_t* int64_list;
    float real;
    bool boolean;
  } value{};
  std::size_t value_size = 0;  ///< characters or list elements, else 1
};

// ---- errors: the only functions that return nothing ----

struct ErrorDestroy {
  static constexpr Function kFunction{0, "PJRT_Error_Destroy"};
  Head head{sizeof(ErrorDestroy)};
  Error* object = nullptr;
};
struct ErrorMessage {
  static constexpr Function kFunction{1, "PJRT_Error_Message"};
  Head head{sizeof(ErrorMessage)};
  const Error* error = nullptr;
  const char* text = nullptr;
  std::size_t size = 0;
};
struct ErrorGetCode {
  static constexpr Function kFunction{2, "PJRT_Error_GetCode"};
  Head head{sizeof(ErrorGetCode)};
  const Error* error = nullptr;
  int code = 0;
};

// ---- the plug-in ----

struct PluginInitialize {
  static constexpr Function kFunction{3, "PJRT_Plugin_Initialize"};
  Head head{sizeof(PluginInitialize)};
};
struct PluginAttributes {
  static constexpr Function kFunction{4, "PJRT_Plugin_Attributes"};
  Head head{sizeof(PluginAttributes)};
  const NamedValue* attributes = nullptr;
  std::size_t count = 0;
};

// ---- events ----

struct EventDestroy {
  static constexpr Function kFunction{5, "PJRT_Event_Destroy"};
  Head head{sizeof(EventDestroy)};
  Event* object = nullptr;
};
struct EventIsReady {
  static constexpr Function kFunction{6, "PJRT_Event_IsReady"};
  Head head{sizeof(EventIsReady)};
  Event* event = nullptr;
  bool ready = false;
};
struct EventAwait {
  static constexpr Function kFunction{8, "PJRT_Event_Await"};
  Head head{sizeof(EventAwait)};
  Event* event = nullptr;
};

// ---- clients and devices ----

struct ClientCreate {
  static constexpr Function kFunction{10, "PJRT_Client_Create"};
  Head head{sizeof(ClientCreate)};
  const NamedValue* options = nullptr;
  std::size_t count = 0;
  void* callbacks[4] = {};  ///< of a key-value store, for clients of several processes
  Client* client = nullptr;
  void* more_callbacks[2] = {};
};
struct ClientDestroy {
  static constexpr Function kFunction{11, "PJRT_Client_Destroy"};
  Head head{sizeof(ClientDestroy)};
  Client* object = nullptr;
};
struct ClientPlatformName {
  static constexpr Function kFunction{12, "PJRT_Client_PlatformName"};
  Head head{sizeof(ClientPlatformName)};
  Client* client = nullptr;
  const char* text = nullptr;
  std::size_t size = 0;
};
struct ClientPlatformVersion {
  static constexpr Function kFunction{14, "PJRT_Client_PlatformVersion"};
  Head head{sizeof(ClientPlatformVersion)};
  Client* client = nullptr;
  const char* text = nullptr;
  std::size_t size = 0;
};
struct ClientAddressableDevices {
  static constexpr Function kFunction{16, "PJRT_Client_AddressableDevices"};
  Head head{sizeof(ClientAddressableDevices)};
  Client* client = nullptr;
  Device* const* devices = nullptr;
  std::size_t count = 0;
};
struct DeviceGetDescription {
  static constexpr Function kFunction{29, "PJRT_Device_GetDescription"};
  Head head{sizeof(DeviceGetDescription)};
  Device* device = nullptr;
  DeviceDescription* description = nullptr;
};
struct DeviceDescriptionAttributes {
  static constexpr Function kFunction{25, "PJRT_DeviceDescription_Attributes"};
  Head head{sizeof(DeviceDescriptionAttributes)};
  DeviceDescription* description = nullptr;
  std::size_t count = 0;
  const NamedValue* attributes = nullptr;
};
struct DeviceDescriptionKind {
  static constexpr Function kFunction{26, "PJRT_DeviceDescription_Kind"};
  Head head{sizeof(DeviceDescriptionKind)};
  DeviceDescription* description = nullptr;
  const char* text = nullptr;
  std::size_t size = 0;
};
struct OptionalInt64 {
  std::int64_t value = 0;
  bool is_set = false;
};
struct DeviceMemoryStats {
  static constexpr Function kFunction{34, "PJRT_Device_MemoryStats"};
  Head head{sizeof(DeviceMemoryStats)};
  Device* device = nullptr;
  std::int64_t bytes_in_use = 0;
  OptionalInt64 peak_bytes_in_use, allocations, largest_allocation, bytes_limit, reserved, peak_reserved,
      reservable_limit, largest_free_block, pool, peak_pool, peak_allocated;
};

// ---- buffers ----

/// kImmutableOnlyDuringCall: the plug-in copies before it returns.
enum HostBufferSemantics : int { kImmutableOnlyDuringCall = 0 };
struct ClientBufferFromHostBuffer {
  static constexpr Function kFunction{22, "PJRT_Client_BufferFromHostBuffer"};
  Head head{sizeof(ClientBufferFromHostBuffer)};
  Client* client = nullptr;
  const void* data = nullptr;
  Type type = kF32;
  const std::int64_t* dims = nullptr;
  std::size_t rank = 0;
  const std::int64_t* byte_strides = nullptr;
  std::size_t strides = 0;
  HostBufferSemantics semantics = kImmutableOnlyDuringCall;
  Device* device = nullptr;
  void* memory = nullptr;
  void* layout = nullptr;
  Event* done_with_host = nullptr;
  Buffer* buffer = nullptr;
};
/// Memory of the device that the plug-in does not own, as a buffer.
struct ClientCreateViewOfDeviceBuffer {
  static constexpr Function kFunction{93, "PJRT_Client_CreateViewOfDeviceBuffer"};
  Head head{sizeof(ClientCreateViewOfDeviceBuffer)};
  Client* client = nullptr;
  void* data = nullptr;
  const std::int64_t* dims = nullptr;
  std::size_t rank = 0;
  Type type = kF32;
  void* layout = nullptr;
  Device* device = nullptr;
  void (*on_delete)(void* data, void* argument) = nullptr;
  void* on_delete_argument = nullptr;
  std::intptr_t stream = 0;
  Buffer* buffer = nullptr;
  void* memory = nullptr;
};
struct BufferDestroy {
  static constexpr Function kFunction{58, "PJRT_Buffer_Destroy"};
  Head head{sizeof(BufferDestroy)};
  Buffer* object = nullptr;
};
struct BufferDelete {
  static constexpr Function kFunction{67, "PJRT_Buffer_Delete"};
  Head head{sizeof(BufferDelete)};
  Buffer* buffer = nullptr;
};
struct BufferToHostBuffer {
  static constexpr Function kFunction{70, "PJRT_Buffer_ToHostBuffer"};
  Head head{sizeof(BufferToHostBuffer)};
  Buffer* buffer = nullptr;
  void* layout = nullptr;
  void* to = nullptr;  ///< null: only asks for the size
  std::size_t size = 0;
  Event* event = nullptr;
};
struct BufferReadyEvent {
  static constexpr Function kFunction{72, "PJRT_Buffer_ReadyEvent"};
  Head head{sizeof(BufferReadyEvent)};
  Buffer* buffer = nullptr;
  Event* event = nullptr;
};
struct BufferUnsafePointer {
  static constexpr Function kFunction{73, "PJRT_Buffer_UnsafePointer"};
  Head head{sizeof(BufferUnsafePointer)};
  Buffer* buffer = nullptr;
  std::uintptr_t address = 0;
};
struct BufferCopyRawToHost {
  static constexpr Function kFunction{100, "PJRT_Buffer_CopyRawToHost"};
  Head head{sizeof(BufferCopyRawToHost)};
  Buffer* buffer = nullptr;
  void* to = nullptr;
  std::int64_t offset = 0;
  std::int64_t size = 0;
  Event* event = nullptr;
};

// ---- programs ----

struct Program {
  Head head{sizeof(Program)};
  const char* code = nullptr;
  std::size_t code_size = 0;
  const char* format = nullptr;
  std::size_t format_size = 0;
};
struct ClientCompile {
  static constexpr Function kFunction{20, "PJRT_Client_Compile"};
  Head head{sizeof(ClientCompile)};
  Client* client = nullptr;
  const Program* program = nullptr;
  const char* options = nullptr;
  std::size_t options_size = 0;
  LoadedExecutable* executable = nullptr;
};
struct Compile {
  static constexpr Function kFunction{89, "PJRT_Compile"};
  Head head{sizeof(Compile)};
  const TopologyDescription* topology = nullptr;
  const Program* program = nullptr;
  const char* options = nullptr;
  std::size_t options_size = 0;
  Client* client = nullptr;
  Executable* executable = nullptr;
};
struct ExecutableDestroy {
  static constexpr Function kFunction{40, "PJRT_Executable_Destroy"};
  Head head{sizeof(ExecutableDestroy)};
  Executable* object = nullptr;
};
struct ExecutableNumOutputs {
  static constexpr Function kFunction{44, "PJRT_Executable_NumOutputs"};
  Head head{sizeof(ExecutableNumOutputs)};
  Executable* executable = nullptr;
  std::size_t count = 0;
};
struct ExecutableGetCostAnalysis {
  static constexpr Function kFunction{46, "PJRT_Executable_GetCostAnalysis"};
  Head head{sizeof(ExecutableGetCostAnalysis)};
  Executable* executable = nullptr;
  std::size_t count = 0;
  const NamedValue* properties = nullptr;
};
struct ExecutableOptimizedProgram {
  static constexpr Function kFunction{48, "PJRT_Executable_OptimizedProgram"};
  Head head{sizeof(ExecutableOptimizedProgram)};
  Executable* executable = nullptr;
  Program* program = nullptr;  ///< without code it gets its size; with room for so much it is written there
};
struct ExecutableSerialize {
  static constexpr Function kFunction{49, "PJRT_Executable_Serialize"};
  Head head{sizeof(ExecutableSerialize)};
  const Executable* executable = nullptr;
  const char* bytes = nullptr;
  std::size_t size = 0;
  SerializedExecutable* backing = nullptr;  ///< holds `bytes`
  void (*release)(SerializedExecutable*) = nullptr;
};
struct ExecutableGetCompiledMemoryStats {
  static constexpr Function kFunction{96, "PJRT_Executable_GetCompiledMemoryStats"};
  Head head{sizeof(ExecutableGetCompiledMemoryStats)};
  Executable* executable = nullptr;
  std::int64_t code = 0, arguments = 0, outputs = 0, alias = 0, temporaries = 0;
  std::int64_t of_host[5] = {};
  std::int64_t peak = 0, total = 0;
  std::int64_t more[3] = {};
};
struct LoadedExecutableDestroy {
  static constexpr Function kFunction{50, "PJRT_LoadedExecutable_Destroy"};
  Head head{sizeof(LoadedExecutableDestroy)};
  LoadedExecutable* object = nullptr;
};
struct LoadedExecutableGetExecutable {
  static constexpr Function kFunction{51, "PJRT_LoadedExecutable_GetExecutable"};
  Head head{sizeof(LoadedExecutableGetExecutable)};
  LoadedExecutable* loaded = nullptr;
  Executable* executable = nullptr;
};
struct ExecutableDeserializeAndLoad {
  static constexpr Function kFunction{56, "PJRT_Executable_DeserializeAndLoad"};
  Head head{sizeof(ExecutableDeserializeAndLoad)};
  Client* client = nullptr;
  const char* bytes = nullptr;
  std::size_t size = 0;
  LoadedExecutable* loaded = nullptr;
  const char* options = nullptr;
  std::size_t options_size = 0;
  void* load_options = nullptr;
};
struct ExecuteOptions {
  Head head{sizeof(ExecuteOptions)};
  void* callbacks[2] = {};
  std::size_t callback_counts[2] = {};
  int launch_id = 0;
  const std::int64_t* not_donated = nullptr;  ///< indexes of arguments
  std::size_t not_donated_count = 0;
  void* context = nullptr;
  const char* call_location = nullptr;
  std::size_t tasks = 0;
  int* task_ids = nullptr;
  std::int64_t* incarnation_ids = nullptr;
  void* multi_slice = nullptr;
  bool row_major_callbacks = false;
  void* output_callbacks = nullptr;
  std::size_t output_callback_count = 0;
};
struct LoadedExecutableExecute {
  static constexpr Function kFunction{55, "PJRT_LoadedExecutable_Execute"};
  Head head{sizeof(LoadedExecutableExecute)};
  LoadedExecutable* executable = nullptr;
  ExecuteOptions* options = nullptr;
  Buffer* const* const* arguments = nullptr;  ///< [device][argument]
  std::size_t devices = 0;
  std::size_t argument_count = 0;
  Buffer** const* outputs = nullptr;  ///< [device][output]: arrays of the caller's
  Event** done = nullptr;             ///< [device]: the same; null: not wanted
  Device* device = nullptr;           ///< null: those that it was compiled for
};

// ---- topologies: devices that need not be there ----

struct TopologyDescriptionCreate {
  static constexpr Function kFunction{82, "PJRT_TopologyDescription_Create"};
  Head head{sizeof(TopologyDescriptionCreate)};
  const char* name = nullptr;
  std::size_t name_size = 0;
  const NamedValue* options = nullptr;
  std::size_t count = 0;
  TopologyDescription* topology = nullptr;
};
struct TopologyDescriptionDestroy {
  static constexpr Function kFunction{83, "PJRT_TopologyDescription_Destroy"};
  Head head{sizeof(TopologyDescriptionDestroy)};
  TopologyDescription* object = nullptr;
};
struct TopologyDescriptionGetDeviceDescriptions {
  static constexpr Function kFunction{86, "PJRT_TopologyDescription_GetDeviceDescriptions"};
  Head head{sizeof(TopologyDescriptionGetDeviceDescriptions)};
  const TopologyDescription* topology = nullptr;
  DeviceDescription* const* descriptions = nullptr;
  std::size_t count = 0;
};

}  // namespace troupe::pjrt::c
