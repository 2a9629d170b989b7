#pragma once
// Who may see the page: whoever has the link that `troupe watch` prints, in a browser that came by an address of this
// host. It is asked about each request before anything else (page/server.hpp). docs/security.md has the reasons.
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>

namespace troupe::page {

/// What a request says of itself, as it came.
struct Asked {
  std::string_view method;         ///< "GET"
  std::string_view host;           ///< header Host
  std::string_view cookie;         ///< header Cookie
  std::string_view authorization;  ///< header Authorization
  std::string_view path;           ///< "/"
  std::string_view token;          ///< parameter token; empty: none
};

struct Verdict {
  enum class Kind {
    kServe,
    kTrade,  ///< the token was right: answer with set_cookie and send the browser to "/"
    kRefuse,
  };
  Kind kind = Kind::kRefuse;
  int status = 403;
  std::string set_cookie = {};
  std::string_view reason = {};  ///< for whoever asked
};

class Guard {
 public:
  /// token: what the link carries, and scrapers as bearers. session: what the cookie carries, another secret.
  Guard(int port, std::string token, std::string session);

  Verdict judge(const Asked& asked) const;
  std::string link() const;

 private:
  int port_;
  std::string token_, session_, cookie_name_;
};

/// 128 random bits in hexadecimal. Errors: kInternal: the system has none.
Result<std::string> random_secret();

/// The token in a file, which only its owner can read; makes the file where it is missing. Errors: kInvalidArgument:
/// others can read it, or it holds something else; kIo.
Result<std::string> token_in(const std::string& path);

}  // namespace troupe::page
