// Answers in events, and clients that leave or do not read.

#include <set>

#include "test_client.h"

namespace stemma::testing {
namespace {

using nlohmann::json;
using StreamingTest = ServerTest;

TEST_F(StreamingTest, TextCompletion) {
  const Response response = client().post("/v1/completions", R"({"prompt": "x", "stream": true})");
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(response.headers.at("transfer-encoding"), "chunked");
  auto events = response.events();
  ASSERT_EQ(events.size(), 10u);  // 8 pieces, the end, [DONE]
  EXPECT_EQ(events.back(), "[DONE]");
  events.pop_back();
  std::string text;
  std::set<std::string> ids;
  for (const std::string& event : events) {
    const json chunk = json::parse(event);
    ids.insert(chunk["id"]);
    EXPECT_EQ(chunk["object"], "text_completion");
    ASSERT_EQ(chunk["choices"].size(), 1u);
    text += chunk["choices"][0]["text"].get<std::string>();
    EXPECT_EQ(chunk.contains("timings"), &event == &events.back());
    EXPECT_EQ(chunk["choices"][0]["finish_reason"].is_null(), &event != &events.back());
  }
  EXPECT_EQ(text, "Hello there, this is a test.");
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_EQ(json::parse(events.back())["choices"][0]["finish_reason"], "stop");
}

TEST_F(StreamingTest, ChatWithUsage) {
  const Response response = client().post("/v1/chat/completions",
                                          R"({"messages": [{"role": "user", "content": "Hi"}], "stream": true,
                                              "stream_options": {"include_usage": true}})");
  const auto events = response.events();
  ASSERT_EQ(events.size(), 11u);
  const json first = json::parse(events[0]);
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["delta"], (json{{"role", "assistant"}, {"content", "Hello"}}));
  EXPECT_TRUE(first.at("usage").is_null());
  EXPECT_EQ(json::parse(events[1])["choices"][0]["delta"], (json{{"content", " there"}}));
  EXPECT_EQ(json::parse(events[8])["choices"][0]["finish_reason"], "stop");
  const json last = json::parse(events[9]);
  EXPECT_TRUE(last["choices"].empty());
  EXPECT_EQ(last["usage"]["completion_tokens"], 9);
  EXPECT_EQ(last["timings"]["predicted_n"], 9);
  EXPECT_EQ(events[10], "[DONE]");
}

TEST_F(StreamingTest, ChoicesAreInterleavedAndIndexed) {
  const auto events =
      client().post("/v1/completions", R"({"prompt": "x", "n": 3, "stream": true, "logprobs": 0})").events();
  std::map<int, std::string> texts;
  std::map<int, std::string> reasons;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const json choice = json::parse(events[i])["choices"][0];
    texts[choice["index"]] += choice["text"];
    if (!choice["finish_reason"].is_null()) reasons[choice["index"]] = choice["finish_reason"];
    else EXPECT_EQ(choice["logprobs"]["tokens"].size(), 1u);
  }
  ASSERT_EQ(texts.size(), 3u);
  for (const auto& [index, text] : texts) {
    EXPECT_EQ(text, "Hello there, this is a test.");
    EXPECT_EQ(reasons[index], "stop");
  }
}

