#pragma once
// From the engine's thread to a connection's strand: what the choices of one API call produced.

#include <memory>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "engine/engine.h"

namespace stemma {

class Connection;

struct ChoiceEvent {
  std::size_t choice;
  std::variant<Sampled, GenerationResult> what;
};

// Any thread pushes, the strand takes. Pushing never waits for the strand: it takes a short lock and posts a wake-up if the
// last one was answered. Unbounded, because a request's max_tokens bounds it and the strand empties it whatever the
// client does; the bound for clients that do not read is on unsent bytes (Connection::send).
class EventQueue {
 public:
  explicit EventQueue(std::shared_ptr<Connection> reader) : reader_(std::move(reader)) {}

  // A sink for one choice. It may outlive the connection and the server.
  static std::shared_ptr<RequestSink> sink(std::shared_ptr<EventQueue> queue, std::size_t choice);

  void push(ChoiceEvent event);

  // All events so far, in order.
  std::vector<ChoiceEvent> take();

  // Drops what is there and what is still to come. Must be called before the reader's executor ends.
  void close();

 private:
  std::mutex mutex_;
  std::shared_ptr<Connection> reader_;  // null once closed
  std::vector<ChoiceEvent> events_;
  bool woken_ = false;  // a wake-up is on its way
};

}  // namespace stemma
