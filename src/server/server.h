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

struct ServerConfig {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;              // 0: one that is free (Server::port tells)
  std::vector<std::string> api_keys;      // empty: no key needed
  std::string model_alias;                // what /v1/models and answers call the model
  std::size_t max_body_bytes = std::size_t{32} << 20;
  int io_threads = 1;
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

  // Stops accepting, cancels what runs, closes and joins.
  virtual ~Server() = default;

  virtual std::uint16_t port() const = 0;

  // Graceful: takes no new connections or requests and returns when those under way are done or `seconds` are over.
  virtual void drain(double seconds) = 0;
};

}  // namespace stemma
