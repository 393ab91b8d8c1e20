#pragma once
// POST /v1/cache/explain: what a prompt would reuse, and why not more, without running it.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include "server/connection.h"
#include "server/server.h"

namespace stemma {

// Stateless between requests; one for all connections.
class ExplainHandler {
 public:
  // Both must outlive the handler.
  ExplainHandler(const ServerParts& parts, boost::asio::thread_pool& workers)
      : parts_(parts), workers_(workers) {}

  // The engine thread answers between two steps; meanwhile the connection's strand is free.
  boost::asio::awaitable<void> handle(Connection& connection) const;

 private:
  const ServerParts& parts_;
  boost::asio::thread_pool& workers_;
};

}  // namespace stemma
