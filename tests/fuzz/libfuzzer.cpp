// libFuzzer's entry points to a program's only target. `NAME_fuzz --seeds DIRECTORY` writes the target's seeds there
// instead.
#include <fmt/format.h>

#include <cstdlib>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/log.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  using namespace troupe;
  log::set_level(log::Level::kOff);
  if (*count != 3 || std::string_view((*arguments)[1]) != "--seeds") return 0;
  const fuzz::Target& target = fuzz::targets().at(0);
  int number = 0;
  for (const std::string& seed : target.seeds()) {
    target.one_input(fuzz::bytes_of(seed));
    write_file_atomic(fmt::format("{}/{:02}", (*arguments)[2], ++number), seed).value();
  }
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto one_input = troupe::fuzz::targets().at(0).one_input;
  one_input(std::as_bytes(std::span(data, size)));
  return 0;
}
