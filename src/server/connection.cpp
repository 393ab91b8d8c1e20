#include "server/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdio>

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <spdlog/spdlog.h>

namespace stemma {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::size_t kReadAhead = std::size_t{64} << 10;
constexpr std::size_t kReadAtOnce = std::size_t{16} << 10;
constexpr std::chrono::seconds kLinger{2};

std::chrono::steady_clock::duration seconds(double count) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(count));
}

// Has the system end a connection whose other side acknowledges nothing for so long, whether bytes are on their way or
// none: a machine that was switched off or cut off says no good-bye.
void find_silent_peer(asio::ip::tcp::socket& socket, double seconds) {
  const int whole = std::max(1, static_cast<int>(seconds));
  const auto set = [&](int level, int name, int value) {
    ::setsockopt(socket.native_handle(), level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, whole / 2));
  set(IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, whole / 6));
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * whole);
}

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Of a request's target: without the query, and without scheme and host, which clients of proxies send.
std::string_view path_of(std::string_view target) {
  target = target.substr(0, target.find('?'));
  const std::size_t scheme = target.find("://");
  if (target.starts_with('/') || scheme == target.npos) return target;
  const std::size_t path = target.find('/', scheme + 3);
  return path == target.npos ? "/" : target.substr(path);
}

// Number without trailing zeros, for messages.
std::string plain(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

ApiError protocol_error(const error_code& ec, const ConnectionContext& context) {
  if (ec == http::error::header_limit) {
    return make_error(ErrorCode::http_headers_too_large, {{"limit", std::to_string(context.limits.header_bytes)}});
  }
  if (ec == http::error::body_limit) {
    return make_error(ErrorCode::http_body_too_large, {{"limit", std::to_string(context.max_body_bytes)}});
  }
  return make_error(ErrorCode::http_bad_request, {{"reason", ec.message()}});
}

}  // namespace

struct Connection::Parser : http::request_parser<http::string_body> {
  std::string_view header(http::field name) const { return view(get()[name]); }
  std::string_view header(std::string_view name) const { return view(get()[{name.data(), name.size()}]); }
};

Connection::Connection(asio::ip::tcp::socket socket, const ConnectionContext& context)
    : socket_(std::move(socket)), context_(context), signal_(socket_.get_executor()) {}

void Connection::start() {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  find_silent_peer(socket_, context_.limits.silent_seconds);
  asio::co_spawn(socket_.get_executor(), [self = shared_from_this()] { return self->run(); }, asio::detached);
}

void Connection::abort_soon() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->abort(); });
}

void Connection::wake_soon() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->wake(); });
}

// --- the request coroutine ---

asio::awaitable<void> Connection::run() {
  const LiveConnections::Handle handle(context_.live, shared_from_this());
  try {
    while (co_await serve_one()) {
    }
    co_await linger();
  } catch (const std::exception& e) {  // out of memory; a handler's errors end in handle()
    spdlog::error("connection closed: {}", e.what());
  }
  abort();
}

asio::awaitable<bool> Connection::serve_one() {
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(context_.limits.header_bytes));
  parser.body_limit(context_.max_body_bytes);
  request_ = {};
  route_.clear();
  answer_ = Answer::none;
  keep_alive_ = false;
  framing_ = BodyFraming::content_length;
  if (!co_await read_head(parser)) co_return false;

  const LiveConnections::Activity activity(context_.live);
  request_.method = view(parser.get().method_string());
  request_.path = path_of(view(parser.get().target()));
  request_.minor_version = static_cast<int>(parser.get().version()) % 10;
  keep_alive_ = parser.get().keep_alive() && !context_.live.draining();

  const ApiResult<const Route*> route = admit(parser);
  if (request_.method == "OPTIONS" || !route) {
    if (!parser.is_done()) keep_alive_ = false;  // the body stays unread
    reply(request_.method == "OPTIONS" ? preflight(parser) : error_reply(route.error()));
  } else {
    route_ = request_.path;
    if (!parser.is_done() && boost::beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      append("HTTP/1.1 100 Continue\r\n\r\n");
    }
    if (!co_await read_body(parser)) co_return false;
    request_.body = std::move(parser.get().body());
    co_await handle(**route);
  }
  co_await flush();
  co_return keep_alive_ && answer_ == Answer::complete && !client_gone();
}

