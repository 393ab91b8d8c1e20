// Every error of server.json and request.json, provoked; and 200 broken requests.

#include <random>
#include <set>

#include "core/error_catalogue.h"
#include "test_client.h"

namespace stemma::testing {
namespace {

using nlohmann::json;
using ErrorsTest = ServerTest;

struct Case {
  const char* body;
  const char* code;
  const char* param;  // of the error object; null if none
};

void expect(Client& client, const char* path, const Case& c) {
  const Response response = client.post(path, c.body);
  ASSERT_EQ(response.headers.at("content-type"), "application/json") << c.body;
  const json error = response.json().at("error");
  EXPECT_EQ(response.status, 400) << c.body;
  EXPECT_EQ(error["code"], c.code) << c.body << "\n" << response.body;
  EXPECT_EQ(error["type"], "invalid_request_error") << c.body;
  EXPECT_EQ(error["param"], c.param ? json(c.param) : json()) << c.body;
  EXPECT_EQ(find_error(error["message"].get<std::string>()), find_error(c.code)) << error["message"];
}

TEST_F(ErrorsTest, Completions) {
  auto one = client();
  const Case cases[] = {
      {"", "request_bad_json", nullptr},
      {"[1, 2]", "request_bad_json", nullptr},
      {"{\"prompt\": \"x\"", "request_bad_json", nullptr},
      {"{\"prompt\": NaN}", "request_bad_json", nullptr},
      {"{\"prompt\": \"x\", \"temperature\": 1e999}", "request_bad_json", nullptr},
      {"{\"prompt\": \"\xff\xfe\"}", "request_bad_json", nullptr},
      {"{}", "request_missing_field", "prompt"},
      {R"({"prompt": null})", "request_missing_field", "prompt"},
      {R"({"prompt": {}})", "request_bad_field", "prompt"},
      {R"({"prompt": 5})", "request_bad_field", "prompt"},
      {R"({"prompt": ["a", 1]})", "request_bad_field", "prompt"},
      {R"({"prompt": [1.5]})", "request_bad_field", "prompt"},
      {R"({"prompt": [[1], "a"]})", "request_bad_field", "prompt"},
      {R"({"prompt": [9223372036854775807]})", "request_bad_field", "prompt"},
      {R"({"prompt": []})", "request_prompt_empty", nullptr},
      {R"({"prompt": ""})", "request_prompt_empty", nullptr},
      {R"({"prompt": [[1], []]})", "request_prompt_empty", nullptr},
      {R"({"prompt": [-1]})", "request_token_out_of_range", nullptr},
      {R"({"prompt": [1, 2000000000]})", "request_token_out_of_range", nullptr},
      {R"({"prompt": "x", "temperature": "hot"})", "request_bad_field", "temperature"},
      {R"({"prompt": "x", "temperature": 1e300})", "request_bad_field", "temperature"},
      {R"({"prompt": "x", "temperature": -1})", "sampling_bad_parameter", nullptr},
      {R"({"prompt": "x", "top_p": 2})", "sampling_bad_parameter", nullptr},
      {R"({"prompt": "x", "top_k": 1.5})", "request_bad_field", "top_k"},
      {R"({"prompt": "x", "max_tokens": -2})", "request_bad_field", "max_tokens"},
      {R"({"prompt": "x", "priority": -1})", "request_bad_field", "priority"},
      {R"({"prompt": "x", "priority": 101})", "request_bad_field", "priority"},
      {R"({"prompt": "x", "retention_seconds": -1})", "request_bad_field", "retention_seconds"},
      {R"({"prompt": "x", "retention_seconds": "1h"})", "request_bad_field", "retention_seconds"},
      {R"({"prompt": "x", "cache_report": 1})", "request_bad_field", "cache_report"},
      {R"({"prompt": "x", "max_tokens": 99999999999999999999})", "request_bad_field", "max_tokens"},
      {R"({"prompt": "x", "max_tokens": 18446744073709551615})", "request_bad_field", "max_tokens"},
      {R"({"prompt": "x", "n": 0})", "request_bad_field", "n"},
      {R"({"prompt": "x", "n": 129})", "request_bad_field", "n"},
      {R"({"prompt": "x", "seed": "a"})", "request_bad_field", "seed"},
      {R"({"prompt": "x", "stop": 5})", "request_bad_field", "stop"},
      {R"({"prompt": "x", "stop": ""})", "request_bad_field", "stop"},
      {R"({"prompt": "x", "stop": ["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"]})",
       "request_bad_field", "stop"},
      {R"({"prompt": "x", "logprobs": true})", "request_bad_field", "logprobs"},
      {R"({"prompt": "x", "logprobs": 21})", "request_bad_field", "logprobs"},
      {R"({"prompt": "x", "logit_bias": [1]})", "request_bad_field", "logit_bias"},
      {R"({"prompt": "x", "logit_bias": {"one": 1}})", "request_bad_field", "logit_bias"},
      {R"({"prompt": "x", "logit_bias": {"999999999": 1}})", "sampling_bad_token", nullptr},
      {R"({"prompt": "x", "stream": 1})", "request_bad_field", "stream"},
      {R"({"prompt": "x", "stream_options": {"include_usag": true}})", "request_unknown_field",
       "include_usag"},
      {R"({"prompt": "x", "max_token": 5})", "request_unknown_field", "max_token"},
      {R"({"prompt": "x", "echo": true})", "request_unsupported", "echo"},
      {R"({"prompt": "x", "suffix": "y"})", "request_unsupported", "suffix"},
      {R"({"prompt": "x", "best_of": 2})", "request_unsupported", "best_of"},
      {R"({"prompt": "x", "grammar": "root ::= x"})", "request_unsupported", "grammar"},
      {R"({"prompt": "x", "cache_prompt": false})", "request_unsupported", "cache_prompt"},
  };
  for (const Case& c : cases) expect(one, "/v1/completions", c);
  EXPECT_TRUE(engine().submitted().empty() || engine().submitted().size() == 1);  // [[1], []] got one in
  engine().wait_until([](const EngineStats& stats) { return stats.running == 0; });
}

TEST_F(ErrorsTest, Chat) {
  auto one = client();
  const Case cases[] = {
      {"{}", "request_missing_field", "messages"},
      {R"({"messages": "hi"})", "chat_bad_messages", "messages"},
      {R"({"messages": []})", "chat_bad_messages", "messages"},
      {R"({"messages": [{"role": "user"}], "temperature": []})", "request_bad_field", "temperature"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]})",
       "request_unsupported", "messages"},
      {R"({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function"}]})", "request_unsupported",
       "tools"},
      {R"({"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_object"}})",
       "request_unsupported", "response_format"},
      {R"({"messages": [{"role": "user", "content": "x"}], "top_logprobs": 2})", "request_bad_field", "top_logprobs"},
      {R"({"messages": [{"role": "user", "content": "x"}], "logprobs": 2})", "request_bad_field", "logprobs"},
      {R"({"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": 2})", "request_bad_field",
       "chat_template_kwargs"},
      {R"({"messages": [{"role": "user", "content": "x"}], "prompt": "x"})", "request_unknown_field", "prompt"},
  };
  for (const Case& c : cases) expect(one, "/v1/chat/completions", c);
  EXPECT_TRUE(engine().submitted().empty());
}

