#pragma once
// Requests and replies as the handlers see them: plain data. Parsing and framing belong to Connection.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stemma {

struct HttpRequest {
  std::string method;   // "GET"
  std::string path;     // the target's, up to '?'; not percent-decoded (no route needs it)
  std::string body;
  int minor_version = 1;  // of HTTP/1.x
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // beyond those that reply_head writes
};

// How a body's end is marked.
enum class BodyFraming { content_length, chunked, until_close };

// Status line and headers of a reply, with the empty line. `content_length` is written for BodyFraming::content_length
// only (a reply to HEAD names the length that it leaves out). O(length).
std::string reply_head(const HttpReply& reply, BodyFraming framing, std::size_t content_length, bool keep_alive);

// One chunk of a chunked body. O(length).
std::string chunk(std::string_view data);

// What ends a chunked body.
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace stemma
