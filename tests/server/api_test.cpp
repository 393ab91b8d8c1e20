// Every endpoint, answered whole.

#include "test_client.h"

namespace stemma::testing {
namespace {

using nlohmann::json;
using ApiTest = ServerTest;

TEST_F(ApiTest, CompletionOfAString) {
  const Response response = client().post("/v1/completions", R"({"prompt": "Say hello"})");
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
  const json answer = response.json();
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["model"], "fake");
  ASSERT_EQ(answer["choices"].size(), 1u);
  EXPECT_EQ(answer["choices"][0]["text"], "Hello there, this is a test.");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer["choices"][0]["index"], 0);
  const auto prompt = tokenizer().encode("Say hello", true, true);
  EXPECT_EQ(engine().submitted().front().prompt, prompt);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], prompt.size());
  EXPECT_EQ(answer["usage"]["completion_tokens"], 9);  // 8 and the one that ends
  EXPECT_EQ(answer["usage"]["total_tokens"], prompt.size() + 9);
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(answer["timings"]["cache_n"], 0);
  EXPECT_EQ(answer["timings"]["prompt_n"], prompt.size());
  EXPECT_EQ(answer["timings"]["prompt_ms"], 10);
  EXPECT_EQ(answer["timings"]["predicted_n"], 9);
  EXPECT_EQ(answer["timings"]["predicted_per_second"], 450);
}

TEST_F(ApiTest, TheSecondTimeTokensAreCached) {
  auto one = client();
  one.post("/v1/completions", R"({"prompt": "one two three four"})");
  const json answer = one.post("/v1/completions", R"({"prompt": "one two three four"})").json();
  const std::size_t n = answer["usage"]["prompt_tokens"];
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], n - 1);
  EXPECT_EQ(answer["timings"]["cache_n"], n - 1);
  EXPECT_EQ(answer["timings"]["prompt_n"], 1);
}

TEST_F(ApiTest, CompletionOfTokenIds) {
  EXPECT_EQ(client().post("/completions", R"({"prompt": [5, 6, 7]})").status, 200);
  EXPECT_EQ(engine().submitted().front().prompt, (std::vector<Token>{5, 6, 7}));
}

TEST_F(ApiTest, SeveralPromptsAndChoices) {
  const Response response = client().post(
      "/v1/completions", R"({"prompt": [[5, 6, 7], [8, 9]], "n": 2, "seed": 10, "max_tokens": 3})");
  ASSERT_EQ(response.status, 200) << response.body;
  const json answer = response.json();
  ASSERT_EQ(answer["choices"].size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["text"], "Hello there,");
    EXPECT_EQ(answer["choices"][i]["finish_reason"], "length");
  }
  const auto submitted = engine().submitted();
  ASSERT_EQ(submitted.size(), 4u);
  EXPECT_EQ(submitted[1].prompt, (std::vector<Token>{5, 6, 7}));
  EXPECT_EQ(submitted[2].prompt, (std::vector<Token>{8, 9}));
  EXPECT_EQ(submitted[0].sampling.seed, 10u);
  EXPECT_EQ(submitted[1].sampling.seed, 11u);
  EXPECT_EQ(submitted[2].sampling.seed, 10u);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 5);  // each prompt once
  EXPECT_EQ(answer["usage"]["completion_tokens"], 12);
}

TEST_F(ApiTest, Chat) {
  const Response response = client().post("/v1/chat/completions",
                                          R"({"model": "any", "messages": [{"role": "user", "content": "Hi"}]})");
  ASSERT_EQ(response.status, 200) << response.body;
  const json answer = response.json();
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "Hello there, this is a test.");
  EXPECT_TRUE(answer["choices"][0]["logprobs"].is_null());
  const GenerationRequest request = engine().submitted().front();
  EXPECT_EQ(tokenizer().decode(request.prompt, true).find("Hi") == std::string::npos, false);
  EXPECT_EQ(request.max_tokens, 4096 - static_cast<int>(request.prompt.size()));
  EXPECT_EQ(client().post("/chat/completions", R"({"messages": [{"role": "user", "content": "Hi"}]})").status, 200);
}

