#include <troupe/page/http_server.hpp>

#include <httplib.h>

#include <fmt/format.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include <troupe/core/clock.hpp>
#include <troupe/core/log.hpp>
#include <troupe/page/connections.hpp>

namespace troupe::page {
namespace {

/// How long a peer may leave unread what was sent to it, all in all since it was last up to date.
constexpr Duration kPatience = std::chrono::seconds(5);
constexpr int kPollMs = 100;
constexpr int kBacklog = 512;
constexpr int kBeginsMs = 10'000;

/// Everything that a page may do here: its own scripts, styles and pictures, from here, and no frame around it.
const httplib::Headers kHeaders = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
     "form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cache-Control", "no-store"}};

/// A connection whose request is there already, for the library.
class OneRequest final : public httplib::Stream {
 public:
  OneRequest(int socket, const std::atomic<bool>& ends) : socket_(socket), ends_(ends) {}

  bool is_readable() const override { return wait(POLLIN, kPollMs); }
  bool is_writable() const override { return !ends_ && !gone(); }
  ssize_t read(char* bytes, size_t size) override {
    // The head is there, and nothing reads a body.
    return recv(socket_, bytes, size, MSG_DONTWAIT);
  }
  ssize_t write(const char* bytes, size_t size) override {
    bool waited = false;
    while (!ends_) {
      const ssize_t sent = send(socket_, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent >= 0) {
        if (!waited) blocked_ = {};
        return sent;
      }
      if (errno != EAGAIN && errno != EINTR) return -1;
      waited = true;
      const Duration from = clock_.now();
      wait(POLLOUT, kPollMs);
      blocked_ += clock_.now() - from;
      if (blocked_ > kPatience) return -1;
    }
    return -1;
  }
  // Nobody asks who it is: it is somebody on this host.
  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip = "127.0.0.1", port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip = "127.0.0.1", port = 0; }
  socket_t socket() const override { return socket_; }

 private:
  bool wait(short events, int ms) const {
    pollfd one{socket_, events, 0};
    return poll(&one, 1, ms) > 0;
  }
  /// The peer has closed its end.
  bool gone() const {
    char byte = 0;
    const ssize_t count = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
  }

  int socket_;
  const std::atomic<bool>& ends_;
  SteadyClock clock_;
  Duration blocked_{};
};

/// Runs on the listener's own thread what takes no time: handing the connection on.
class AtOnce final : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> task) override { task(); }
  void shutdown() override {}
};

}  // namespace

struct HttpServer::Impl final : public httplib::Server {
  Impl(std::string token, std::string session, Answer answer)
      : token_(std::move(token)), session_(std::move(session)), answer_(std::move(answer)) {}
  ~Impl() override {
    ends_ = true;
    stop();
    if (listener_.joinable()) listener_.join();
    connections_.reset();
  }

  Status open(int port) {
    new_task_queue = [] { return new AtOnce; };
    set_default_headers(kHeaders);
    // Not the library's SO_REUSEPORT, with which a second server of this user would share the port.
    set_socket_options([](socket_t listener) {
      const int yes = 1;
      setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      serve(request, response);
      return HandlerResponse::Handled;
    });
    const int bound = port == 0 ? bind_to_any_port("127.0.0.1") : bind_to_port("127.0.0.1", port) ? port : -1;
    if (bound <= 0) {
      return Error{Code::kUnavailable,
                   fmt::format("127.0.0.1:{} cannot be listened on: is it taken? Name another, or 0 for any", port)};
    }
    // The library's backlog is 5: a few at once would wait a second for their second try.
    ::listen(svr_sock_, kBacklog);
    port_ = bound;
    guard_.emplace(bound, token_, session_);
    connections_ = std::make_unique<Connections>([this](int socket) { answer_one(socket); });
    listener_ = std::thread([this] { listen_after_bind(); });
    // Else stop() could come before there is anything to stop.
    for (int ms = 0; !is_running(); ++ms) {
      if (ms > kBeginsMs)
        return Error{Code::kUnavailable, fmt::format("127.0.0.1:{}: the listener does not begin", bound)};
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};
  }

  bool process_and_close_socket(socket_t socket) override {
    connections_->take(socket);
    return true;
  }

  void answer_one(int socket) {
    OneRequest stream(socket, ends_);
    bool closed = false;
    try {
      process_request(stream, true, closed, nullptr);
    } catch (const std::exception& exception) {
      log::warn("page: {}", exception.what());
    }
  }

  void serve(const httplib::Request& request, httplib::Response& response) {
    const std::string host = request.get_header_value("Host"), cookie = request.get_header_value("Cookie"),
                      authorization = request.get_header_value("Authorization"),
                      token = request.get_param_value("token");
    const Verdict verdict = guard_->judge({.method = request.method,
                                           .host = host,
                                           .cookie = cookie,
                                           .authorization = authorization,
                                           .path = request.path,
                                           .token = token});
    response.status = verdict.status;
    if (verdict.kind == Verdict::Kind::kTrade) {
      response.set_header("Set-Cookie", verdict.set_cookie);
      response.set_header("Location", "/");
      return;
    }
    if (verdict.kind == Verdict::Kind::kRefuse) {
      if (verdict.status == 405) response.set_header("Allow", "GET");
      response.set_content(std::string(verdict.reason), "text/plain; charset=utf-8");
      return;
    }
    HttpAnswer answer = answer_({request.path, [&](const char* name) { return request.get_param_value(name); }});
    response.status = answer.status;
    if (!answer.stream) return response.set_content(std::move(answer.body), answer.type);
    response.set_chunked_content_provider(
        answer.type, [stream = std::move(answer.stream)](std::size_t, httplib::DataSink& sink) {
          const bool more =
              stream([&](std::string_view text) { return sink.is_writable() && sink.write(text.data(), text.size()); });
          if (!more) sink.done();
          return more;
        });
  }

  std::string token_, session_;
  Answer answer_;
  int port_ = 0;
  std::optional<Guard> guard_;
  std::atomic<bool> ends_ = false;
  std::unique_ptr<Connections> connections_;
  std::thread listener_;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return impl_->port_; }
const Guard& HttpServer::guard() const { return *impl_->guard_; }

Result<std::unique_ptr<HttpServer>> HttpServer::listen(int port, std::string token, Answer answer) {
  TROUPE_ASSIGN(std::string session, random_secret());
  auto impl = std::make_unique<Impl>(std::move(token), std::move(session), std::move(answer));
  TROUPE_TRY(impl->open(port));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

}  // namespace troupe::page
