#pragma once
// Requests for batches that wait until a table's limiter admits them: for every role that answers them.
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>

#include <troupe/actors/runtime/role.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/replay/rate_limiter.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::actors {

/// What somebody waits for.
struct AskedBatch {
  std::int64_t rows = 0;
  Duration until{};
  std::function<void(Frame)> answer;
};
/// Of one table, in their order; at most as many as their channel lets through.
using AskedBatches = std::deque<AskedBatch>;

/// Puts the requests of the port `samples` behind those that wait. table_of(name) is a Result of a pair: the table and
/// its queue. What makes no sense, and what the limiter could never admit, is refused.
template <typename TableOf>
void take_sample_requests(RoleContext& context, TableOf table_of) {
  for (Server& server = context.server("samples"); !server.empty();) {
    auto [frame, answer] = server.take();
    const auto put = [&, &answer = answer, &frame = frame]() -> Status {
      TROUPE_ASSIGN(const auto request, messages::read_sample_request(frame));
      TROUPE_ASSIGN(const auto found, table_of(request.table));
      const auto& [table, asked] = found;
      const Duration until = context.clock().now() + std::chrono::milliseconds(request.timeout_ms);
      if (request.rows == 0) {  // nothing to wait for
        asked->push_front({0, until, std::move(answer)});
        return {};
      }
      TROUPE_TRY(replay::check_batch_sizes(table->options().limiter, 1, request.rows));
      asked->push_back({request.rows, until, std::move(answer)});
      return {};
    };
    if (const Status good = put(); !good.ok()) context.refuse("samples", good.error());
  }
}

/// Their time is over: dropped ones are answered as cancelled.
inline void drop_late(AskedBatches& asked, Duration now) {
  std::erase_if(asked, [now](const AskedBatch& one) { return one.until <= now; });
}

}  // namespace troupe::actors