asio::awaitable<bool> Connection::read_head(Parser& parser) {
  Clock::time_point deadline = Clock::now() + seconds(context_.limits.idle_seconds);
  bool begun = false;
  if (input_.size() == 0) input_.shrink_to_fit();  // idle connections keep no memory
  while (true) {
    if (!begun) skip_line_ends();
    if (input_.size() > 0) {
      if (!begun) deadline = Clock::now() + seconds(context_.limits.header_seconds);
      begun = true;
      error_code ec;
      input_.consume(parser.put(input_.data(), ec));
      if (ec && ec != http::error::need_more) {
        refuse(protocol_error(ec, context_));
        co_return false;
      }
      if (parser.is_header_done()) co_return true;
    }
    start_read();
    if (client_gone()) co_return false;
    if (Clock::now() >= deadline) {
      if (begun) {
        refuse(make_error(ErrorCode::http_timeout, {{"part", "headers"},
                                                    {"seconds", plain(context_.limits.header_seconds)}}));
      }
      co_return false;
    }
    co_await wait_until(deadline);
  }
}

void Connection::skip_line_ends() {
  const auto* bytes = static_cast<const char*>(input_.data().data());
  std::size_t count = 0;
  while (count < input_.size() && (bytes[count] == '\r' || bytes[count] == '\n')) ++count;
  input_.consume(count);
}

asio::awaitable<bool> Connection::read_body(Parser& parser) {
  parser.eager(true);
  Clock::time_point deadline = Clock::now() + seconds(context_.limits.stall_seconds);
  while (!parser.is_done()) {
    if (input_.size() > 0) {
      error_code ec;
      const std::size_t used = parser.put(input_.data(), ec);
      input_.consume(used);
      if (used == 0 && input_.size() >= kReadAhead) ec = http::error::bad_chunk;  // a chunk's header without end
      if (ec && ec != http::error::need_more) {
        refuse(protocol_error(ec, context_));
        co_return false;
      }
      if (parser.is_done()) break;
      if (used > 0) deadline = Clock::now() + seconds(context_.limits.stall_seconds);
    }
    start_read();
    if (client_gone()) co_return false;
    if (Clock::now() >= deadline) {
      refuse(make_error(ErrorCode::http_timeout, {{"part", "body"},
                                                  {"seconds", plain(context_.limits.stall_seconds)}}));
      co_return false;
    }
    co_await wait_until(deadline);
  }
  start_read();  // for the time of the answer
  co_return true;
}

ApiResult<const Route*> Connection::admit(const Parser& parser) const {
  auto route = context_.router.find(request_.method, request_.path);
  const bool open = route && (*route)->access == Access::open;
  if (!open && !context_.keys.allow(parser.header(http::field::authorization), parser.header("X-Api-Key"))) {
    return tl::unexpected<ApiError>(make_error(ErrorCode::http_unauthorized));
  }
  if (route && context_.live.draining()) {
    return tl::unexpected<ApiError>(make_error(ErrorCode::server_shutting_down));
  }
  return route;
}

HttpReply Connection::preflight(const Parser& parser) const {
  HttpReply reply;
  reply.status = 204;
  const std::string_view asked = parser.header(http::field::access_control_request_headers);
  reply.headers = {{"Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS"},
                   {"Access-Control-Allow-Headers",
                    asked.empty() ? "Authorization, Content-Type, X-Api-Key" : std::string(asked)},
                   {"Access-Control-Max-Age", "86400"}};
  return reply;
}

asio::awaitable<void> Connection::handle(const Route& route) {
  try {
    co_await route.handler(*this);
  } catch (const std::exception& e) {
    spdlog::error("{} {}: {}", request_.method, request_.path, e.what());
    if (answer_ == Answer::none) {
      reply(error_reply(make_error(ErrorCode::server_internal_error, {{"reason", e.what()}})));
    } else {
      keep_alive_ = false;  // the client sees a stream without its end
    }
  }
}

asio::awaitable<void> Connection::flush() {
  while (unsent() > 0 && !closed_) {
    const Clock::time_point deadline = last_progress_ + seconds(context_.limits.stall_seconds);
    if (Clock::now() >= deadline) {
      context_.metrics.slow_readers.add();
      abort();
      break;
    }
    co_await wait_until(deadline);
  }
}

