// The protocol below the API: keep-alive, old clients, HEAD, CORS, limits, time-outs, keys, the end.

#include <future>

#include "server/api_keys.h"
#include "test_client.h"

namespace stemma::testing {
namespace {

using nlohmann::json;
using HttpTest = ServerTest;

TEST_F(HttpTest, ConnectionsAreKept) {
  auto one = client();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(one.get("/health").headers.at("connection"), "keep-alive");
    EXPECT_EQ(one.post("/v1/completions", R"({"prompt": "x", "stream": true})").status, 200);
  }
}

TEST_F(HttpTest, PipelinedRequestsAreAnsweredInOrder) {
  auto one = client();
  const std::string body = R"({"prompt": "x"})";
  one.send("POST /v1/completions HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body +
           "GET /health HTTP/1.1\r\n\r\nGET /v1/models HTTP/1.1\r\n\r\n");
  EXPECT_EQ(one.receive().json()["object"], "text_completion");
  EXPECT_EQ(one.receive().json()["status"], "ok");
  EXPECT_EQ(one.receive().json()["object"], "list");
}

TEST_F(HttpTest, OneByteAtATime) {
  auto one = client();
  const std::string body = R"({"prompt": "x"})";
  for (const char c : "POST /v1/completions HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body) {
    one.send(std::string(1, c));
  }
  EXPECT_EQ(one.receive().status, 200);
}

TEST_F(HttpTest, ChunkedBodies) {
  auto one = client();
  one.send("POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
           "8\r\n{\"prompt\r\n7\r\n\": \"x\"}\r\n0\r\n\r\n");
  EXPECT_EQ(one.receive().status, 200);
}

TEST_F(HttpTest, OldClientsAreClosedUnlessTheyAsk) {
  auto one = client();
  one.send("GET /health HTTP/1.0\r\n\r\n");
  const std::string answer = one.receive_all();
  EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("{\"status\":\"ok\"}"));
}

TEST_F(HttpTest, HalfClosedClientsStillGetPlainAnswers) {
  auto one = client();
  one.send("GET /health HTTP/1.1\r\n\r\n");
  one.shut_down_sending();
  EXPECT_TRUE(one.receive_all().ends_with("{\"status\":\"ok\"}"));
}

TEST_F(HttpTest, Head) {
  auto one = client();
  const Response response = one.request("HEAD", "/health");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("content-length"), "15");
  EXPECT_EQ(response.body, "");
  EXPECT_EQ(one.get("/health").status, 200);
}

TEST_F(HttpTest, TargetsMayNameTheHost) {
  auto one = client();
  EXPECT_EQ(one.get("http://test:80/health").status, 200);
  EXPECT_EQ(one.get("http://test/health?a=b://c/d").status, 200);
  EXPECT_EQ(one.get("http://test").code(), "http_not_found");
}

TEST_F(HttpTest, LineEndsBetweenRequestsAreIgnored) {
  auto one = client();
  one.send("\r\n");
  const std::string body = R"({"prompt": "x"})";
  for (int i = 0; i < 2; ++i) {
    one.send("POST /v1/completions HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body + "\r\n");
    EXPECT_EQ(one.receive().status, 200);
  }
}

TEST_F(HttpTest, QueriesAreIgnored) { EXPECT_EQ(client().get("/health?a=b").status, 200); }

TEST_F(HttpTest, Preflight) {
  const Response response = client().request("OPTIONS", "/v1/chat/completions", {},
                                             {{"Origin", "http://example.com"},
                                              {"Access-Control-Request-Headers", "authorization,x-stainless-os"}});
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.headers.at("access-control-allow-origin"), "*");
  EXPECT_EQ(response.headers.at("access-control-allow-headers"), "authorization,x-stainless-os");
  EXPECT_NE(response.headers.at("access-control-allow-methods").find("POST"), std::string::npos);
}

