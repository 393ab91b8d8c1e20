// The server: accepts connections, owns the threads and what all connections share, and knows the routes.
//
// `io_threads` threads run all sockets; connections are on strands. `workers_` parses and tokenizes. To end, everything is told
// to stop and the I/O threads run until no connection is left: nothing is torn down under a running coroutine.

#include "server/server.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <spdlog/spdlog.h>

#include "server/completion_handler.h"
#include "server/connection.h"
#include "server/explain_handler.h"
#include "server/heap_trimmer.h"
#include "server/live_connections.h"
#include "server/router.h"
#include "server/status_json.h"
#include "server/text_handlers.h"
#include "server/workers.h"

namespace stemma {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// Pause after a failed accept: most likely there are no file descriptors left, and one has to be closed first.
constexpr std::chrono::milliseconds kAcceptPause{100};

// For what is under way to tell its client that the server ends.
constexpr std::chrono::seconds kFarewell{1};

std::int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

HttpReply json_reply(const nlohmann::ordered_json& json) {
  HttpReply reply;
  reply.body = to_text(json);
  return reply;
}

class HttpServer final : public Server {
 public:
  HttpServer(const ServerConfig& config, ServerParts parts)
      : config_(config),
        parts_(std::move(parts)),
        keys_(config_.api_keys),
        workers_(static_cast<std::size_t>(std::max(1, config_.worker_threads))),
        completions_(parts_, config_.model_alias, workers_, metrics_),
        explanations_(parts_, workers_),
        acceptor_(asio::make_strand(io_)),
        accept_pause_(acceptor_.get_executor()),
        work_(asio::make_work_guard(io_)) {
    add_routes();
  }

  ~HttpServer() override {
    stop_accepting();
    trimmer_.stop();
    live_.give_up();
    live_.wait_until_quiet(kFarewell);
    live_.stop();
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
    workers_.join();
  }

  Status listen() {
    const auto cannot = [&](const error_code& ec) {
      return fail(ErrorCode::server_cannot_listen,
                  {{"host", config_.host}, {"port", std::to_string(config_.port)}, {"reason", ec.message()}});
    };
    error_code ec;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(config_.host, std::to_string(config_.port), tcp::resolver::passive, ec);
    if (ec) return cannot(ec);
    for (const auto& entry : found) {  // the first that works
      const tcp::endpoint endpoint = entry.endpoint();
      ec = {};
      acceptor_.open(endpoint.protocol(), ec);
      if (!ec) acceptor_.set_option(tcp::acceptor::reuse_address(true), ec);
      if (!ec) acceptor_.bind(endpoint, ec);
      if (!ec) acceptor_.listen(tcp::acceptor::max_listen_connections, ec);
      if (!ec) port_ = acceptor_.local_endpoint(ec).port();
      if (!ec) break;
      error_code ignored;
      acceptor_.close(ignored);
    }
    if (ec) return cannot(ec);
    accept();
    for (int i = 0; i < std::max(1, config_.io_threads); ++i) threads_.emplace_back([this] { run_io(); });
    return {};
  }

  std::uint16_t port() const override { return port_; }

