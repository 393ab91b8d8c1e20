#pragma once
// Reads request traces. The format is recognised by the first line; each format is a file of its
// own.

#include <istream>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"
#include "replay/trace.h"
#include "replay/trace_lines.h"

namespace stemma::replay {

struct TraceFormat {
  std::string_view name;
  std::string_view shape;  // what its lines look like, for messages
  bool (*recognizes)(std::string_view first_line);
  Result<Trace> (*read)(TraceLines& lines);
};

// All formats, in the order in which they are tried.
std::span<const TraceFormat> trace_formats();

// Coding agents' sessions with think times: a session a line, blocks as differences
// (read_agent_coding.cpp).
extern const TraceFormat kAgentCodingFormat;
// Arrival times and ids of 512-token blocks (read_mooncake.cpp).
extern const TraceFormat kMooncakeFormat;
// The same with 16-token blocks and turns that name their parents (read_bailian.cpp).
extern const TraceFormat kBailianFormat;
// Arrival times and the tokens themselves (read_marconi.cpp).
extern const TraceFormat kMarconiFormat;
// Arrival times and lengths only (read_azure.cpp).
extern const TraceFormat kAzureFormat;

// Errors: `trace_unknown_format`, `trace_bad_line`, `trace_empty`.
Result<Trace> read_trace(std::istream& input, const std::string& name);
// Errors: those and `trace_not_readable`.
Result<Trace> read_trace_file(const std::string& path);

}  // namespace stemma::replay
