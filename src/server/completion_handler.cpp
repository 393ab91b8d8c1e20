#include "server/completion_handler.h"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "server/cache_json.h"
#include "server/sse.h"
#include "server/workers.h"

namespace stemma {

namespace asio = boost::asio;
using nlohmann::ordered_json;

namespace {

CompletionResponse::Totals totals_of(const Generation& generation) {
  CompletionResponse::Totals totals{generation.usage(), generation.timings(), nullptr};
  const CompletionRequest& request = generation.request();
  if (!request.cache_report) return totals;
  if (request.choices.size() == 1) {
    totals.cache = cache_report_json(generation.result(0));
    return totals;
  }
  totals.cache = ordered_json::array();
  for (std::size_t i = 0; i < request.choices.size(); ++i)
    totals.cache.push_back(cache_report_json(generation.result(i)));
  return totals;
}

}  // namespace

asio::awaitable<void> CompletionHandler::handle(Connection& connection, CompletionApi api) const {
  const std::string body = connection.take_body();
  const PromptContext context{parts_.tokenizer, parts_.chat_template, parts_.engine.context_length()};
  auto request = co_await run_on(workers_, [&] { return parse_completion_request(api, body, context); });
  if (!request) {
    connection.reply(error_reply(request.error()));
    co_return;
  }
  if (!connection.client_gone()) {
    const bool stream = request->stream;
    Generation generation(parts_.engine, parts_.tokenizer, metrics_, std::move(*request),
                          connection.shared_from_this());
    if (const Status submitted = generation.submit(); !submitted) {
      connection.reply(error_reply(submitted.error()));
      co_return;
    }
    if (stream) {
      co_await answer_stream(connection, generation);
    } else {
      co_await answer_whole(connection, generation);
    }
  }
  if (connection.client_gone()) metrics_.gone_clients.add();
}

asio::awaitable<std::vector<Progress>> CompletionHandler::next(Connection& connection,
                                                               Generation& generation) const {
  std::vector<Progress> progress;
  co_await asio::post(connection.executor(), asio::use_awaitable);  // or a fast engine would keep the socket waiting
  while (!connection.client_gone()) {
    progress = generation.advance();
    if (connection.server_gives_up() && !generation.finished()) {
      generation.give_up(make_error(ErrorCode::server_shutting_down));
    }
    if (!progress.empty() || generation.finished()) break;
    co_await connection.wait();
  }
  co_return progress;
}

asio::awaitable<void> CompletionHandler::answer_whole(Connection& connection, Generation& generation) const {
  const CompletionRequest& request = generation.request();
  const bool keep_tokens = request.logprobs || request.return_token_ids;
  std::vector<CompletionResponse::Choice> choices(request.choices.size());
  while (!generation.finished()) {
    std::vector<Progress> news = co_await next(connection, generation);
    if (connection.client_gone()) co_return;
    for (Progress& progress : news) {
      CompletionResponse::Choice& choice = choices[progress.choice];
      choice.text += progress.text;
      if (keep_tokens && progress.token) choice.tokens.push_back(std::move(*progress.token));
      if (progress.finished) choice.finish_reason = generation.finish_reason(progress.choice);
    }
  }
  if (generation.error()) {
    connection.reply(error_reply(*generation.error()));
    co_return;
  }
  CompletionResponse response(parts_.tokenizer, request, model_, parts_.model.fingerprint);
  HttpReply reply;
  reply.body = co_await run_on(workers_, [&] {  // log-probabilities can make it many megabytes
    return to_text(response.whole(choices, totals_of(generation)));
  });
  connection.reply(std::move(reply));
}

asio::awaitable<void> CompletionHandler::answer_stream(Connection& connection, Generation& generation) const {
  const CompletionRequest& request = generation.request();
  const bool show_tokens = request.logprobs || request.return_token_ids;
  CompletionResponse response(parts_.tokenizer, request, model_, parts_.model.fingerprint);
  const auto send = [&](const ordered_json& json) { connection.send(sse_event(to_text(json))); };

  connection.begin_stream(std::string(kSseContentType));
  while (!generation.finished()) {
    const std::vector<Progress> news = co_await next(connection, generation);
    for (const Progress& progress : news) {
      if (connection.client_gone()) co_return;
      // Tokens without text of their own yet (a part of a character, or of a stop string) are no news to most clients.
      if (!progress.text.empty() || (show_tokens && progress.token)) send(response.piece(progress));
      if (!progress.finished) continue;
      ordered_json end = response.end(progress.choice, generation.finish_reason(progress.choice));
      if (!generation.finished() || generation.error() || &progress != &news.back()) {
        send(end);
        continue;
      }
      for (const ordered_json& chunk : response.last(std::move(end), totals_of(generation))) {
        send(chunk);
      }
    }
    if (connection.client_gone()) co_return;
  }
  if (generation.error()) {
    send(error_json(*generation.error()));  // the status is out already
  } else {
    connection.send(sse_event("[DONE]"));
  }
  if (!connection.client_gone()) connection.end_stream();
}

}  // namespace stemma