  void drain(double seconds) override {
    live_.drain();
    live_.wait_until_quiet(std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e6)));
  }

 private:
  // Until no work is left. What a coroutine throws ends in Connection; this is for a callback that finds no memory.
  void run_io() {
    while (true) {
      try {
        io_.run();
        return;
      } catch (const std::exception& e) {
        spdlog::error("I/O: {}", e.what());
      }
    }
  }

  // On the acceptor's strand, or before the threads run.
  void accept() {
    acceptor_.async_accept(asio::make_strand(io_), [this](error_code ec, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!ec) {
        accepting_ = true;
        std::make_shared<Connection>(std::move(socket), context_)->start();
        return accept();
      }
      if (std::exchange(accepting_, false)) spdlog::warn("cannot accept connections for now: {}", ec.message());
      accept_pause_.expires_after(kAcceptPause);
      accept_pause_.async_wait([this](error_code cancelled) {
        if (!cancelled && acceptor_.is_open()) accept();
      });
    });
  }

  void stop_accepting() {
    asio::post(acceptor_.get_executor(), [this] {
      error_code ignored;
      acceptor_.close(ignored);
      accept_pause_.cancel();
    });
  }

  void add_routes() {
    const auto add = [this](std::string_view method, const std::string& path, const Handler& handler) {
      router_.add(method, path, handler);
      router_.add(method, path.starts_with("/v1/") ? path.substr(3) : "/v1" + path, handler);
    };
    const auto completion = [this](CompletionApi api) {
      return [this, api](Connection& connection) { return completions_.handle(connection, api); };
    };
    add("POST", "/v1/completions", completion(CompletionApi::text));
    add("POST", "/v1/chat/completions", completion(CompletionApi::chat));
    add("POST", "/v1/cache/explain",
        [this](Connection& connection) { return explanations_.handle(connection); });
    add("GET", "/v1/models", inline_route([this] { return models_json(parts_, config_.model_alias, started_); }));
    add("POST", "/tokenize", worker_route(tokenize));
    add("POST", "/detokenize", worker_route(detokenize));

    const auto health = [this](Connection& connection) -> asio::awaitable<void> {
      const auto stuck = parts_.engine.stats().stuck;
      connection.reply(stuck ? error_reply(stuck_step_error(*stuck)) : json_reply({{"status", "ok"}}));
      co_return;
    };
    router_.add("GET", "/health", health, Access::open);
    router_.add("GET", "/v1/health", health, Access::open);
    router_.add("GET", "/server_info", inline_route([this] {
      return server_info_json(parts_, config_.model_alias, live_, metrics_);
    }));
    const auto flush = inline_route([this] {
      parts_.engine.flush_cache();
      return nlohmann::ordered_json{{"success", true}};
    });
    router_.add("POST", "/flush_cache", flush);
    router_.add("GET", "/flush_cache", flush);
    router_.add("GET", "/metrics", [this](Connection& connection) -> asio::awaitable<void> {
      HttpReply reply;
      reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
      reply.body = metrics_text(parts_.engine.stats(), live_, metrics_);
      connection.reply(std::move(reply));
      co_return;
    });
  }

  // A route whose JSON is made in no time.
  static Handler inline_route(std::function<nlohmann::ordered_json()> make) {
    return [make = std::move(make)](Connection& connection) -> asio::awaitable<void> {
      connection.reply(json_reply(make()));
      co_return;
    };
  }

  // A route that turns a body into JSON on the workers.
  Handler worker_route(ApiResult<nlohmann::ordered_json> (*make)(const Tokenizer&, std::string_view)) {
    return [this, make](Connection& connection) -> asio::awaitable<void> {
      const std::string body = connection.take_body();
      const auto json = co_await run_on(workers_, [&] { return make(parts_.tokenizer, body); });
      connection.reply(json ? json_reply(*json) : error_reply(json.error()));
    };
  }

  const ServerConfig config_;
  const ServerParts parts_;
  const std::int64_t started_ = unix_time();
  const ApiKeys keys_;
  ServerMetrics metrics_;
  LiveConnections live_{[this] { trimmer_.on_quiet(); }};
  Router router_;
  const ConnectionContext context_{config_.limits, config_.max_body_bytes, router_, keys_, live_, metrics_};

  asio::io_context io_;
  asio::thread_pool workers_;
  HeapTrimmer trimmer_{asio::make_strand(io_), workers_, [this] { return live_.quiet(); }};
  CompletionHandler completions_;
  ExplainHandler explanations_;
  tcp::acceptor acceptor_;
  asio::steady_timer accept_pause_;
  bool accepting_ = true;  // the last try went well
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::uint16_t port_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::start(const ServerConfig& config, ServerParts parts) {
  auto server = std::make_unique<HttpServer>(config, std::move(parts));
  STEMMA_CHECK(server->listen());
  return server;
}

}  // namespace stemma
