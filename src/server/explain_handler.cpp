#include "server/explain_handler.h"

#include <mutex>
#include <optional>

#include "server/cache_json.h"
#include "server/completion_request.h"
#include "server/workers.h"

namespace stemma {

namespace asio = boost::asio;

namespace {

// The engine's answer on its way to the strand.
class Answer {
 public:
  explicit Answer(std::shared_ptr<Connection> reader) : reader_(std::move(reader)) {}

  void put(Result<Explanation> explanation) {
    const std::lock_guard lock(mutex_);
    explanation_.emplace(std::move(explanation));
    if (reader_) reader_->wake_soon();
  }
  std::optional<Result<Explanation>> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(explanation_, std::nullopt);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    reader_.reset();
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Connection> reader_;  // null once closed
  std::optional<Result<Explanation>> explanation_;
};

// Lets go of the reader before its executor ends.
struct Closing {
  Answer& answer;
  ~Closing() { answer.close(); }
};

}  // namespace

asio::awaitable<void> ExplainHandler::handle(Connection& connection) const {
  const std::string body = connection.take_body();
  const PromptContext context{parts_.tokenizer, parts_.chat_template,
                              parts_.engine.context_length()};
  auto request = co_await run_on(workers_, [&] { return parse_explain_request(body, context); });
  if (!request) {
    connection.reply(error_reply(request.error()));
    co_return;
  }
  const auto answer = std::make_shared<Answer>(connection.shared_from_this());
  const Closing closing{*answer};
  const auto put = [answer](Result<Explanation> explanation) {
    answer->put(std::move(explanation));
  };
  if (const Status asked = parts_.engine.explain(*std::move(request), put); !asked) {
    connection.reply(error_reply(asked.error()));
    co_return;
  }
  std::optional<Result<Explanation>> explanation;
  while (!connection.client_gone() && !(explanation = answer->take())) co_await connection.wait();
  if (!explanation) co_return;
  if (!*explanation) {
    connection.reply(error_reply((*explanation).error()));
    co_return;
  }
  HttpReply reply;
  reply.body = to_text(explanation_json(**explanation));
  connection.reply(std::move(reply));
}

}  // namespace stemma