TEST_F(ErrorsTest, TokenizeAndDetokenize) {
  auto one = client();
  expect(one, "/tokenize", {"{}", "request_missing_field", "content"});
  expect(one, "/tokenize", {R"({"content": 5})", "request_bad_field", "content"});
  expect(one, "/tokenize", {R"({"content": "x", "add": true})", "request_unknown_field", "add"});
  expect(one, "/detokenize", {"{}", "request_missing_field", "tokens"});
  expect(one, "/detokenize", {R"({"tokens": "x"})", "request_bad_field", "tokens"});
  expect(one, "/detokenize", {R"({"tokens": ["x"]})", "request_bad_field", "tokens"});
  expect(one, "/detokenize", {R"({"tokens": [1, -7]})", "request_token_out_of_range", "tokens"});
}

TEST_F(ErrorsTest, PromptTooLong) {
  auto one = client();
  const std::string full = json{{"prompt", std::vector<int>(4096, 1)}}.dump();  // the engine's to refuse
  expect(one, "/v1/completions", {full.c_str(), "request_prompt_too_long", nullptr});
  const std::string huge = json{{"prompt", std::vector<int>(1'000'000, 1)}, {"n", 128}}.dump();
  expect(one, "/v1/completions", {huge.c_str(), "request_prompt_too_long", "prompt"});
  EXPECT_TRUE(engine().submitted().empty());
}

TEST_F(ErrorsTest, DeepNesting) {
  auto one = client();
  for (const std::size_t depth : {std::size_t{65}, std::size_t{1'000'000}}) {
    const std::string body = "{\"prompt\": " + std::string(depth, '[') + std::string(depth, ']') + "}";
    expect(one, "/v1/completions", {body.c_str(), "request_json_too_deep", nullptr});
  }
  const std::string text = "{\"prompt\": \"" + std::string(100, '[') + "\"}";  // brackets in a string are text
  EXPECT_EQ(one.post("/v1/completions", text).status, 200);
}

