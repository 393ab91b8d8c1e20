#include "server/http_message.h"

#include <charconv>

namespace stemma {

namespace {

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Payload Too Large";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    default: return "Error";
  }
}

void add_header(std::string& head, std::string_view name, std::string_view value) {
  head.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

std::string reply_head(const HttpReply& reply, BodyFraming framing, std::size_t content_length, bool keep_alive) {
  std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " ";
  head.append(reason_phrase(reply.status)).append("\r\n");
  add_header(head, "Server", "stemma");
  add_header(head, "Access-Control-Allow-Origin", "*");
  if (reply.status != 204) {  // which by definition has neither body nor length
    add_header(head, "Content-Type", reply.content_type);
    if (framing == BodyFraming::content_length) {
      add_header(head, "Content-Length", std::to_string(content_length));
    } else if (framing == BodyFraming::chunked) {
      add_header(head, "Transfer-Encoding", "chunked");
    }
  }
  for (const auto& [name, value] : reply.headers) add_header(head, name, value);
  add_header(head, "Connection", keep_alive ? "keep-alive" : "close");
  head += "\r\n";
  return head;
}

std::string chunk(std::string_view data) {
  char size[16];
  const auto end = std::to_chars(size, size + sizeof size, data.size(), 16).ptr;
  std::string framed(size, end);
  framed.append("\r\n").append(data).append("\r\n");
  return framed;
}

}  // namespace stemma