TEST_F(ApiTest, ParametersReachTheEngine) {
  const Response response = client().post("/v1/completions", R"({
    "prompt": "x", "temperature": 0.25, "top_k": 7, "top_p": 0.5, "min_p": 0.125, "repeat_penalty": 1.5,
    "frequency_penalty": 0.5, "presence_penalty": -0.5, "repeat_last_n": 9, "seed": 42, "logit_bias": {"15": -100},
    "ignore_eos": true, "logprobs": 3, "max_tokens": 5, "cache_salt": "salt", "priority": 80,
    "retention_seconds": 1.5, "user": "me", "n": 1, "best_of": 1,
    "echo": false, "suffix": null, "response_format": {"type": "text"}, "tools": []})");
  ASSERT_EQ(response.status, 200) << response.body;
  const GenerationRequest request = engine().submitted().front();
  const SamplingParams& s = request.sampling;
  EXPECT_EQ(s.temperature, 0.25f);
  EXPECT_EQ(s.top_k, 7);
  EXPECT_EQ(s.top_p, 0.5f);
  EXPECT_EQ(s.min_p, 0.125f);
  EXPECT_EQ(s.repeat_penalty, 1.5f);
  EXPECT_EQ(s.frequency_penalty, 0.5f);
  EXPECT_EQ(s.presence_penalty, -0.5f);
  EXPECT_EQ(s.repeat_last_n, 9);
  EXPECT_EQ(s.seed, 42u);
  EXPECT_EQ(s.logit_bias, (std::vector<std::pair<Token, float>>{{15, -100.0f}}));
  EXPECT_TRUE(s.ignore_eos);
  EXPECT_EQ(s.logprobs, 3);
  EXPECT_EQ(request.max_tokens, 5);
  EXPECT_EQ(request.cache_salt, "salt");
  EXPECT_EQ(request.priority, 80);
  EXPECT_EQ(request.retention_seconds, 1.5);
}

TEST_F(ApiTest, WithoutAPriorityItIsTheDefault) {
  client().post("/v1/completions", R"({"prompt": "x"})");
  EXPECT_EQ(engine().submitted().front().priority, kDefaultPriority);
  EXPECT_EQ(engine().submitted().front().retention_seconds, 0);
}

TEST_F(ApiTest, AnAnswerReportsTheCacheWhenAsked) {
  auto one = client();
  EXPECT_FALSE(one.post("/v1/completions", R"({"prompt": [1, 2, 3, 4]})").json().contains("cache"));
  const json answer =
      one.post("/v1/completions", R"({"prompt": [1, 2, 3, 4, 5], "cache_report": true})").json();
  const json& report = answer["cache"];
  EXPECT_EQ(report["prompt_tokens"], 5);
  EXPECT_EQ(report["matched"], 4);
  EXPECT_EQ(report["usable"], 4);
  EXPECT_EQ(report["reused"], 4);
  EXPECT_EQ(report["reason"], "whole_prompt");
  EXPECT_TRUE(report["advice"].get<std::string>().ends_with(".")) << report;
  EXPECT_EQ(report["waited_for"], json::array());
  EXPECT_EQ(report["checkpoints_taken"], json::array());
  // Several choices: a list in their order.
  const json list =
      one.post("/v1/completions", R"({"prompt": [[1, 2], [9, 8, 7]], "cache_report": true})")
          .json()["cache"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["reason"], "whole_prompt");
  EXPECT_EQ(list[1]["reason"], "no_such_prefix");
}

TEST_F(ApiTest, AStreamReportsTheCacheInItsLastChunk) {
  for (const char* usage : {"true", "false"}) {
    const std::string body =
        R"({"prompt": "x", "stream": true, "cache_report": true, "stream_options": {"include_usage": )" +
        std::string(usage) + "}}";
    const auto events = client().post("/v1/completions", body).events();
    ASSERT_GT(events.size(), 2u);
    EXPECT_EQ(events.back(), "[DONE]");
    for (std::size_t i = 0; i + 1 < events.size(); ++i) {
      EXPECT_EQ(json::parse(events[i]).contains("cache"), i + 2 == events.size()) << events[i];
    }
  }
}

TEST_F(ApiTest, ExplainTellsWhatAPromptWouldReuseAndRunsNothing) {
  auto one = client();
  const Response response = one.post(
      "/v1/cache/explain", R"({"prompt": [5, 6, 7, 8], "max_tokens": 9, "temperature": 0})");
  ASSERT_EQ(response.status, 200) << response.body;
  const json answer = response.json();
  EXPECT_EQ(answer["object"], "cache.explanation");
  EXPECT_EQ(answer["prompt_tokens"], 4);
  EXPECT_EQ(answer["matched"], 4);
  EXPECT_EQ(answer["usable"], 2);
  EXPECT_EQ(answer["reason"], "state_not_stored");
  EXPECT_NE(answer["advice"], "");
  EXPECT_EQ(answer["checkpoints"], json({2}));
  EXPECT_EQ(answer["forks"], json({1}));
  EXPECT_TRUE(answer["evicted_checkpoint"].is_null());
  EXPECT_EQ(answer["other_namespace_matched"], 3);
  EXPECT_EQ(answer["in_flight"], 4);
  EXPECT_EQ(answer["planned_checkpoints"], json::parse(R"([{"depth": 3, "source": "repeat"}])"));
  EXPECT_EQ(
      one.post("/cache/explain", R"({"messages": [{"role": "user", "content": "Hi"}]})").status,
      200);
  EXPECT_TRUE(engine().submitted().empty());
}

