#include "test_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>

#include <boost/asio/connect.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

namespace stemma::testing {

namespace asio = boost::asio;
namespace http = boost::beast::http;

std::vector<std::string> Response::events() const {
  std::vector<std::string> events;
  constexpr std::string_view prefix = "data: ";
  std::string_view rest = body;
  while (!rest.empty()) {
    const std::size_t end = rest.find("\n\n");
    EXPECT_TRUE(rest.starts_with(prefix) && end != rest.npos) << "not an event: " << rest;
    if (end == rest.npos) break;
    events.emplace_back(rest.substr(prefix.size(), end - prefix.size()));
    rest.remove_prefix(end + 2);
  }
  return events;
}

Client::Client(std::uint16_t port) {
  socket_.connect({asio::ip::address_v4::loopback(), port});
}

Response Client::request(std::string_view method, std::string_view target, std::string_view body,
                         const Headers& headers) {
  std::string bytes;
  bytes.append(method).append(" ").append(target).append(" HTTP/1.1\r\nHost: test\r\n");
  for (const auto& [name, value] : headers) bytes += name + ": " + value + "\r\n";
  if (!body.empty()) bytes += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  bytes.append("\r\n").append(body);
  send(bytes);
  return receive(method == "HEAD");
}

void Client::send(std::string_view bytes) {
  boost::system::error_code ignored;  // a server that refuses early may have closed already
  asio::write(socket_, asio::buffer(bytes), ignored);
}

Response Client::receive(bool head) {
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  parser.skip(head);
  boost::system::error_code ec;
  http::read(socket_, buffer_, parser, ec);
  Response response;
  if (ec) {
    ADD_FAILURE() << "no response: " << ec.message();
    return response;
  }
  response.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    response.headers[name] = std::string(field.value());
  }
  response.body = parser.get().body();
  return response;
}

std::string Client::receive_all() {
  std::string bytes(static_cast<const char*>(buffer_.data().data()), buffer_.size());
  buffer_.clear();
  boost::system::error_code ec;
  asio::read(socket_, asio::dynamic_buffer(bytes), ec);
  return bytes;
}

void Client::receive_some() {
  const std::size_t size = socket_.read_some(buffer_.prepare(4096));
  buffer_.commit(size);
}

void Client::shut_down_sending() { socket_.shutdown(asio::ip::tcp::socket::shutdown_send); }

void Client::close() { socket_.close(); }

// A socket that is closed in TCP's repair mode sends nothing. What comes for it later is answered with a reset, which a machine
// that is off would not send; but neither side says anything before the other's system asks.
bool Client::vanish() {
  const int on = 1;
  if (::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) != 0) return false;
  socket_.close();
  return true;
}

namespace {

struct Vocabulary {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;
};

Vocabulary load_vocabulary() {
  const auto file = GgufFile::open(STEMMA_LLAMA_CPP_DIR "/models/ggml-vocab-qwen2.gguf");
  if (!file) throw std::runtime_error(file.error().message());
  auto tokenizer = Tokenizer::load(**file);
  if (!tokenizer) throw std::runtime_error(tokenizer.error().message());
  auto chat_template = ChatTemplate::load(**tokenizer);
  if (!chat_template) throw std::runtime_error(chat_template.error().message());
  return {std::move(*tokenizer), std::move(*chat_template)};
}

const Vocabulary& vocabulary() {
  static const Vocabulary loaded = load_vocabulary();
  return loaded;
}

}  // namespace

void ServerTest::SetUpTestSuite() { vocabulary(); }

const Tokenizer& ServerTest::tokenizer() const { return *vocabulary().tokenizer; }

void ServerTest::start(ServerConfig config) {
  server_.reset();
  engine_ = std::make_unique<FakeEngine>(tokenizer());
  config.port = 0;
  config.model_alias = "fake";
  model_ = {"fake", "Fake model", "0123456789abcdef0123", static_cast<std::int64_t>(tokenizer().size()),
            64, 2, 4096, 1000, 4000, "F32 (3)"};
  auto server = Server::start(
      config, ServerParts{*engine_, tokenizer(), *vocabulary().chat_template, model_, {{"threads", 2}}});
  ASSERT_TRUE(server) << server.error().message();
  server_ = std::move(*server);
}

}  // namespace stemma::testing
