#include "replay/trace_reader.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace stemma::replay {

namespace {

constexpr std::size_t kShownCharacters = 60;

std::string_view base_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

std::span<const TraceFormat> trace_formats() {
  static const std::array<TraceFormat, 5> kFormats = {
      kAgentCodingFormat, kMarconiFormat, kBailianFormat, kMooncakeFormat, kAzureFormat};
  return kFormats;
}

Result<Trace> read_trace(std::istream& input, const std::string& name) {
  TraceLines lines(input, name);
  const auto first = lines.peek();
  if (!first) return fail(ErrorCode::trace_empty, {{"file", name}});
  for (const TraceFormat& format : trace_formats()) {
    if (!format.recognizes(*first)) continue;
    auto trace = format.read(lines);
    if (trace && trace->requests.empty()) return fail(ErrorCode::trace_empty, {{"file", name}});
    return trace;
  }
  return fail(ErrorCode::trace_unknown_format,
              {{"file", name}, {"start", std::string(first->substr(0, kShownCharacters))}});
}

Result<Trace> read_trace_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail(ErrorCode::trace_not_readable, {{"file", path}, {"reason", std::strerror(errno)}});
  return read_trace(file, std::string(base_name(path)));
}

}  // namespace stemma::replay