TEST_F(ApiTest, ExplainRefusesWhatACompletionWouldRefuse) {
  auto one = client();
  EXPECT_EQ(one.post("/v1/cache/explain", "{").code(), "request_bad_json");
  EXPECT_EQ(one.post("/v1/cache/explain", "{}").code(), "request_missing_field");
  EXPECT_EQ(one.post("/v1/cache/explain", R"({"prompt": []})").code(), "request_prompt_empty");
  EXPECT_EQ(one.post("/v1/cache/explain", R"({"prompt": [1000000000]})").code(),
            "request_token_out_of_range");
  EXPECT_EQ(one.post("/v1/cache/explain", R"({"prompt": [[1], [2]]})").code(), "request_bad_field");
  EXPECT_EQ(one.get("/v1/cache/explain").code(), "http_method_not_allowed");
}

TEST_F(ApiTest, AClientThatLeavesBeforeItsExplanationLeavesNothingBehind) {
  engine().pause(true);
  auto leaving = client();
  leaving.send(
      "POST /v1/cache/explain HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n{\"prompt\": [1]}");
  leaving.close();
  stop();  // ends although nobody ever answers
}

TEST_F(ApiTest, MaxTokensUnderItsThreeNames) {
  auto one = client();
  const auto max_tokens = [&](const std::string& fields) {
    EXPECT_EQ(one.post("/v1/completions", R"({"prompt": [1, 2, 3])" + fields + "}").status, 200);
    return engine().submitted().back().max_tokens;
  };
  EXPECT_EQ(max_tokens(""), 16);
  EXPECT_EQ(max_tokens(R"(, "max_tokens": 7)"), 7);
  EXPECT_EQ(max_tokens(R"(, "n_predict": 8)"), 8);
  EXPECT_EQ(max_tokens(R"(, "max_completion_tokens": 9, "max_tokens": 7)"), 9);
  EXPECT_EQ(max_tokens(R"(, "max_tokens": -1)"), 4093);
  EXPECT_EQ(max_tokens(R"(, "max_tokens": 0)"), 0);
}

TEST_F(ApiTest, UnseededRequestsDiffer) {
  auto one = client();
  one.post("/v1/completions", R"({"prompt": "x"})");
  one.post("/v1/completions", R"({"prompt": "x", "seed": -1})");
  const auto submitted = engine().submitted();
  EXPECT_NE(submitted[0].sampling.seed, submitted[1].sampling.seed);
}

TEST_F(ApiTest, StopStringEndsTheAnswerAndTheEnginesRequest) {
  engine().answer("Hello there, this is a test.", false);  // would go on to max_tokens
  const json answer =
      client().post("/v1/completions", R"({"prompt": "x", "max_tokens": 4000, "stop": ["is a", "zzz"]})").json();
  EXPECT_EQ(answer["choices"][0]["text"], "Hello there, this ");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 6);
  engine().wait_until([](const EngineStats& stats) { return stats.requests_cancelled == 1; });
}

TEST_F(ApiTest, TextLogprobs) {
  const json answer =
      client().post("/v1/completions", R"({"prompt": "x", "logprobs": 2, "return_tokens": true})").json();
  const json& choice = answer["choices"][0];
  const json& logprobs = choice["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), 8u);
  EXPECT_EQ(logprobs["tokens"][0], "Hello");
  EXPECT_EQ(logprobs["tokens"][1], " there");
  EXPECT_EQ(logprobs["token_logprobs"][1], -0.5);
  EXPECT_EQ(logprobs["text_offset"], json({0, 5, 11, 12, 17, 20, 22, 27}));
  EXPECT_EQ(logprobs["top_logprobs"][1].size(), 3u);  // two and the chosen one
  EXPECT_EQ(logprobs["top_logprobs"][1][" there"], -0.5);
  EXPECT_EQ(choice["token_ids"].get<std::vector<Token>>(),
            tokenizer().encode("Hello there, this is a test.", false, false));
}

TEST_F(ApiTest, ChatLogprobs) {
  const json answer = client().post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "Hi"}],
                                                                 "logprobs": true, "top_logprobs": 2})").json();
  const json& content = answer["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 8u);
  EXPECT_EQ(content[0]["token"], "Hello");
  EXPECT_EQ(content[0]["logprob"], -0.5);
  EXPECT_EQ(content[0]["bytes"], json({'H', 'e', 'l', 'l', 'o'}));
  ASSERT_EQ(content[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(content[0]["top_logprobs"][0]["logprob"], -1.0);
}

TEST_F(ApiTest, TokensThatAreNotCharactersHaveTheirBytes) {
  const std::string sign = "\xf0\x93\x80\x80";  // U+13000: several byte tokens
  engine().answer(sign);
  const json answer = client().post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "Hi"}],
                                                                 "logprobs": true})").json();
  EXPECT_EQ(answer["choices"][0]["message"]["content"], sign);
  std::string bytes;
  for (const json& entry : answer["choices"][0]["logprobs"]["content"]) {
    EXPECT_TRUE(entry["token"].get<std::string>().starts_with("bytes:\\x")) << entry;
    for (const json& byte : entry["bytes"]) bytes += static_cast<char>(byte.get<int>());
  }
  EXPECT_EQ(bytes, sign);
}

