#pragma once
// A PJRT plug-in: XLA for some kind of device behind a C API, in a shared object that the user names or fetches. Opened
// at run time like the CUDA plug-ins (gpu/), by an engine of the learner; a program that asks for no such device never
// comes here.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/pjrt/api.hpp>

namespace troupe::pjrt {

/// An option that goes in, or an attribute that comes out.
struct NamedValue {
  using Value = std::variant<std::string, std::int64_t, std::vector<std::int64_t>, float, bool>;
  std::string name;
  Value value;
};
/// "device_memory_bytes_limit = 16911433728", "coords = [0, 0, 0]".
std::string to_string(const NamedValue& value);

/// An open plug-in, whose functions are called by their structs of arguments. Threads may share it. It is never closed,
/// because its threads and static objects outlive everything that it made.
class Plugin {
 public:
  /// Opens and initialises the shared object at `path`; a process does so once for each path, and a failure of the
  /// plug-in to initialise stays. What plug-ins read from the environment must be there before. Errors: kNotFound (no
  /// such file), kUnavailable (it cannot be loaded), kInvalidArgument (it is no plug-in, or of another major version),
  /// or what the plug-in says.
  static Result<std::shared_ptr<const Plugin>> open(const std::filesystem::path& path);

  /// Whether the file is a whole shared object, without loading it: one that is cut short would end the process when
  /// its pages are touched. Errors: kInvalidArgument, kIo.
  static Status check_file(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  int major() const { return api_->major; }
  int minor() const { return api_->minor; }
  /// "pjrt_c_api_cpu_plugin.so (PJRT 0.112)": for messages.
  std::string name() const;
  /// What the plug-in says of itself, such as the versions of StableHLO that it reads. Errors: the plug-in's.
  Result<std::vector<NamedValue>> attributes() const;
  /// Whether it is new enough to have the function of these arguments.
  template <typename Args>
  bool has() const {
    return find(Args::kFunction) != nullptr;
  }

  /// Calls the function that takes `args`. Errors carry the plug-in's own words, and a code made of the plug-in's;
  /// kInvalidArgument where the plug-in is too old to have the function, which the message says with both versions.
  template <typename Args>
  Status call(Args& args) const {
    void* const function = find(Args::kFunction);
    if (function == nullptr) return missing(Args::kFunction);
    c::Error* const error = reinterpret_cast<c::Error* (*)(Args*)>(function)(&args);
    return error == nullptr ? Status() : status_of(error, Args::kFunction.name);
  }
  /// Destroys an object with the function of `Destroy`. A failure is nobody's to handle.
  template <typename Destroy, typename Object>
  void destroy(Object* object) const {
    Destroy args{.object = object};
    (void)call(args);
  }

 private:
  Plugin(std::filesystem::path path, const c::Api* api) : path_(std::move(path)), api_(api) {}
  static Result<std::shared_ptr<const Plugin>> load(const std::filesystem::path& path);
  void* find(const c::Function& function) const;
  /// The words and the code of an error of the plug-in's, which is destroyed.
  Status status_of(c::Error* error, std::string_view what) const;
  Error missing(const c::Function& function) const;

  std::filesystem::path path_;
  const c::Api* api_;
};

/// An object that a plug-in made, and destroys with the handle; empty after a move. `keeper` is the plug-in, in a
/// pointer that also keeps what the object belongs to: its client.
template <typename T, typename Destroy>
class Handle {
 public:
  Handle() = default;
  Handle(std::shared_ptr<const Plugin> keeper, T* object) : keeper_(std::move(keeper)), object_(object) {}
  ~Handle() {
    if (object_ != nullptr) keeper_->template destroy<Destroy>(object_);
  }
  Handle(Handle&& other) noexcept { swap(other); }
  Handle& operator=(Handle&& other) noexcept {
    Handle(std::move(other)).swap(*this);
    return *this;
  }

  T* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  const Plugin& plugin() const { return *keeper_; }
  const std::shared_ptr<const Plugin>& keeper() const { return keeper_; }

 private:
  void swap(Handle& other) noexcept {
    std::swap(keeper_, other.keeper_);
    std::swap(object_, other.object_);
  }
  std::shared_ptr<const Plugin> keeper_;
  T* object_ = nullptr;
};

/// Named values as the C API takes them; they point into what they were made of.
std::vector<c::NamedValue> to_c(const std::vector<NamedValue>& values);
std::vector<NamedValue> from_c(const c::NamedValue* values, std::size_t count);

}  // namespace troupe::pjrt
