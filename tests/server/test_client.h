#pragma once
// A blocking HTTP client on one connection, and the server that the tests talk to.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fake_engine.h"
#include "server/server.h"

namespace stemma::testing {

struct Response {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  nlohmann::json json() const { return nlohmann::json::parse(body); }
  // error.code of OpenAI's error object.
  std::string code() const { return json().at("error").at("code").get<std::string>(); }
  // The data of a stream's events.
  std::vector<std::string> events() const;
};

class Client {
 public:
  explicit Client(std::uint16_t port);

  using Headers = std::vector<std::pair<std::string, std::string>>;

  Response request(std::string_view method, std::string_view target, std::string_view body = {},
                   const Headers& headers = {});
  Response get(std::string_view target) { return request("GET", target); }
  Response post(std::string_view target, std::string_view body) { return request("POST", target, body); }

  // Bytes as they are.
  void send(std::string_view bytes);
  // One response to a request that was sent as bytes; HEAD responses have no body.
  Response receive(bool head = false);
  // Everything up to the end of the connection, or to a reset.
  std::string receive_all();
  // At least one byte of an answer.
  void receive_some();
  void shut_down_sending();
  void close();
  // As if the machine were switched off: no byte says so. False if the system does not let this process do that.
  bool vanish();

 private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_{io_};
  boost::beast::flat_buffer buffer_;
};

// The tokenizer and template that all tests share (loading takes a moment), a fake engine and a server.
class ServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite();

  void SetUp() override { start({}); }
  void start(ServerConfig config);
  void stop() { server_.reset(); }

  const Tokenizer& tokenizer() const;
  FakeEngine& engine() { return *engine_; }
  Server& server() { return *server_; }
  Client client() { return Client(server_->port()); }
  nlohmann::json server_info() { return client().get("/server_info").json(); }

 private:
  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<Server> server_;
  ModelInfo model_;
};

}  // namespace stemma::testing