TEST_F(HttpTest, ContinuesWhenAsked) {
  auto one = client();
  const std::string body = R"({"prompt": "x"})";
  one.send("POST /v1/completions HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(one.receive().status, 100);
  one.send(body);
  EXPECT_EQ(one.receive().status, 200);
}

TEST_F(HttpTest, NotFoundAndMethodNotAllowed) {
  auto one = client();
  const Response missing = one.get("/v1/embeddings");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.code(), "http_not_found");
  const Response wrong = one.get("/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.code(), "http_method_not_allowed");
  EXPECT_EQ(wrong.json()["error"]["message"], "GET is not allowed on /v1/completions; use POST");
  // A body that goes with such a request is not taken for the next request.
  EXPECT_EQ(client().post("/nowhere", "GET /health HTTP/1.1\r\n\r\n").headers.at("connection"), "close");
}

TEST_F(HttpTest, MalformedRequests) {
  for (const char* bytes : {"\x16\x03\x01\x02\x00\x01\xfc\x03\x03", "GET /health HTTP/3.0\r\n\r\n", "nonsense\r\n\r\n",
                            "GET /health HTTP/1.1\r\nbroken header\r\n\r\n",
                            "POST /tokenize HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                            "POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    auto one = client();
    one.send(bytes);
    one.shut_down_sending();
    EXPECT_EQ(one.receive_all().substr(0, 12), "HTTP/1.1 400") << bytes;
  }
}

TEST_F(HttpTest, HeadersTooLarge) {
  auto one = client();
  one.send("GET /health HTTP/1.1\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n");
  const Response response = one.receive();
  EXPECT_EQ(response.status, 431);
  EXPECT_EQ(response.code(), "http_headers_too_large");
}

TEST_F(HttpTest, BodyTooLarge) {
  ServerConfig config;
  config.max_body_bytes = 100;
  start(config);
  const Response response = client().post("/v1/completions", "{\"prompt\": \"" + std::string(200, 'x') + "\"}");
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.code(), "http_body_too_large");
  auto one = client();  // and without a length in front
  one.send("POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nc8\r\n" + std::string(200, 'x') + "\r\n");
  EXPECT_EQ(one.receive().code(), "http_body_too_large");
}

TEST_F(HttpTest, SlowHeadersAndBodies) {
  ServerConfig config;
  config.limits.header_seconds = 0.02;
  config.limits.stall_seconds = 0.02;
  start(config);
  auto one = client();
  one.send("GET /heal");
  const Response headers = one.receive();
  EXPECT_EQ(headers.status, 408);
  EXPECT_EQ(headers.code(), "http_timeout");
  auto two = client();
  two.send("POST /tokenize HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(two.receive().code(), "http_timeout");
}

TEST_F(HttpTest, IdleConnectionsAreClosed) {
  ServerConfig config;
  config.limits.idle_seconds = 0.02;
  start(config);
  auto one = client();
  one.get("/health");
  EXPECT_EQ(one.receive_all(), "");
}

TEST_F(HttpTest, Keys) {
  ServerConfig config;
  config.api_keys = {"first", "second"};
  start(config);
  auto one = client();
  EXPECT_EQ(one.get("/health").status, 200);
  const Response refused = one.get("/v1/models");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.code(), "http_unauthorized");
  EXPECT_EQ(one.get("/no/such/path").status, 401);
  EXPECT_EQ(one.request("GET", "/v1/models", {}, {{"Authorization", "Bearer second"}}).status, 200);
  EXPECT_EQ(one.request("GET", "/v1/models", {}, {{"X-Api-Key", "first"}}).status, 200);
  EXPECT_EQ(one.request("GET", "/v1/models", {}, {{"Authorization", "Bearer secon"}}).status, 401);
  EXPECT_EQ(one.request("GET", "/v1/models", {}, {{"Authorization", "Basic second"}}).status, 401);
  EXPECT_EQ(one.request("OPTIONS", "/v1/models").status, 204);
}

TEST(ApiKeys, AnEmptyKeyOpensNothing) {
  EXPECT_TRUE(ApiKeys({}).allow("", ""));
  EXPECT_FALSE(ApiKeys({""}).allow("", ""));
  EXPECT_FALSE(ApiKeys({""}).allow("Bearer ", ""));
  EXPECT_TRUE(ApiKeys({"key"}).allow("bearer key", ""));
  EXPECT_FALSE(ApiKeys({"key"}).allow("Bearer keykey", "kkk"));
}

TEST_F(HttpTest, ThePortCanBeTaken) {
  ServerConfig config;
  config.port = server().port();
  FakeEngine other(tokenizer());
  const auto chat_template = ChatTemplate::load(tokenizer());
  const ModelInfo model{};
  const auto second = Server::start(config, ServerParts{other, tokenizer(), **chat_template, model, {}});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), ErrorCode::server_cannot_listen);
  config.host = "not an address";
  const auto third = Server::start(config, ServerParts{other, tokenizer(), **chat_template, model, {}});
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code(), ErrorCode::server_cannot_listen);
}