TEST_F(ApiTest, TokenizeAndBack) {
  auto one = client();
  const json tokens = one.post("/tokenize", R"({"content": "Hello there"})").json();
  EXPECT_EQ(tokens["tokens"].get<std::vector<Token>>(), tokenizer().encode("Hello there", false, true));
  EXPECT_EQ(one.post("/v1/tokenize", R"({"prompt": "Hello there"})").json(), tokens);
  EXPECT_EQ(one.post("/detokenize", tokens.dump()).json()["content"], "Hello there");
  const json pieces = one.post("/tokenize", R"({"content": "Hello there\ud80c\udc00", "with_pieces": true})").json();
  EXPECT_EQ(pieces["tokens"][0]["piece"], "Hello");
  EXPECT_TRUE(pieces["tokens"].back()["piece"].is_array());  // part of a character
}

TEST_F(ApiTest, Models) {
  for (const char* path : {"/v1/models", "/models"}) {
    const json answer = client().get(path).json();
    EXPECT_EQ(answer["object"], "list");
    EXPECT_EQ(answer["data"][0]["id"], "fake");
    EXPECT_EQ(answer["data"][0]["object"], "model");
    EXPECT_EQ(answer["data"][0]["meta"]["n_ctx"], 4096);
  }
}

TEST_F(ApiTest, HealthAndInfoAndFlush) {
  auto one = client();
  EXPECT_EQ(one.get("/health").json()["status"], "ok");
  EXPECT_EQ(one.get("/v1/health").status, 200);
  const json info = one.get("/server_info").json();
  EXPECT_EQ(info["model"]["architecture"], "fake");
  EXPECT_EQ(info["options"]["threads"], 2);
  EXPECT_EQ(info["memory"]["page_count"], 100);
  EXPECT_EQ(info["cache"]["pages"]["free"], 100);
  EXPECT_EQ(info["engine"]["running"], 0);
  EXPECT_EQ(info["context_length"], 4096);
  EXPECT_EQ(one.post("/flush_cache", "").json()["success"], true);
  EXPECT_EQ(one.get("/flush_cache").status, 200);
  EXPECT_EQ(engine().flushes(), 2u);
}

TEST_F(ApiTest, AStuckStepMakesTheServerUnwellUntilItEnds) {
  auto one = client();
  EXPECT_TRUE(one.get("/server_info").json()["engine"]["stuck_step"].is_null());
  EXPECT_NE(one.get("/metrics").body.find("stemma_step_stuck_seconds 0\n"), std::string::npos);
  engine().stick(StuckStep{.load = {.number = 7, .sequences = 2, .tokens = 300}, .seconds = 4.5});
  const Response unwell = one.get("/health");
  EXPECT_EQ(unwell.status, 503);
  EXPECT_EQ(unwell.code(), "engine_step_stuck");
  EXPECT_EQ(unwell.json()["error"]["message"],
            "step 7 with 300 tokens of 2 sequences has run for 4.5 seconds and has not ended");
  EXPECT_EQ(one.get("/server_info").json()["engine"]["stuck_step"],
            json({{"step", 7}, {"sequences", 2}, {"tokens", 300}, {"seconds", 4.5}}));
  EXPECT_NE(one.get("/metrics").body.find("stemma_step_stuck_seconds 4.5\n"), std::string::npos);
  engine().stick(std::nullopt);
  EXPECT_EQ(one.get("/health").status, 200);
}

TEST_F(ApiTest, Metrics) {
  auto one = client();
  one.post("/v1/completions", R"({"prompt": "x"})");
  const Response response = one.get("/metrics");
  EXPECT_EQ(response.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line : {"stemma_requests_total{end=\"finished\"} 1\n", "stemma_pool_capacity{pool=\"pages\"} 100\n",
                           "stemma_http_replies_total{route=\"/v1/completions\",status=\"200\"} 1\n",
                           "# TYPE stemma_time_to_first_token_seconds histogram\n",
                           "stemma_time_to_first_token_seconds_bucket{le=\"+Inf\"} 1\n",
                           "stemma_time_to_first_token_seconds_count 1\n", "stemma_request_seconds_count 1\n"}) {
    EXPECT_NE(response.body.find(line), std::string::npos) << line << "\nin\n" << response.body;
  }
}

}  // namespace
}  // namespace stemma::testing
