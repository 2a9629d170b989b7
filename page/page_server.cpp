#include <troupe/page/page_server.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <troupe/core/atomic_file.hpp>
#include <troupe/page/assets.hpp>
#include <troupe/page/messages.hpp>

namespace troupe::page {
namespace {

constexpr std::uint64_t kPictureBytesMax = 64 << 20;
constexpr Duration kTick = std::chrono::seconds(1);

HttpAnswer no(int status, std::string why) { return {.status = status, .body = std::move(why)}; }

std::optional<std::size_t> number_of(const std::string& text, std::size_t below) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number >= below) return std::nullopt;
  return number;
}

}  // namespace

Result<std::unique_ptr<PageServer>> PageServer::start(Runs& runs, Several& several, std::string title, int port,
                                                      std::string token) {
  std::unique_ptr<PageServer> server(new PageServer(runs, several, std::move(title)));
  TROUPE_ASSIGN(server->http_,
                HttpServer::listen(port, std::move(token),
                                   [at = server.get()](const HttpRequest& asked) { return at->answer(asked); }));
  return server;
}

PageServer::~PageServer() {
  runs_.end();
  http_.reset();
}

HttpAnswer PageServer::answer(const HttpRequest& request) {
  if (const Asset* const asset = find_asset(request.path)) {
    return {.type = std::string(asset->type), .body = std::string(asset->text)};
  }
  if (request.path == "/api/runs") return {.type = "application/json", .body = list()};
  if (request.path == "/file") return file_of(request);
  if (request.path == "/api/several") {
    return stream_of([this, told = Several::Told()]() mutable { return several_.news(told); });
  }
  if (request.path != "/api/live") return no(404, "there is no such page\n");
  const auto run = number_of(request.parameter("run"), runs_.count());
  if (!run) return no(404, fmt::format("there is no such run; there are {}\n", runs_.count()));
  return stream_of([this, run = *run, told = Told()]() mutable {
    return runs_.with(run, [&](const WatchedRun& watched) { return news_of(watched, told); });
  });
}

HttpAnswer PageServer::stream_of(std::function<std::string()> news) {
  // Counted until the stream has ended, however it does.
  if (++*streams_ > kStreamsMax) {
    --*streams_;
    return no(503, fmt::format("{} pages are open already, which is all that there may be\n", kStreamsMax));
  }
  std::shared_ptr<void> place(nullptr, [streams = streams_](void*) { --*streams; });
  auto first = std::make_shared<bool>(true);
  return {.type = "text/event-stream",
          .stream = [this, news = std::move(news), place = std::move(place), first](const auto& send) mutable {
            if (!std::exchange(*first, false) && !runs_.wait(kTick)) return false;
            return send(fmt::format("data: {}\n\n", news()));
          }};
}

HttpAnswer PageServer::file_of(const HttpRequest& request) {
  const auto run = number_of(request.parameter("run"), runs_.count());
  if (!run) return no(404, "there is no such run\n");
  const std::string path = request.parameter("path");
  const bool known =
      runs_.with(*run, [&](const WatchedRun& watched) { return std::ranges::binary_search(watched.pictures(), path); });
  if (!known) return no(404, "the run has no such picture\n");
  const auto bytes = read_file((runs_.directory(*run).path / path).string(), kPictureBytesMax);
  if (!bytes.ok()) return no(404, "the picture cannot be read\n");
  return {.type = path.ends_with(".gif") ? "image/gif" : "image/png",
          .body = {reinterpret_cast<const char*>(bytes->data()), bytes->size()}};
}

std::string PageServer::list() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (std::size_t run = 0; run < runs_.count(); ++run) list.push_back(runs_.directory(run).id());
  return nlohmann::ordered_json{{"title", title_}, {"runs", std::move(list)}}.dump();
}

}  // namespace troupe::page