TEST_F(HttpTest, DrainingFinishesWhatIsUnderWay) {
  engine().pause(true);
  auto idle = client();
  EXPECT_EQ(idle.get("/health").status, 200);
  auto running = client();
  const std::string body = R"({"prompt": "x"})";
  running.send("POST /v1/completions HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  engine().wait_until([](const EngineStats& stats) { return stats.running == 1; });
  auto drained = std::async(std::launch::async, [&] { server().drain(1000); });
  // Others are told that it ends, as soon as it does: on the old connection and on new ones.
  Response health;
  do health = client().get("/health");
  while (health.status == 200);
  for (const Response& refused : {health, idle.get("/health"), client().post("/v1/completions", body)}) {
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.code(), "server_shutting_down");
    EXPECT_EQ(refused.headers.at("connection"), "close");
    EXPECT_EQ(refused.headers.at("retry-after"), "1");
  }
  EXPECT_EQ(idle.receive_all(), "");
  engine().pause(false);
  EXPECT_EQ(running.receive().status, 200);
  drained.get();
}

TEST_F(HttpTest, DrainingRefusesNewRequestsAndGivesUpInTime) {
  engine().pause(true);
  auto running = client();
  const std::string body = R"({"prompt": "x"})";
  running.send("POST /v1/completions HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  engine().wait_until([](const EngineStats& stats) { return stats.running == 1; });
  // One write, so the server has the beginning of the second request when it answers the first.
  auto begun = client();
  begun.send("GET /health HTTP/1.1\r\n\r\nPOST /v1/completions HTTP/1.1\r\nContent-Le");
  EXPECT_EQ(begun.receive().status, 200);
  server().drain(0);
  begun.send("ngth: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  const Response refused = begun.receive();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.code(), "server_shutting_down");
  EXPECT_EQ(refused.headers.at("connection"), "close");
  engine().pause(false);
  EXPECT_EQ(running.receive().status, 200);
}

TEST_F(HttpTest, StoppingCancelsWhatRunsAndSaysSo) {
  engine().pause(true);
  const auto start_one = [&](const std::string& body) {
    auto one = std::make_unique<Client>(server().port());
    one->send("POST /v1/completions HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return one;
  };
  const auto stream = start_one(R"({"prompt": "x", "stream": true})");
  const auto whole = start_one(R"({"prompt": "x"})");
  engine().wait_until([](const EngineStats& stats) { return stats.running == 2; });
  stop();
  engine().wait_until([](const EngineStats& stats) { return stats.requests_cancelled == 2; });
  const auto events = stream->receive().events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(json::parse(events[0])["error"]["code"], "server_shutting_down");
  const Response refused = whole->receive();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.code(), "server_shutting_down");
}

}  // namespace
}  // namespace stemma::testing
