#include <troupe/pjrt/plugin.hpp>

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>

namespace troupe::pjrt {

namespace {

namespace fs = std::filesystem;

/// Of the canonical codes of Google's libraries. What the plug-in may do later is kUnavailable, also for want of
/// memory.
Code code_of(int code) {
  switch (code) {
    case 1:
      return Code::kCancelled;
    case 3:   // invalid argument
    case 9:   // failed precondition
    case 12:  // unimplemented
      return Code::kInvalidArgument;
    case 4:
      return Code::kDeadlineExceeded;
    case 5:
      return Code::kNotFound;
    case 6:
      return Code::kAlreadyExists;
    case 7:   // permission denied
    case 8:   // resource exhausted
    case 10:  // aborted
    case 14:  // unavailable
    case 16:  // unauthenticated
      return Code::kUnavailable;
    case 11:
      return Code::kOutOfRange;
    case 15:
      return Code::kCorrupt;
    default:
      return Code::kInternal;
  }
}

}  // namespace

std::string to_string(const NamedValue& named) {
  return std::visit([&](const auto& value) { return fmt::format("{} = {}", named.name, value); }, named.value);
}

Result<std::shared_ptr<const Plugin>> Plugin::open(const fs::path& path) {
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  if (error) return Error{Code::kNotFound, fmt::format("pjrt: no plug-in {}: {}", path.string(), error.message())};
  static std::mutex mutex;
  static std::map<fs::path, Result<std::shared_ptr<const Plugin>>> opened;
  const std::lock_guard lock(mutex);
  auto found = opened.find(file);
  if (found == opened.end()) found = opened.emplace(file, load(file)).first;
  return found->second;
}

Status Plugin::check_file(const fs::path& path) {
  const auto wrong = [&](std::string_view what) {
    return Error{Code::kInvalidArgument, fmt::format("pjrt: {}: {}", path.string(), what)};
  };
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return wrong("no file, expected a shared object");
  const auto size = static_cast<std::uint64_t>(fs::file_size(path, error));
  std::ifstream file(path, std::ios::binary);
  const auto read_at = [&file](std::uint64_t at, auto& to) {
    return file.seekg(static_cast<std::streamoff>(at)) && file.read(reinterpret_cast<char*>(&to), sizeof(to));
  };
  Elf64_Ehdr head{};
  if (error || !file) return Error{Code::kIo, fmt::format("pjrt: {}: cannot be read", path.string())};
  if (!read_at(0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64) {
    return wrong("no shared object of 64 bits");
  }
  std::uint64_t end = head.e_phoff;
  for (std::uint64_t i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr part{};
    if (!read_at(head.e_phoff + i * head.e_phentsize, part)) return wrong("a shared object that is cut short");
    if (part.p_type == PT_LOAD) end = std::max<std::uint64_t>(end, part.p_offset + part.p_filesz);
  }
  if (end > size) {
    return wrong(fmt::format("a shared object that is cut short: it has {} bytes, expected at least {}", size, end));
  }
  // The names that it exports are in the table of strings of its dynamic symbols.
  std::vector<Elf64_Shdr> sections;
  for (std::uint64_t i = 0; i < head.e_shnum; ++i) {
    Elf64_Shdr section{};
    if (!read_at(head.e_shoff + i * head.e_shentsize, section)) break;
    sections.push_back(section);
  }
  const auto symbols = std::ranges::find(sections, Elf64_Word{SHT_DYNSYM}, &Elf64_Shdr::sh_type);
  if (symbols == sections.end() || symbols->sh_link >= sections.size()) return {};  // dlopen() may know more
  const Elf64_Shdr& strings = sections[symbols->sh_link];
  std::string names(std::min<std::uint64_t>(strings.sh_size, size), '\0');
  file.seekg(static_cast<std::streamoff>(strings.sh_offset))
      .read(names.data(), static_cast<std::streamsize>(names.size()));
  if (names.find(c::kEntry) != std::string::npos) return {};
  return wrong(fmt::format("it exports no {}: it is no PJRT plug-in", c::kEntry));
}

Result<std::shared_ptr<const Plugin>> Plugin::load(const fs::path& path) {
  TROUPE_TRY(check_file(path));
  // RTLD_LOCAL: several plug-ins have an XLA each, whose symbols must not meet.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{Code::kUnavailable, fmt::format("pjrt: cannot open {}: {}", path.string(), dlerror())};
  }
  const auto entry = reinterpret_cast<const c::Api* (*)()>(dlsym(library, c::kEntry));
  if (entry == nullptr) {
    dlclose(library);  // nothing of it was called
    return Error{Code::kInvalidArgument,
                 fmt::format("pjrt: {} exports no {}: it is no PJRT plug-in", path.string(), c::kEntry)};
  }
  const c::Api* const api = entry();
  if (api == nullptr || api->head.struct_size < c::kFirstFunction || api->major != 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("pjrt: {} has version {}.{} of the API in {} bytes, expected 0.N in at least {}: use a "
                             "plug-in of that version",
                             path.string(), api == nullptr ? 0 : api->major, api == nullptr ? 0 : api->minor,
                             api == nullptr ? 0 : api->head.struct_size, c::kFirstFunction)};
  }
  std::shared_ptr<const Plugin> plugin(new Plugin(path, api));
  // Without these no error could be told, nor anything else be done.
  for (const c::Function& each : {c::ErrorDestroy::kFunction, c::ErrorMessage::kFunction, c::ErrorGetCode::kFunction}) {
    if (plugin->find(each) == nullptr) return plugin->missing(each);
  }
  if (c::PluginInitialize args; plugin->has<c::PluginInitialize>()) TROUPE_TRY(plugin->call(args));
  return plugin;
}

