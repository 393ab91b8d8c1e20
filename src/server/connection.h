#pragma once
// One client's connection: reads requests, hands each to its handler, and writes what the handler answers.
//
// Three activities share the connection's strand. One read is pending at all times, also while a request is being
// answered, so a client that goes away is noticed at once; what it sends ahead (pipelining) is kept up to 64 KiB and
// then left to TCP. One write is pending while anything is unsent; handlers append to an outbox and never wait for
// the client. The request coroutine, run(), is the only one that waits, always on `signal_`, which every change of state
// and every deadline wakes. Nothing here is locked; only abort_soon() and wake_soon() may be called from other threads.
//
// A client that closes or half-closes its side has gone away: generation stops. Other answers are written all the same. So has
// one whose machine no longer answers, which TCP's own probes find.

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include "server/api_error.h"
#include "server/api_keys.h"
#include "server/http_message.h"
#include "server/live_connections.h"
#include "server/router.h"
#include "server/server.h"
#include "server/server_metrics.h"

namespace stemma {

// What all connections share; all of it outlives them.
struct ConnectionContext {
  const HttpLimits& limits;
  std::size_t max_body_bytes;
  const Router& router;
  const ApiKeys& keys;
  LiveConnections& live;
  ServerMetrics& metrics;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // The socket's executor is a strand.
  Connection(boost::asio::ip::tcp::socket socket, const ConnectionContext& context);

  // Serves until the client or a limit ends it; the connection keeps itself alive so long.
  void start();

  // Any thread: closes the connection; wakes its coroutine to look at the state again.
  void abort_soon();
  void wake_soon();

  // The rest is for handlers, on the strand.

  const HttpRequest& request() const { return request_; }
  // The body, which may be large, for a handler that does not need it for the time of its answer.
  std::string take_body() { return std::move(request_.body); }

  // The whole answer. Called at most once a request, and not with begin_stream().
  void reply(HttpReply reply);

  // An answer in parts: head now, any number of send(), then end_stream().
  void begin_stream(std::string content_type);
  void send(std::string_view data);
  void end_stream();
  bool streaming() const { return answer_ == Answer::streaming; }

  // The client closed its side, broke off, or was cut off.
  bool client_gone() const { return input_ended_ || closed_; }

  // The server ends and waits for answers no longer: what is under way is to end with an error.
  bool server_gives_up() const { return context_.live.giving_up(); }

  // Returns after wake(), a change of client_gone(), or for no reason.
  boost::asio::awaitable<void> wait();
  void wake();

  boost::asio::any_io_executor executor() { return socket_.get_executor(); }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Answer { none, streaming, complete };
  struct Parser;

  boost::asio::awaitable<void> run();
  // One request and its answer; false when the connection is to end.
  boost::asio::awaitable<bool> serve_one();
  boost::asio::awaitable<bool> read_head(Parser& parser);
  boost::asio::awaitable<bool> read_body(Parser& parser);
  // What some clients send behind a body, before the next request.
  void skip_line_ends();
  boost::asio::awaitable<void> handle(const Route& route);
  // Until everything is sent, or the client reads nothing for stall_seconds.
  boost::asio::awaitable<void> flush();
  // Lets the client read the last answer before the socket goes: closing with unread input would reset it.
  boost::asio::awaitable<void> linger();
  boost::asio::awaitable<void> wait_until(Clock::time_point deadline);

  // The route of a request whose head is complete, unless key, path, method or draining forbid it.
  ApiResult<const Route*> admit(const Parser& parser) const;
  HttpReply preflight(const Parser& parser) const;
  // Answers a request that cannot be read further; the connection ends.
  void refuse(const ApiError& error);
  void abort();

  void start_read();
  // Takes what has arrived. No buffer waits with an idle connection.
  void read_available();
  void start_write();
  void append(std::string_view bytes);
  std::size_t unsent() const { return sending_.size() - sent_ + outbox_.size(); }

  boost::asio::ip::tcp::socket socket_;
  const ConnectionContext context_;
  boost::asio::steady_timer signal_;

  boost::beast::flat_buffer input_;  // read and not yet parsed
  bool reading_ = false;
  bool discarding_ = false;   // input is dropped
  bool input_ended_ = false;
  bool closed_ = false;

  std::string outbox_;   // behind sending_
  std::string sending_;  // the pending write's source; [0, sent_) is out
  std::size_t sent_ = 0;
  bool writing_ = false;
  Clock::time_point last_progress_;

  // Of the request being answered.
  HttpRequest request_;
  std::string route_;  // its path if there is such a route, for the metrics
  Answer answer_ = Answer::none;
  BodyFraming framing_ = BodyFraming::content_length;
  bool keep_alive_ = false;
};

}  // namespace stemma
