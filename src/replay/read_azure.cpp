// Azure's public LLM inference traces: CSV with the columns TIMESTAMP, ContextTokens,
// GeneratedTokens. They have lengths only: every prompt counts as unlike any other, so no cache can
// reuse anything.

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "replay/session_chains.h"
#include "replay/trace_reader.h"

namespace stemma::replay {

namespace {

constexpr Depth kBlock = 64;

bool recognizes(std::string_view line) {
  return line.find("ContextTokens") != std::string_view::npos &&
         line.find(',') != std::string_view::npos;
}

std::vector<std::string> fields(std::string_view line) {
  std::vector<std::string> result(1);
  for (const char c : line) {
    if (c == ',') {
      result.emplace_back();
    } else if (c != '"') {
      result.back() += c;
    }
  }
  return result;
}

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "2023-11-16 18:17:03.9799600", with or without a zone, or seconds. In seconds since 1970.
std::optional<double> seconds(const std::string& text) {
  int year = 0, hour = 0, minute = 0;
  unsigned month = 0, day = 0;
  double second = 0;
  if (std::sscanf(text.c_str(), "%4d-%2u-%2u%*1[ T]%2d:%2d:%lf", &year, &month, &day, &hour,
                  &minute, &second) != 6) {
    return number(text);
  }
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{month},
                                         std::chrono::day{day}};
  if (!date.ok() || !(second >= 0 && second < 61)) return std::nullopt;
  const auto days = std::chrono::sys_days{date}.time_since_epoch().count();
  return 86400.0 * static_cast<double>(days) + 3600.0 * hour + 60.0 * minute + second;
}

std::optional<std::size_t> column(const std::vector<std::string>& header, std::string_view name) {
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (header[i] == name) return i;
  }
  return std::nullopt;
}

Result<Trace> read(TraceLines& lines) {
  const auto header = fields(*lines.next());
  const auto time = column(header, "TIMESTAMP");
  const auto context = column(header, "ContextTokens");
  const auto generated = column(header, "GeneratedTokens");
  if (!time || !context || !generated) {
    return lines.bad("the columns TIMESTAMP, ContextTokens and GeneratedTokens are needed");
  }

  TraceBuilder builder(lines.file(), kAzureFormat.name, kBlock, /*timed=*/true);
  std::vector<TimedRequest> requests;
  std::vector<std::size_t> predecessors;
  const auto count = [&](const std::string& text, double min) -> std::optional<Depth> {
    const auto value = number(text);
    if (!value || *value != std::floor(*value) || *value < min || *value > kMostTraceTokens)
      return std::nullopt;
    return static_cast<Depth>(*value);
  };
  while (const auto line = lines.next()) {
    const auto values = fields(*line);
    if (values.size() != header.size()) {
      return lines.bad("it has " + std::to_string(values.size()) + " columns, the first line has " +
                       std::to_string(header.size()));
    }
    const auto arrival = seconds(values[*time]);
    const auto in = count(values[*context], 1);
    const auto out = count(values[*generated], 0);
    if (!arrival) return lines.bad("its TIMESTAMP is no time: " + values[*time]);
    if (!in || !out) return lines.bad("a number of tokens is none, or out of range");
    if (!requests.empty() && *arrival < requests.back().arrival) {
      return lines.bad("its TIMESTAMP is before that of the line above");
    }
    TimedRequest request{*arrival, {*in, *out, 0, {}}};
    predecessors.push_back(requests.size());
    requests.push_back(std::move(request));
  }
  add_timed_sessions(builder, std::move(requests), predecessors);
  Trace trace = std::move(builder).finish();
  trace.note =
      "this format has lengths only: no two prompts share anything, so nothing can be reused";
  return trace;
}

}  // namespace

const TraceFormat kAzureFormat = {"azure", "TIMESTAMP,ContextTokens,GeneratedTokens", recognizes,
                                  read};

}  // namespace stemma::replay