std::string Plugin::name() const { return fmt::format("{} (PJRT {}.{})", path_.filename().string(), major(), minor()); }

void* Plugin::find(const c::Function& function) const {
  if (function.index >= (api_->head.struct_size - c::kFirstFunction) / sizeof(void*)) return nullptr;
  const std::size_t offset = c::kFirstFunction + function.index * sizeof(void*);
  void* found = nullptr;
  std::memcpy(&found, reinterpret_cast<const std::byte*>(api_) + offset, sizeof found);
  return found;
}

Error Plugin::missing(const c::Function& function) const {
  return {Code::kInvalidArgument, fmt::format("pjrt: {} has no {}: it is older than version 0.114, which Troupe is "
                                              "written for; use a newer plug-in",
                                              name(), function.name)};
}

Status Plugin::status_of(c::Error* error, std::string_view what) const {
  c::ErrorMessage message{.error = error};
  c::ErrorGetCode code{.error = error};
  // These two return nothing, unlike all others.
  const auto ask = [&]<typename Args>(Args& args) { reinterpret_cast<void (*)(Args*)>(find(Args::kFunction))(&args); };
  ask(message);
  ask(code);
  Error made{code_of(code.code), fmt::format("pjrt: {}: {}: {} (code {})", path_.filename().string(), what,
                                             std::string_view(message.text, message.size), code.code)};
  c::ErrorDestroy args{.object = error};
  ask(args);
  return made;
}

Result<std::vector<NamedValue>> Plugin::attributes() const {
  c::PluginAttributes args;
  TROUPE_TRY(call(args));
  return from_c(args.attributes, args.count);
}

std::vector<c::NamedValue> to_c(const std::vector<NamedValue>& values) {
  std::vector<c::NamedValue> made;
  for (const NamedValue& each : values) {
    c::NamedValue& to = made.emplace_back();
    to.name = each.name.data();
    to.name_size = each.name.size();
    to.type = static_cast<c::NamedValueType>(each.value.index());  // the variant has the API's order
    to.value_size = 1;
    if (const auto* text = std::get_if<std::string>(&each.value)) {
      to.value.string = text->data();
      to.value_size = text->size();
    } else if (const auto* number = std::get_if<std::int64_t>(&each.value)) {
      to.value.int64 = *number;
    } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&each.value)) {
      to.value.int64_list = list->data();
      to.value_size = list->size();
    } else if (const auto* real = std::get_if<float>(&each.value)) {
      to.value.real = *real;
    } else {
      to.value.boolean = std::get<bool>(each.value);
    }
  }
  return made;
}

std::vector<NamedValue> from_c(const c::NamedValue* values, std::size_t count) {
  std::vector<NamedValue> made;
  for (const c::NamedValue& from : std::span(values, count)) {
    NamedValue& to = made.emplace_back(NamedValue{std::string(from.name, from.name_size), {}});
    switch (from.type) {
      case c::kString:
        to.value = std::string(from.value.string, from.value_size);
        break;
      case c::kInt64:
        to.value = from.value.int64;
        break;
      case c::kInt64List:
        to.value = std::vector<std::int64_t>(from.value.int64_list, from.value.int64_list + from.value_size);
        break;
      case c::kFloat:
        to.value = from.value.real;
        break;
      case c::kBool:
        to.value = from.value.boolean;
        break;
    }
  }
  return made;
}

}  // namespace troupe::pjrt
