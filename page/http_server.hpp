#pragma once
// cpp-httplib behind Connections and a Guard: the one listener of page/, which answers GET on a loopback address and
// nothing else. Used by page/server.hpp for the page and for Prometheus.
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>
#include <troupe/page/guard.hpp>

namespace troupe::page {

/// What is asked for, after the guard has let it in.
struct HttpRequest {
  std::string path;
  std::function<std::string(const char* name)> parameter;  ///< "" when there is none
};

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
  /// Of a stream instead of a body: called until it returns false. It sends pieces, in each of which the peer must make
  /// progress, by `send`, which is false once the peer has gone.
  std::function<bool(const std::function<bool(std::string_view)>& send)> stream = nullptr;
};

class HttpServer {
 public:
  /// Answers on any of 16 threads.
  using Answer = std::function<HttpAnswer(const HttpRequest&)>;

  /// Listens on 127.0.0.1. port: 0: any that is free. Errors: kUnavailable: the port is taken.
  static Result<std::unique_ptr<HttpServer>> listen(int port, std::string token, Answer answer);
  ~HttpServer();  ///< ends all streams; their `stream` must return soon

  int port() const;
  const Guard& guard() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::page