TEST_F(StreamingTest, NothingOfAStopStringIsSent) {
  engine().answer("Hello there, this is a test.", false);
  const auto events = client().post("/v1/completions",
                                    R"({"prompt": "x", "stream": true, "max_tokens": 4000, "stop": " there, that",
                                        "stream_options": {"include_usage": true}})").events();
  // The text goes round, so the stop string's beginning is held back again and again but never found.
  EXPECT_EQ(json::parse(events[events.size() - 3])["choices"][0]["finish_reason"], "length");
  const auto stopped = client().post("/v1/completions", R"({"prompt": "x", "stream": true, "max_tokens": 4000,
                                        "stop": "this is", "stream_options": {"include_usage": true}})").events();
  std::string text;
  for (std::size_t i = 0; i + 2 < stopped.size(); ++i) {
    text += json::parse(stopped[i])["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, "Hello there, ");
  EXPECT_EQ(json::parse(stopped[stopped.size() - 2])["usage"]["completion_tokens"], 5);
}

TEST_F(StreamingTest, OldClientsGetTheStreamUntilTheConnectionCloses) {
  auto one = client();
  const std::string body = R"({"prompt": "x", "stream": true})";
  one.send("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  const std::string answer = one.receive_all();
  EXPECT_EQ(answer.find("chunked"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("data: [DONE]\n\n")) << answer;
}

TEST_F(StreamingTest, AnErrorUnderWayIsAnEvent) {
  engine().fail_with(make_error(ErrorCode::server_internal_error, {{"reason", "made up"}}));
  const auto events = client().post("/v1/completions", R"({"prompt": "x", "stream": true})").events();
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(json::parse(events.back())["error"]["code"], "server_internal_error");
  const Response whole = client().post("/v1/completions", R"({"prompt": "x"})");
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(whole.code(), "server_internal_error");
}

// A client that goes away has its requests cancelled, whatever they are doing.

TEST_F(StreamingTest, LeavingWhileQueued) {
  engine().pause(true);
  for (const char* stream : {"true", "false"}) {
    auto one = client();
    const std::string body = std::string(R"({"prompt": "x", "n": 3, "stream": )") + stream + "}";
    one.send("POST /v1/completions HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    engine().wait_until([](const EngineStats& stats) { return stats.running == 3; });
    one.close();
    engine().wait_until([](const EngineStats& stats) { return stats.running == 0; });
  }
  engine().wait_until([](const EngineStats& stats) { return stats.requests_cancelled == 6; });
  EXPECT_EQ(client().get("/health").status, 200);
}

TEST_F(StreamingTest, LeavingWhileDecoding) {
  engine().answer("Hello there, this is a test.", false);
  auto one = client();
  const std::string body = R"({"prompt": "x", "max_tokens": 2000000000, "stream": true})";
  one.send("POST /v1/completions HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  one.receive_some();
  one.close();
  engine().wait_until([](const EngineStats& stats) { return stats.requests_cancelled == 1; });
}

TEST_F(StreamingTest, HalfClosingIsLeaving) {
  engine().pause(true);
  auto one = client();
  const std::string body = R"({"prompt": "x"})";
  one.send("POST /v1/completions HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  engine().wait_until([](const EngineStats& stats) { return stats.running == 1; });
  one.shut_down_sending();
  engine().wait_until([](const EngineStats& stats) { return stats.requests_cancelled == 1; });
}

TEST_F(StreamingTest, AClientThatDoesNotReadIsCutOff) {
  ServerConfig config;
  config.limits.unsent_bytes = 64 << 10;
  start(config);
  engine().answer("Hello there, this is a test.", false);
  auto one = client();
  const std::string body = R"({"prompt": "x", "max_tokens": 2000000000, "stream": true})";
  one.send("POST /v1/completions HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  engine().wait_until([](const EngineStats& stats) { return stats.requests_cancelled == 1; });
  EXPECT_EQ(server_info()["server"]["slow_readers"], 1);
}

TEST_F(StreamingTest, AClientThatStopsReadingAWholeAnswerIsCutOff) {
  ServerConfig config;
  config.limits.stall_seconds = 0.05;
  start(config);
  engine().answer("Hello there, this is a test.", false);
  auto one = client();
  // Some 15 MB: more than the sockets' buffers take.
  const std::string body = R"({"prompt": "x", "max_tokens": 4000, "n": 16, "logprobs": 5})";
  one.send("POST /v1/completions HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  engine().wait_until([](const EngineStats& stats) { return stats.requests_finished == 16; });
  while (server_info()["server"]["slow_readers"] == 0) std::this_thread::yield();
}

TEST_F(StreamingTest, ManyClientsSomeOfWhichLeave) {
  constexpr int kClients = 60;
  std::vector<std::thread> threads;
  std::atomic<int> complete{0};
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      auto one = client();
      const std::string body = R"({"prompt": "x", "stream": true, "max_tokens": 50, "ignore_eos": true})";
      one.send("POST /v1/completions HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
      if (i % 3 == 0) {
        one.receive_some();
        one.close();
      } else if (one.receive().events().back() == "[DONE]") {
        ++complete;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(complete, kClients * 2 / 3);
  engine().wait_until([](const EngineStats& stats) { return stats.running == 0; });
}

}  // namespace
}  // namespace stemma::testing
