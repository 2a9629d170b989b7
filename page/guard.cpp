#include <troupe/page/guard.hpp>

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <utility>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/text.hpp>

namespace troupe::page {
namespace {

constexpr std::size_t kSecretBytes = 16;
constexpr std::string_view kBearer = "Bearer ";

/// Takes as long whatever the difference is.
bool same(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  }
  return difference == 0;
}

/// The value of a cookie in the header "a=1; b=2".
std::string_view cookie_of(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const std::size_t end = std::min(header.find(';'), header.size());
    std::string_view one = header.substr(0, end);
    header.remove_prefix(std::min(end + 1, header.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (one.starts_with(name) && one.substr(name.size()).starts_with('=')) return one.substr(name.size() + 1);
  }
  return {};
}

}  // namespace

Guard::Guard(int port, std::string token, std::string session)
    : port_(port),
      token_(std::move(token)),
      session_(std::move(session)),
      cookie_name_(fmt::format("troupe-{}", port)) {}

std::string Guard::link() const { return fmt::format("http://127.0.0.1:{}/?token={}", port_, token_); }

Verdict Guard::judge(const Asked& asked) const {
  // A name that somebody made to point here would let their pages read this one (DNS rebinding).
  bool is_ours = false;
  for (const char* host : {"127.0.0.1", "localhost", "[::1]"}) {
    is_ours = is_ours || asked.host == fmt::format("{}:{}", host, port_);
  }
  if (!is_ours) return {.status = 421, .reason = "this server answers to 127.0.0.1 and localhost alone\n"};
  if (asked.method != "GET") return {.status = 405, .reason = "the page only reads: GET is all there is\n"};
  if (!asked.token.empty() && asked.path == "/" && same(asked.token, token_)) {
    return {.kind = Verdict::Kind::kTrade,
            .status = 303,
            .set_cookie = fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict", cookie_name_, session_)};
  }
  const bool bearer =
      asked.authorization.starts_with(kBearer) && same(asked.authorization.substr(kBearer.size()), token_);
  if (bearer || same(cookie_of(asked.cookie, cookie_name_), session_)) return {.kind = Verdict::Kind::kServe};
  return {.status = 403, .reason = "open the link that `troupe watch` has printed: it carries the token\n"};
}

Result<std::string> random_secret() {
  std::array<unsigned char, kSecretBytes> bytes = {};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Error{Code::kInternal, "the system gives no random bytes"};
  }
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

Result<std::string> token_in(const std::string& path) {
  const auto bytes = read_file(path, 4096);
  if (!bytes.ok() && bytes.error().code == Code::kNotFound) {
    TROUPE_ASSIGN(std::string token, random_secret());
    TROUPE_TRY(write_file_atomic(path, token + '\n', 0600));
    return token;
  }
  if (!bytes.ok()) return bytes.error();
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0 || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Error{Code::kInvalidArgument, fmt::format("{0}: others can read this token; chmod 600 {0}, or name another "
                                                     "file, which is made",
                                                     printable(path))};
  }
  std::string token(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  while (token.ends_with('\n')) token.pop_back();
  if (token.size() < 2 * kSecretBytes || token.size() > 256 ||
      token.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got {} bytes, expected a token of {} to 256 hexadecimal digits", printable(path),
                             token.size(), 2 * kSecretBytes)};
  }
  return token;
}

}  // namespace troupe::page
