#include "server/logprobs_json.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "server/utf8_json.h"

namespace stemma {

using nlohmann::ordered_json;

namespace {

// JSON has no infinities; OpenAI writes this for what is impossible.
constexpr double kLeastLogprob = -9999.0;

double finite(float logprob) { return logprob >= kLeastLogprob ? static_cast<double>(logprob) : kLeastLogprob; }

std::string spelled(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char c : bytes) {
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    text += hex;
  }
  return text;
}

ordered_json chat_entry(const Tokenizer& tokenizer, Token token, float logprob) {
  const std::string bytes = tokenizer.piece(token, true);
  return {{"token", spelled(bytes)}, {"logprob", finite(logprob)}, {"bytes", bytes_json(bytes)}};
}

std::size_t code_points(const std::string& bytes) {
  return static_cast<std::size_t>(
      std::count_if(bytes.begin(), bytes.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

ordered_json chat_logprobs(const Tokenizer& tokenizer, std::span<const Sampled> tokens) {
  ordered_json content = ordered_json::array();
  for (const Sampled& sampled : tokens) {
    ordered_json entry = chat_entry(tokenizer, sampled.token, sampled.logprob);
    ordered_json& top = entry["top_logprobs"] = ordered_json::array();
    for (const TokenLogprob& other : sampled.top) top.push_back(chat_entry(tokenizer, other.token, other.logprob));
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

ordered_json text_logprobs(const Tokenizer& tokenizer, std::span<const Sampled> tokens, std::size_t& offset) {
  ordered_json names = ordered_json::array();
  ordered_json logprobs = ordered_json::array();
  ordered_json tops = ordered_json::array();
  ordered_json offsets = ordered_json::array();
  for (const Sampled& sampled : tokens) {
    const std::string bytes = tokenizer.piece(sampled.token, true);
    names.push_back(spelled(bytes));
    logprobs.push_back(finite(sampled.logprob));
    offsets.push_back(offset);
    offset += code_points(tokenizer.piece(sampled.token, false));
    ordered_json top = ordered_json::object();
    for (const TokenLogprob& other : sampled.top) {
      top[spelled(tokenizer.piece(other.token, true))] = finite(other.logprob);
    }
    top[spelled(bytes)] = finite(sampled.logprob);
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(names)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

}  // namespace stemma
