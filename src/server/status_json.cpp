#include "server/status_json.h"

#include "server/prometheus_text.h"

namespace stemma {

using nlohmann::ordered_json;

namespace {

ordered_json pool_json(const CacheStats::Pool& pool) {
  return {{"capacity", pool.capacity}, {"free", pool.free}, {"evictable", pool.evictable}, {"pinned", pool.pinned}};
}

ordered_json limits_json(const CacheStats& cache) {
  ordered_json limits;
  for (int limit = 0; limit < kReuseLimits; ++limit)
    limits[std::string(name_of(static_cast<ReuseLimit>(limit)))] = cache.limits[limit];
  return limits;
}

ordered_json cache_json(const CacheStats& cache) {
  return {{"pages", pool_json(cache.pages)},
          {"rows", pool_json(cache.rows)},
          {"budget_bytes", cache.budget_bytes},
          {"budget_free_bytes", cache.budget_free_bytes},
          {"nodes", cache.nodes},
          {"cached_tokens", cache.cached_tokens},
          {"checkpoints", cache.checkpoints},
          {"leases", cache.leases},
          {"lookups", cache.lookups},
          {"hit_tokens", cache.hit_tokens},
          {"prompt_tokens", cache.prompt_tokens},
          {"limits", limits_json(cache)},
          {"waits",
           {{"prefix_in_flight", cache.waits_in_flight},
            {"no_pages", cache.waits_no_pages},
            {"no_rows", cache.waits_no_rows}}},
          {"marks_taken", cache.marks_taken},
          {"marks_skipped", cache.marks_skipped},
          {"evicted_pages", cache.evicted_pages},
          {"evicted_checkpoints", cache.evicted_checkpoints},
          {"metadata_bytes", cache.metadata_bytes}};
}

ordered_json stuck_json(const std::optional<StuckStep>& stuck) {
  if (!stuck) return nullptr;
  return {{"step", stuck->load.number},
          {"sequences", stuck->load.sequences},
          {"tokens", stuck->load.tokens},
          {"seconds", stuck->seconds}};
}

ordered_json engine_json(const EngineStats& stats) {
  return {{"running", stats.running},
          {"waiting", stats.waiting},
          {"steps", stats.steps},
          {"step_seconds", stats.step_seconds},
          {"stuck_step", stuck_json(stats.stuck)},
          {"prompt_tokens", stats.prompt_tokens},
          {"cached_tokens", stats.cached_tokens},
          {"computed_prompt_tokens", stats.computed_prompt_tokens},
          {"generated_tokens", stats.generated_tokens},
          {"requests_finished", stats.requests_finished},
          {"requests_cancelled", stats.requests_cancelled},
          {"requests_failed", stats.requests_failed},
          {"preemptions", stats.preemptions}};
}

void add_pools(PrometheusText& text, std::string_view name, std::string_view help,
               std::uint32_t CacheStats::Pool::*member, const CacheStats& cache) {
  text.family(name, "gauge", help);
  text.sample(cache.pages.*member, {{"pool", "pages"}});
  text.sample(cache.rows.*member, {{"pool", "rows"}});
}

void add_engine(PrometheusText& text, const EngineStats& s) {
  const auto count = [](std::uint64_t n) { return static_cast<double>(n); };
  text.gauge("stemma_requests_running", "Requests being computed.", count(s.running));
  text.gauge("stemma_requests_waiting", "Requests in the queue.", count(s.waiting));
  text.counter("stemma_steps_total", "Forward passes.", count(s.steps));
  text.counter("stemma_step_seconds_total", "Time spent in forward passes.", s.step_seconds);
  text.gauge("stemma_step_stuck_seconds", "How long a stuck forward pass has run; 0: none is stuck.",
             s.stuck ? s.stuck->seconds : 0);
  text.counter("stemma_prompt_tokens_total", "Prompt tokens of admitted requests.", count(s.prompt_tokens));
  text.counter("stemma_prompt_tokens_cached_total", "Of those, taken from the cache.", count(s.cached_tokens));
  text.counter("stemma_prompt_tokens_computed_total", "Prompt tokens computed, also again after a preemption.",
               count(s.computed_prompt_tokens));
  text.counter("stemma_tokens_generated_total", "Tokens generated.", count(s.generated_tokens));
  text.family("stemma_requests_total", "counter", "Requests that ended, by how.");
  text.sample(count(s.requests_finished), {{"end", "finished"}});
  text.sample(count(s.requests_cancelled), {{"end", "cancelled"}});
  text.sample(count(s.requests_failed), {{"end", "failed"}});
  text.counter("stemma_preemptions_total", "Requests set back to the queue because pages ran out.",
               count(s.preemptions));
}

void add_cache(PrometheusText& text, const CacheStats& c) {
  const auto count = [](std::uint64_t n) { return static_cast<double>(n); };
  add_pools(text, "stemma_pool_capacity", "Pages of KV and rows of recurrent state.", &CacheStats::Pool::capacity, c);
  add_pools(text, "stemma_pool_free", "Holding nothing.", &CacheStats::Pool::free, c);
  add_pools(text, "stemma_pool_evictable", "Cached, and held by no request.", &CacheStats::Pool::evictable, c);
  add_pools(text, "stemma_pool_pinned", "Held by running requests.", &CacheStats::Pool::pinned, c);
  if (c.budget_bytes > 0) {  // pages and rows share it; each pool's capacity is what it could have of it
    text.gauge("stemma_cache_budget_bytes", "Memory that pages and rows share.", count(c.budget_bytes));
    text.gauge("stemma_cache_budget_free_bytes", "Of it, what neither has taken yet.", count(c.budget_free_bytes));
  }
  text.gauge("stemma_cache_nodes", "Nodes of the prefix tree.", count(c.nodes));
  text.gauge("stemma_cache_tokens", "Tokens whose KV is in the tree.", count(c.cached_tokens));
  text.gauge("stemma_cache_checkpoints", "Stored recurrent states.", count(c.checkpoints));
  text.gauge("stemma_cache_metadata_bytes", "What the cache takes beside pages, states and tokens.",
             count(c.metadata_bytes));
  text.counter("stemma_cache_lookups_total", "Prompts looked up at admission.", count(c.lookups));
  text.family("stemma_cache_reuse_limit_total", "counter", "Lookups by what kept them from reusing more.");
  for (int limit = 0; limit < kReuseLimits; ++limit)
    text.sample(count(c.limits[limit]), {{"limit", name_of(static_cast<ReuseLimit>(limit))}});
  text.family("stemma_cache_waits_total", "counter", "Admissions put off, by reason.");
  text.sample(count(c.waits_in_flight), {{"reason", "prefix_in_flight"}});
  text.sample(count(c.waits_no_pages), {{"reason", "no_pages"}});
  text.sample(count(c.waits_no_rows), {{"reason", "no_rows"}});
  text.counter("stemma_cache_marks_taken_total", "Checkpoints stored at marks.", count(c.marks_taken));
  text.counter("stemma_cache_marks_skipped_total", "Marks without room.", count(c.marks_skipped));
  text.counter("stemma_cache_evicted_pages_total", "Pages evicted.", count(c.evicted_pages));
  text.counter("stemma_cache_evicted_checkpoints_total", "Checkpoints evicted.", count(c.evicted_checkpoints));
}

}  // namespace

ordered_json models_json(const ServerParts& parts, const std::string& alias, std::int64_t created) {
  ordered_json model = {{"id", alias}, {"object", "model"}, {"created", created}, {"owned_by", "stemma"}};
  model["meta"] = {{"n_vocab", parts.model.vocabulary},
                   {"n_ctx", parts.engine.context_length()},
                   {"n_ctx_train", parts.model.context_length},
                   {"n_embd", parts.model.width},
                   {"n_params", parts.model.parameters},
                   {"size", parts.model.weight_bytes}};
  ordered_json list = {{"object", "list"}};
  list["data"] = ordered_json::array({std::move(model)});
  return list;
}

ordered_json server_info_json(const ServerParts& parts, const std::string& alias, const LiveConnections& live,
                              const ServerMetrics& metrics) {
  const ModelInfo& m = parts.model;
  const MemorySplit& split = parts.engine.memory_split();
  const EngineStats stats = parts.engine.stats();
  ordered_json info;
  info["model"] = {{"alias", alias},
                   {"name", m.name},
                   {"architecture", m.architecture},
                   {"fingerprint", m.fingerprint},
                   {"parameters", m.parameters},
                   {"layers", m.layers},
                   {"width", m.width},
                   {"vocabulary", m.vocabulary},
                   {"trained_context_length", m.context_length},
                   {"weight_bytes", m.weight_bytes},
                   {"weight_types", m.weight_types},
                   {"chat_template", parts.chat_template.source()}};
  info["context_length"] = parts.engine.context_length();
  info["options"] = parts.options;
  info["memory"] = {{"page_count", split.page_count},
                    {"page_bytes", split.page_bytes},
                    {"row_count", split.row_count},
                    {"row_bytes", split.row_bytes},
                    {"shared_bytes", split.shared_bytes},
                    {"explanation", split.explanation}};
  info["engine"] = engine_json(stats);
  info["cache"] = cache_json(stats.cache);
  info["server"] = {{"connections", live.connections()},
                    {"gone_clients", metrics.gone_clients.value()},
                    {"slow_readers", metrics.slow_readers.value()}};
  return info;
}

std::string metrics_text(const EngineStats& stats, const LiveConnections& live, const ServerMetrics& metrics) {
  PrometheusText text;
  add_engine(text, stats);
  add_cache(text, stats.cache);
  text.gauge("stemma_http_connections", "Open connections.", static_cast<double>(live.connections()));
  text.family("stemma_http_replies_total", "counter", "Answers by route and status; no route: none matched.");
  for (const auto& [key, count] : metrics.replies()) {
    text.sample(static_cast<double>(count), {{"route", key.first}, {"status", std::to_string(key.second)}});
  }
  text.counter("stemma_http_gone_clients_total", "Clients that left before their answer was complete.",
               static_cast<double>(metrics.gone_clients.value()));
  text.counter("stemma_http_slow_readers_total", "Clients cut off because they did not read.",
               static_cast<double>(metrics.slow_readers.value()));
  text.counter("stemma_stop_strings_total", "Choices ended by a stop string.",
               static_cast<double>(metrics.stopped.value()));
  text.histogram("stemma_time_to_first_token_seconds", "Request parsed to first token.", metrics.first_token);
  text.histogram("stemma_request_seconds", "Request parsed to last token.", metrics.whole);
  return std::move(text).take();
}

}  // namespace stemma
