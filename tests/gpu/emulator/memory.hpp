#pragma once
// The memory of the emulated devices, and pinned memory of the host. Every allocation starts as 0xff bytes and lies
// between guards of the same. Devices have an address range each, which cannot be touched but while it is open.
// Used by runtime.cpp, under its lock.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe_emulator {

/// Allocations in some address range.
class Allocations {
 public:
  /// The size of the allocation that [memory, memory + bytes) lies in, or -1.
  std::int64_t holds(const void* memory, std::size_t bytes) const;
  std::size_t count() const { return blocks_.size(); }

 protected:
  /// Bytes kept free on either side.
  static constexpr std::size_t kGuard = 256;
  static bool untouched(const std::byte* from, std::size_t bytes);
  /// What was written beside the allocation at `memory`, or nothing.
  std::string overrun(const std::byte* memory) const;
  static std::size_t whole_bytes(std::size_t bytes);  // with both guards

  std::map<std::byte*, std::size_t> blocks_;  // bytes asked for
};

class DeviceMemory : public Allocations {
 public:
  static constexpr std::size_t kReserved = std::size_t{4} << 30;  // addresses

  DeviceMemory();
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  bool contains(const void* memory) const;  // of its addresses
  /// Null where the device has no more. Aligned to 256 bytes.
  void* allocate(std::size_t bytes);
  /// False: no such allocation. *error: what was written beside it, or nothing. in_use: work that was put on a stream
  /// before has not run yet; the memory is then kept apart until it has, to see whether it writes there.
  bool release(void* memory, bool in_use, std::string* error);
  /// What was written to memory that had been released, or beside what is allocated; or nothing. The range must be
  /// open. idle: all work of the device has run.
  std::string check(bool idle);

  std::size_t total() const { return total_; }
  std::size_t used() const { return used_; }
  void set_total(std::size_t bytes) { total_ = bytes; }

  void open();
  void close();
  bool is_open() const { return opened_ > 0; }

 private:
  std::byte* base_ = nullptr;
  std::size_t opened_ = 0;
  std::size_t total_ = 0, used_ = 0;
  std::map<std::byte*, std::size_t> released_;  // kept apart
};

class PinnedMemory : public Allocations {
 public:
  ~PinnedMemory();
  void* allocate(std::size_t bytes);
  bool release(void* memory, std::string* error);
};

}  // namespace troupe_emulator
