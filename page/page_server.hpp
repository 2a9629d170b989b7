#pragma once
// The page that shows runs, over HTTP on this host (docs/page.md):
//   /                 the page, and its files
//   /api/runs         the runs, by number
//   /api/live?run=N   a stream of events (SSE): all of a run (page/messages.hpp), and each second what is new
//   /api/several      a stream of events: a line for each run, and the curves of all together
//   /file?run=N&path= a picture or film of a run
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include <troupe/core/error.hpp>
#include <troupe/page/http_server.hpp>
#include <troupe/page/runs.hpp>
#include <troupe/page/several.hpp>

namespace troupe::page {

class PageServer {
 public:
  static constexpr int kStreamsMax = 8;

  /// title: of several runs together. `runs` and `several` outlive the server. Errors: those of HttpServer::listen().
  static Result<std::unique_ptr<PageServer>> start(Runs& runs, Several& several, std::string title, int port,
                                                   std::string token);
  ~PageServer();

  std::string link() const { return http_->guard().link(); }

 private:
  PageServer(Runs& runs, Several& several, std::string title)
      : runs_(runs), several_(several), title_(std::move(title)) {}
  HttpAnswer answer(const HttpRequest& request);
  HttpAnswer stream_of(std::function<std::string()> news);
  HttpAnswer file_of(const HttpRequest& request);
  std::string list() const;

  Runs& runs_;
  Several& several_;
  std::string title_;
  std::shared_ptr<std::atomic<int>> streams_ = std::make_shared<std::atomic<int>>(0);
  std::unique_ptr<HttpServer> http_;
};

}  // namespace troupe::page
