#pragma once
// The HTTP front: OpenAI's API over one engine.
//
// A few I/O threads run all connections (Boost.Asio; no thread per connection); tokenizing and rendering of prompts
// happens on a small pool beside them. A client that goes away has its requests cancelled at once.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/result.h"
#include "engine/engine.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace stemma {

// Sizes and times beyond which a connection is given up. The defaults suit any client that is not broken.
struct HttpLimits {
  std::size_t header_bytes = std::size_t{16} << 10;  // answered with 431
  std::size_t unsent_bytes = std::size_t{4} << 20;   // of a streamed answer whose client does not read: closed
  double header_seconds = 30;  // from a request's first byte to the end of its headers: answered with 408
  double stall_seconds = 60;   // without a byte of the body arriving (408), or of the answer leaving (closed)
  double idle_seconds = 75;    // between requests: closed
  double silent_seconds = 60;  // whole ones, of a client whose machine acknowledges nothing: gone
};

struct ServerConfig {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;              // 0: one that is free (Server::port tells)
  std::vector<std::string> api_keys;      // empty: no key needed
  std::string model_alias;                // what /v1/models and answers call the model
  std::size_t max_body_bytes = std::size_t{32} << 20;  // answered with 413
  HttpLimits limits;
  int io_threads = 1;
  int worker_threads = 1;                 // parse, tokenize and render prompts
};

// What the server serves; all must outlive it.
struct ServerParts {
  Engine& engine;
  const Tokenizer& tokenizer;
  const ChatTemplate& chat_template;
  const ModelInfo& model;
  nlohmann::json options;  // as resolved: shown by /server_info
};

class Server {
 public:
  // Binds, listens and answers from now on. Errors: `server_cannot_listen`.
  static Result<std::unique_ptr<Server>> start(const ServerConfig& config, ServerParts parts);

  // Stops accepting, ends what runs with `server_shutting_down`, closes and joins.
  virtual ~Server() = default;

  virtual std::uint16_t port() const = 0;

  // Graceful: returns when the requests under way are done or `seconds` are over. From the call on every other request, on
  // old connections and new ones, /health included, is answered `server_shutting_down`, so that who looks learns of the end.
  virtual void drain(double seconds) = 0;
};

}  // namespace stemma