asio::awaitable<void> Connection::linger() {
  co_await flush();
  if (closed_) co_return;
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  discarding_ = true;
  input_.clear();
  const Clock::time_point deadline = Clock::now() + kLinger;
  start_read();
  while (!client_gone() && Clock::now() < deadline) co_await wait_until(deadline);
}

// --- answers ---

void Connection::reply(HttpReply reply) {
  assert(answer_ == Answer::none);
  answer_ = Answer::complete;
  context_.metrics.count_reply(route_, reply.status);
  std::string bytes = reply_head(reply, BodyFraming::content_length, reply.body.size(), keep_alive_);
  if (request_.method != "HEAD") bytes += reply.body;
  append(bytes);
}

void Connection::refuse(const ApiError& error) {
  keep_alive_ = false;
  reply(error_reply(error));
}

void Connection::begin_stream(std::string content_type) {
  assert(answer_ == Answer::none);
  answer_ = Answer::streaming;
  framing_ = request_.minor_version >= 1 ? BodyFraming::chunked : BodyFraming::until_close;
  if (framing_ == BodyFraming::until_close) keep_alive_ = false;
  HttpReply reply;
  reply.content_type = std::move(content_type);
  // Proxies must pass each event on at once.
  reply.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  context_.metrics.count_reply(route_, reply.status);
  append(reply_head(reply, framing_, 0, keep_alive_));
}

void Connection::send(std::string_view data) {
  assert(answer_ == Answer::streaming);
  if (closed_ || data.empty()) return;  // an empty chunk would end the body
  if (framing_ == BodyFraming::chunked) {
    append(chunk(data));
  } else {
    append(data);
  }
  if (unsent() > context_.limits.unsent_bytes) {
    context_.metrics.slow_readers.add();
    abort();
  }
}

void Connection::end_stream() {
  assert(answer_ == Answer::streaming);
  answer_ = Answer::complete;
  if (framing_ == BodyFraming::chunked) append(kLastChunk);
}

// --- socket ---

void Connection::abort() {
  if (closed_) return;
  closed_ = true;
  error_code ignored;
  socket_.close(ignored);
  wake();
}

void Connection::start_read() {
  if (reading_ || client_gone() || input_.size() >= kReadAhead) return;
  reading_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](error_code ec) {
    self->reading_ = false;
    if (ec) {
      self->input_ended_ = true;
    } else {
      self->read_available();
    }
    self->start_read();
    self->wake();
  });
}

void Connection::read_available() {
  std::array<char, kReadAtOnce> chunk;
  error_code ec;
  const std::size_t size = socket_.read_some(asio::buffer(chunk), ec);
  if (ec == asio::error::would_block || ec == asio::error::interrupted) return;
  if (ec) {
    input_ended_ = true;
  } else if (!discarding_) {
    const auto target = input_.prepare(size);
    std::copy_n(chunk.data(), size, static_cast<char*>(target.data()));
    input_.commit(size);
  }
}

void Connection::append(std::string_view bytes) {
  if (closed_) return;
  if (unsent() == 0) last_progress_ = Clock::now();
  outbox_ += bytes;
  start_write();
}

void Connection::start_write() {
  if (writing_ || closed_) return;
  if (sent_ == sending_.size()) {
    sent_ = 0;
    if (outbox_.empty()) {
      std::string().swap(sending_);
      return;
    }
    sending_.clear();
    sending_.swap(outbox_);
  }
  writing_ = true;
  const auto rest = asio::buffer(sending_) + sent_;
  socket_.async_write_some(rest, [self = shared_from_this()](error_code ec, std::size_t size) {
    self->writing_ = false;
    if (ec) return self->abort();
    self->sent_ += size;
    self->last_progress_ = Clock::now();
    self->start_write();
    if (self->unsent() == 0) self->wake();
  });
}

asio::awaitable<void> Connection::wait() { return wait_until(Clock::time_point::max()); }

asio::awaitable<void> Connection::wait_until(Clock::time_point deadline) {
  signal_.expires_at(deadline);
  error_code ignored;
  co_await signal_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

void Connection::wake() { signal_.cancel(); }

}  // namespace stemma
