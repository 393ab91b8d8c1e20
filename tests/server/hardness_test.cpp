// Clients that mean ill, or are broken: what they send and what they leave out costs the others nothing.

#include <gmock/gmock.h>

#include <chrono>
#include <list>
#include <thread>

#include "test_client.h"

namespace stemma::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using HardnessTest = ServerTest;

std::string post(std::string_view path, std::string_view body) {
  return "POST " + std::string(path) + " HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         std::string(body);
}

bool is_well(Client& client) { return client.post("/v1/completions", R"({"prompt": "x"})").status == 200; }

// --- headers ---

TEST_F(HardnessTest, AFloodOfHeadersIsCutOff) {
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += "X-" + std::to_string(i) + ": y\r\n";
  const std::string endless_name(100'000, 'n');
  const std::string endless_line = "GET /" + std::string(100'000, 'p');
  for (const std::string& flood : {many, endless_name, "A: " + endless_name}) {
    auto one = client();
    one.send("GET /health HTTP/1.1\r\n" + flood + "\r\n\r\n");
    const Response response = one.receive();
    EXPECT_EQ(response.status, 431);
    EXPECT_EQ(response.code(), "http_headers_too_large");
    EXPECT_EQ(response.headers.at("connection"), "close");
  }
  auto line = client();
  line.send(endless_line + " HTTP/1.1\r\n\r\n");
  EXPECT_EQ(line.receive().status, 431);
  auto one = client();
  EXPECT_TRUE(is_well(one));
}

TEST_F(HardnessTest, HeadersThatTrickleInAreCutOff) {
  ServerConfig config;
  config.limits.header_seconds = 0.1;
  start(config);
  auto one = client();
  one.send("GET /health HTTP/1.1\r\n");
  std::thread trickle([&] {
    for (int i = 0; i < 1000; ++i) {
      one.send("X: y\r\n");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  // Each new header does not buy time.
  EXPECT_EQ(one.receive().code(), "http_timeout");
  trickle.join();
}

TEST_F(HardnessTest, RequestsThatAreNeverFinishedKeepNobodyOut) {
  std::list<Client> unfinished;
  for (int i = 0; i < 300; ++i) {
    unfinished.emplace_back(server().port()).send(i % 2 == 0 ? "GET /health HTTP/1.1\r\nX-Half: a he"
                                      : "POST /v1/completions HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n{\"prompt\": \"");
  }
  auto one = client();
  EXPECT_TRUE(is_well(one));
  EXPECT_EQ(server_info()["server"]["connections"], 302);
  unfinished.clear();
  while (server_info()["server"]["connections"] != 2) std::this_thread::yield();
}

// --- connections that are only half there ---

TEST_F(HardnessTest, AMachineThatVanishesIsAClientThatLeft) {
  ServerConfig config;
  config.limits.silent_seconds = 1;
  start(config);
  engine().pause(true);
  auto waiting = client();
  waiting.send(post("/v1/completions", R"({"prompt": "x", "stream": true})"));
  auto idle = client();
  EXPECT_EQ(idle.get("/health").status, 200);
  engine().wait_until([](const EngineStats& stats) { return stats.running == 1; });
  if (!waiting.vanish() || !idle.vanish()) GTEST_SKIP() << "the system does not let a socket vanish (CAP_NET_ADMIN)";
  engine().wait_until([](const EngineStats& stats) { return stats.requests_cancelled == 1; });
  while (server_info()["server"]["connections"] != 1) std::this_thread::yield();  // the one that asks
}

TEST_F(HardnessTest, AHalfClosedClientThatNeverReadsIsLetGo) {
  ServerConfig config;
  config.limits.stall_seconds = 0.05;
  start(config);
  engine().answer("Hello there, this is a test.", false);
  auto one = client();
  one.send(post("/v1/completions", R"({"prompt": "x", "max_tokens": 4000, "n": 16, "logprobs": 5})"));
  engine().wait_until([](const EngineStats& stats) { return stats.running + stats.requests_finished == 16; });
  one.shut_down_sending();
  while (server_info()["server"]["connections"] != 1) std::this_thread::yield();
}

TEST_F(HardnessTest, ManyThatNeverReadKeepNobodyWaiting) {
  ServerConfig config;
  config.limits.unsent_bytes = 64 << 10;
  start(config);
  engine().answer("Hello there, this is a test.", false);
  std::list<Client> deaf;
  for (int i = 0; i < 30; ++i) {
    deaf.emplace_back(server().port()).send(post("/v1/completions", R"({"prompt": "x", "max_tokens": 2000000000, "stream": true})"));
  }
  auto one = client();
  EXPECT_EQ(one.post("/v1/completions", R"({"prompt": "x", "max_tokens": 50})").status, 200);
  engine().wait_until([](const EngineStats& stats) { return stats.requests_cancelled == 30; });
  EXPECT_EQ(server_info()["server"]["slow_readers"], 30);
}

// --- bodies ---

TEST_F(HardnessTest, PromptsOfTenMegabytesAreTooLong) {
  constexpr std::size_t kSize = 10 << 20;
  std::string tokens;  // libllama's own way with these takes hours
  while (tokens.size() < kSize) tokens += "<|im_start|>";
  auto one = client();
  for (const std::string& text : {std::string(kSize, 'a'), tokens}) {
    const Response completion = one.post("/v1/completions", json{{"prompt", text}}.dump());
    EXPECT_EQ(completion.status, 400);
    EXPECT_EQ(completion.code(), "request_prompt_too_long");
  }
  const json messages = {{{"role", "user"}, {"content", tokens}}};
  EXPECT_EQ(one.post("/v1/chat/completions", json{{"messages", messages}}.dump()).code(), "request_prompt_too_long");
  EXPECT_TRUE(is_well(one));
  EXPECT_EQ(engine().submitted().size(), 1u);
}

TEST_F(HardnessTest, DeepNestingIsRefusedWhereverItStands) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  auto one = client();
  for (const std::string& field : {R"("messages": )" + deep, R"("messages": [{"role": "user", "content": )" + deep + "}]",
                                   R"("messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"a": )" + deep + "}",
                                   R"("messages": [{"role": "user", "content": "x"}], "metadata": )" + deep,
                                   R"("messages": [{"role": "user", "content": "x"}], "nobody knows": )" + deep}) {
    EXPECT_EQ(one.post("/v1/chat/completions", "{" + field + "}").code(), "request_json_too_deep");
  }
  const std::string call = R"({"type": "function", "function": {"name": "f", "arguments": ")" + deep + R"("}})";  // JSON in a string
  EXPECT_EQ(one.post("/v1/chat/completions", R"({"messages": [{"role": "assistant", "tool_calls": [)" + call + "]}]}").code(),
            "chat_bad_messages");
  for (const char* path : {"/tokenize", "/detokenize", "/v1/cache/explain"}) {
    EXPECT_EQ(one.post(path, R"({"prompt": )" + deep + "}").code(), "request_json_too_deep") << path;
  }
  EXPECT_EQ(one.post("/v1/completions", std::string(1'000'000, '{')).code(), "request_json_too_deep");
  EXPECT_TRUE(is_well(one));
}

TEST_F(HardnessTest, WhatIsNotUtf8IsRefusedAndNeverEchoed) {
  auto one = client();
  for (const char* bytes : {"\xff", "\xc3(", "\xe2\x82", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80", "\xc0\x80"}) {
    const std::string text = bytes;
    for (const std::string& body :
         {R"({"prompt": ")" + text + R"("})", R"({"prompt": "x", ")" + text + R"(": 1})",
          R"({"messages": [{"role": "user", "content": ")" + text + R"("}]})", R"({"prompt": "x", "stop": ")" + text + R"("})"}) {
      EXPECT_EQ(one.post("/v1/completions", body).code(), "request_bad_json");
      EXPECT_EQ(one.post("/tokenize", body).code(), "request_bad_json");
    }
  }
  EXPECT_EQ(one.post("/v1/completions", R"({"prompt": "\ud800"})").code(), "request_bad_json");
  // In a path the bytes come back as U+FFFD, if the request is read at all.
  auto other = client();
  other.send("GET /\xff\xfe HTTP/1.1\r\n\r\n");
  const Response response = other.receive();
  EXPECT_TRUE(response.status == 404 || response.status == 400) << response.status;
  EXPECT_TRUE(json::accept(response.body));
  EXPECT_TRUE(is_well(one));
}

TEST_F(HardnessTest, TheContextsEndEndsTheAnswer) {
  auto one = client();
  const std::string full = json{{"prompt", std::vector<int>(4096, 1)}, {"max_tokens", 1}}.dump();
  EXPECT_EQ(one.post("/v1/completions", full).code(), "request_prompt_too_long");
  EXPECT_EQ(one.post("/v1/completions", json{{"prompt", std::vector<int>(4096, 1)}, {"max_tokens", 2000000000}}.dump()).code(),
            "request_prompt_too_long");
  const json almost = json{{"prompt", std::vector<int>(4095, 1)}, {"max_tokens", -1}};
  EXPECT_EQ(one.post("/v1/completions", almost.dump()).status, 200);
  EXPECT_EQ(engine().submitted().back().max_tokens, 1);
}

}  // namespace
}  // namespace stemma::testing
