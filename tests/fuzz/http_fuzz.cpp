// Any bytes from a client that then reads: the connection answers in HTTP, never with an error of its own, and ends. It runs over
// a pair of local sockets on this thread, so that an input always does the same.

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/strand.hpp>

#include "property.h"
#include "server/connection.h"

namespace stemma::fuzz {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

class Server {
 public:
  Server() {
    router_.add("POST", "/echo", [](Connection& connection) -> asio::awaitable<void> {
      HttpReply reply;
      reply.body = connection.take_body();
      connection.reply(std::move(reply));
      co_return;
    });
    router_.add("POST", "/stream", [](Connection& connection) -> asio::awaitable<void> {
      const std::string body = connection.take_body();
      connection.begin_stream("text/plain");
      for (std::size_t i = 0; i < body.size(); i += 100) connection.send(body.substr(i, 100));
      connection.end_stream();
      co_return;
    });
    router_.add("GET", "/health", [](Connection& connection) -> asio::awaitable<void> {
      connection.reply({});
      co_return;
    }, Access::open);
  }

  // All that the connection answers to `bytes`, after which the client closes its side.
  std::string answer(std::string_view bytes) {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "a pair of sockets");
    asio::local::stream_protocol::socket client(io_);
    client.assign({}, ends[0]);
    client.non_blocking(true);
    tcp::socket socket(asio::make_strand(io_));
    socket.assign(tcp::v4(), ends[1]);
    std::make_shared<Connection>(std::move(socket), context_)->start();

    io_.restart();
    std::string answered;
    bool sending = true;
    for (bool open = true; open;) {
      if (sending && !bytes.empty()) {
        error_code ec;
        bytes.remove_prefix(client.write_some(asio::buffer(bytes), ec));
        if (ec && ec != asio::error::would_block) bytes = {};
      } else if (std::exchange(sending, false)) {
        error_code ignored;
        client.shutdown(asio::socket_base::shutdown_send, ignored);
      }
      io_.poll();
      char chunk[4096];
      error_code ec;
      answered.append(chunk, client.read_some(asio::buffer(chunk), ec));
      open = !ec || ec == asio::error::would_block;
    }
    client.close();
    io_.run();  // comes back when nothing of the connection is left
    return answered;
  }

 private:
  HttpLimits limits_;
  Router router_;
  ApiKeys keys_{{}};
  LiveConnections live_;
  ServerMetrics metrics_;
  const ConnectionContext context_{limits_, 100'000, router_, keys_, live_, metrics_};
  asio::io_context io_{1};
};

}  // namespace
}  // namespace stemma::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using stemma::fuzz::require;
  static stemma::fuzz::Server server;
  const std::string answer = server.answer(stemma::fuzz::text_of(data, size));
  if (answer.empty()) return 0;
  require(answer.starts_with("HTTP/1.1 "), "an answer is HTTP");
  require(answer.find("HTTP/1.1 5") == answer.npos || stemma::fuzz::text_of(data, size).find("HTTP/1.1 5") != std::string_view::npos,
          "no request is the server's error");
  return 0;
}
