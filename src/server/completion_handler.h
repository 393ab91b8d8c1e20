#pragma once
// POST /v1/completions and /v1/chat/completions.

#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include "server/completion_request.h"
#include "server/completion_response.h"
#include "server/connection.h"
#include "server/generation.h"
#include "server/server.h"

namespace stemma {

// Stateless between requests; one for all connections.
class CompletionHandler {
 public:
  // `model`: what answers call the model. All must outlive the handler.
  CompletionHandler(const ServerParts& parts, const std::string& model, boost::asio::thread_pool& workers,
                    ServerMetrics& metrics)
      : parts_(parts), model_(model), workers_(workers), metrics_(metrics) {}

  // From the request's body to the last byte of the answer. Returns early, and everything that the request held is given
  // back, when the client goes away.
  boost::asio::awaitable<void> handle(Connection& connection, CompletionApi api) const;

 private:
  boost::asio::awaitable<void> answer_whole(Connection& connection, Generation& generation) const;
  boost::asio::awaitable<void> answer_stream(Connection& connection, Generation& generation) const;
  // Waits for the next events; empty if the client went away.
  boost::asio::awaitable<std::vector<Progress>> next(Connection& connection, Generation& generation) const;

  const ServerParts& parts_;
  const std::string& model_;
  boost::asio::thread_pool& workers_;
  ServerMetrics& metrics_;
};

}  // namespace stemma
