// The listener over real sockets: what it serves, and what becomes of connections that mean it no good.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <troupe/page/connections.hpp>
#include <troupe/page/http_server.hpp>

namespace troupe::page {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

class Peer {
 public:
  explicit Peer(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~Peer() { close(socket_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool connected() const { return connected_; }
  void say(std::string_view text) const { (void)!send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  /// What comes until the end, or until there has been nothing for so long.
  std::string hear(int ms = 8000) const {
    std::string all;
    char bytes[4096];
    pollfd one{socket_, POLLIN, 0};
    while (poll(&one, 1, ms) > 0) {
      const ssize_t count = recv(socket_, bytes, sizeof bytes, 0);
      if (count <= 0) break;
      all.append(bytes, static_cast<std::size_t>(count));
    }
    return all;
  }
  bool closed(int ms) const {
    char byte;
    pollfd one{socket_, POLLIN, 0};
    return poll(&one, 1, ms) > 0 && recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
  }

 private:
  int socket_;
  bool connected_ = false;
};

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    server_ = HttpServer::listen(0, kToken, [this](const HttpRequest& request) -> HttpAnswer {
                if (request.path == "/stream") {
                  return {.type = "text/event-stream", .stream = [this](const auto& send) {
                            const bool sent = send("data: " + std::string(1 << 20, 'x') + "\n\n");
                            ended_ = !sent;
                            return sent;
                          }};
                }
                return {.body = "hello " + request.parameter("name")};
              }).value();
  }
  int port() const { return server_->port(); }
  std::string request(std::string_view line, std::string_view more = "") const {
    return fmt::format("{}\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n{}\r\n", line, port(), kToken, more);
  }
  std::string get(std::string_view line, std::string_view more = "") const {
    const Peer peer(port());
    peer.say(request(line, more));
    return peer.hear();
  }

  std::atomic<bool> ended_ = false;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersOneRequestAConnectionWithAllHeadersThatGuardIt) {
  const std::string answer = get("GET /x?name=you HTTP/1.1");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, testing::EndsWith("\r\n\r\nhello you"));
  for (const char* header :
       {"Content-Security-Policy: default-src 'none'; script-src 'self'", "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY", "Referrer-Policy: no-referrer", "Cache-Control: no-store",
        "Cross-Origin-Resource-Policy: same-origin", "Connection: close"}) {
    EXPECT_THAT(answer, HasSubstr(header));
  }
}

TEST_F(HttpServerTest, RefusesOtherMethodsAndReadsNoBody) {
  const std::string body(100'000, 'b');
  const std::string answer = get("POST / HTTP/1.1", fmt::format("Content-Length: {}\r\n", body.size()));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(answer, HasSubstr("Allow: GET"));
}

TEST_F(HttpServerTest, WhoHasNoSecretGetsNothing) {
  const Peer peer(port());
  peer.say(fmt::format("GET /x HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", port()));
  EXPECT_THAT(peer.hear(), StartsWith("HTTP/1.1 403 "));
  const Peer foreign(port());
  foreign.say(
      fmt::format("GET /x HTTP/1.1\r\nHost: evil.example:{}\r\nAuthorization: Bearer {}\r\n\r\n", port(), kToken));
  EXPECT_THAT(foreign.hear(), StartsWith("HTTP/1.1 421 "));
}

TEST_F(HttpServerTest, NoiseAndHalfRequestsEnd) {
  const Peer noise(port());
  noise.say("\x16\x03\x01 hello\r\n\r\n");
  EXPECT_THAT(noise.hear(), testing::Not(HasSubstr("200 OK")));
  const Peer half(port());
  half.say("GET / HTTP/1.1\r\nHost: ");
  EXPECT_TRUE(half.closed(7000));  // after the five seconds that a head may take
}

TEST_F(HttpServerTest, HugeHeadersEndTheirConnectionAndTakeNoMemory) {
  const Peer one(port());
  one.say(request("GET /x HTTP/1.1", "A: " + std::string(Connections::kHeadBytesMax, 'a') + "\r\n"));
  EXPECT_EQ(one.hear(), "");
  const Peer many(port());
  std::string headers;
  for (int i = 0; i < 100'000; ++i) headers += fmt::format("A{}: b\r\n", i);
  many.say(request("GET /x HTTP/1.1", headers));
  EXPECT_EQ(many.hear(), "");
  EXPECT_THAT(get("GET /x HTTP/1.1"), HasSubstr("hello"));
}

TEST_F(HttpServerTest, ConnectionsThatSayNothingHoldUpNobody) {
  std::vector<std::unique_ptr<Peer>> silent;
  for (int i = 0; i < 400; ++i) silent.push_back(std::make_unique<Peer>(port()));
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_THAT(get("GET /x HTTP/1.1"), HasSubstr("hello"));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(3));
  EXPECT_TRUE(silent.front()->closed(7000));  // the oldest went
}

TEST_F(HttpServerTest, AClientThatReadsNothingIsDropped) {
  const Peer slow(port());
  slow.say(request("GET /stream HTTP/1.1"));
  for (int i = 0; i < 100 && !ended_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(ended_);
}

TEST_F(HttpServerTest, AStreamEndsWhenItsClientGoesAndWhenTheServerDoes) {
  {
    const Peer peer(port());
    peer.say(request("GET /stream HTTP/1.1"));
    EXPECT_FALSE(peer.closed(2000));
  }
  for (int i = 0; i < 50 && !ended_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(ended_);
  const Peer peer(port());
  peer.say(request("GET /stream HTTP/1.1"));
  const auto begun = std::chrono::steady_clock::now();
  server_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(4));
}

TEST_F(HttpServerTest, APortThatIsTakenIsAnErrorThatNamesIt) {
  const auto second = HttpServer::listen(port(), kToken, [](const HttpRequest&) { return HttpAnswer(); });
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(port())));
}

}  // namespace
}  // namespace troupe::page