TEST_F(ErrorsTest, QueueFull) {
  engine().limit(2);
  engine().pause(true);
  const Response response = client().post("/v1/completions", R"({"prompt": "x", "n": 3})");
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.code(), "request_queue_full");
  EXPECT_EQ(response.json()["error"]["type"], "rate_limit_error");
  EXPECT_EQ(response.headers.at("retry-after"), "1");
  engine().wait_until([](const EngineStats& stats) { return stats.requests_cancelled == 2; });  // all or none
}

TEST_F(ErrorsTest, WhatIsThrownIsAnInternalError) {
  engine().throw_on_submit(true);
  auto one = client();
  const Response response = one.post("/v1/completions", R"({"prompt": "x"})");
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.code(), "server_internal_error");
  EXPECT_EQ(response.json()["error"]["message"], "internal error: thrown by the test");
  engine().throw_on_submit(false);
  EXPECT_EQ(one.post("/v1/completions", R"({"prompt": "x"})").status, 200);
}

TEST(ErrorCatalogue, ServerAndRequestErrorsHaveHttpStatuses) {
  for (const ErrorEntry& entry : error_entries()) {
    if (!entry.code.starts_with("http_") && !entry.code.starts_with("request_")) continue;
    EXPECT_GE(entry.http_status, 400) << entry.code;
    EXPECT_LT(entry.http_status, 500) << entry.code;
  }
}

// 200 requests, seeded: valid ones with bytes changed, cut, doubled or swapped; then the server still works.

const std::string& pick(std::mt19937& random, const std::vector<std::string>& list) {
  return list[random() % list.size()];
}

std::string mutate(std::string bytes, std::mt19937& random) {
  const std::vector<std::string> tokens = {"\"", "{", "}", "[", "]", "null", "-1", "1e400", "\xff", "\\u0000", "\\ud800",
                                           ":", ",", "\r\n", "Content-Length: 5\r\n", "99999999999999999999"};
  const std::size_t edits = 1 + random() % 4;
  for (std::size_t i = 0; i < edits && !bytes.empty(); ++i) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 5) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes.erase(at, 1 + random() % 8); break;
      case 2: bytes.insert(at, pick(random, tokens)); break;
      case 3: bytes.resize(at); break;
      default: bytes.insert(at, bytes.substr(at, random() % 32)); break;
    }
  }
  return bytes;
}

TEST_F(ErrorsTest, BrokenRequestsNeverBreakTheServer) {
  const std::vector<std::pair<std::string, std::string>> requests = {
      {"/v1/completions",
       R"({"prompt": "Hello", "max_tokens": 3, "temperature": 0.5, "stop": ["a", "b"], "logprobs": 2, "n": 2})"},
      {"/v1/completions", R"({"prompt": [[1, 2, 3], [4]], "logit_bias": {"5": 1.5}, "seed": 7, "stream": true})"},
      {"/v1/chat/completions",
       R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3, "logprobs": true, "top_logprobs": 1})"},
      {"/tokenize", R"({"content": "Hello", "with_pieces": true})"},
      {"/detokenize", R"({"tokens": [1, 2, 3]})"},
      {"/flush_cache", ""}};
  std::mt19937 random(20261130);
  std::map<int, int> seen;
  for (int i = 0; i < 200; ++i) {
    auto [path, body] = requests[random() % requests.size()];
    const bool whole_message = i % 2 == 0;  // else only the body, so that it gets as far as the parsers
    if (!whole_message) body = mutate(std::move(body), random);
    std::string bytes = "POST " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
                        std::to_string(body.size()) + "\r\n\r\n" + body;
    if (whole_message) bytes = mutate(std::move(bytes), random);
    auto one = client();
    one.send(bytes);
    if (whole_message) one.shut_down_sending();
    const std::string answer = one.receive_all();
    if (answer.empty()) {  // allowed for what is no complete request, or whose sender has left
      EXPECT_TRUE(whole_message) << bytes;
      ++seen[0];
      continue;
    }
    ASSERT_TRUE(answer.starts_with("HTTP/1.1 ")) << answer;
    const int status = std::stoi(answer.substr(9, 3));
    EXPECT_TRUE(status == 100 || status == 200 || (status >= 400 && status < 500)) << bytes << "\n\n" << answer;
    ++seen[status];
  }
  EXPECT_GT(seen[400], 20);  // the mutations do reach the parsers
  EXPECT_GT(seen[200], 0);
  EXPECT_EQ(client().post("/v1/completions", R"({"prompt": "x"})").status, 200);
  engine().wait_until([](const EngineStats& stats) { return stats.running == 0; });
}

}  // namespace
}  // namespace stemma::testing
