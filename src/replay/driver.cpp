#include "replay/driver.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <deque>
#include <memory>
#include <numeric>
#include <queue>
#include <random>

namespace stemma::replay {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Quantiles quantiles(std::vector<float>& values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return static_cast<double>(
        values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))]);
  };
  return {at(0.50), at(0.90), at(0.99)};
}

class Driver {
 public:
  Driver(const Trace& trace, const DriverConfig& config, const ModelCosts& model, CacheModel& cache)
      : trace_(trace),
        config_(config),
        model_(model),
        cache_(cache),
        chains_(trace.chains.size()) {}

  ReplayResult run() {
    const auto begin = Clock::now();
    plan_sessions();
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      switch (event.kind) {
        case Event::arrival:
          arrive(event.chain);
          break;
        case Event::chunk:
          end_chunk();
          break;
        case Event::answer:
          end_answer(event.chain);
          break;
      }
    }
    result_.ttft = quantiles(ttft_);
    result_.decision = quantiles(decision_);
    result_.virtual_seconds = now_;
    result_.prefill_busy = now_ > 0 ? busy_ / now_ : 0;
    result_.real_seconds = seconds_since(begin);
    result_.cache = cache_.stats();
    return result_;
  }

 private:
  struct Event {
    enum Kind : std::uint8_t { arrival, chunk, answer };
    double time;
    std::uint64_t order;  // of events at one time
    Kind kind;
    std::uint32_t chain;  // of arrivals and answers
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  struct ActiveChain {
    std::uint32_t session;   // in starts_
    std::uint32_t done = 0;  // requests that ended
    double arrived = 0;
    bool counted = false;  // the request was admitted before, and preempted
    PathCursor path;
    std::unique_ptr<RunningRequest> running;
    Depth computed = 0;  // units of the prompt
  };

  struct Start {
    const Session* session;
    double time;
    std::uint32_t open_chains = 0;
  };

  void plan_sessions() {
    for (const Session& session : trace_.sessions) starts_.push_back({&session, session.start});
    if (config_.shuffle) {
      std::mt19937_64 random(*config_.shuffle);
      // Written out: std::shuffle draws differently in each standard library.
      for (std::size_t i = starts_.size(); i > 1; --i) {
        std::swap(starts_[i - 1].session, starts_[random() % i].session);
      }
    }
    if (trace_.timed) {
      for (; next_session_ < starts_.size(); ++next_session_)
        start_session(next_session_, starts_[next_session_].time);
      return;
    }
    for (int i = 0; i < config_.concurrency; ++i) start_next_session();
  }

  void start_next_session() {
    if (trace_.timed || next_session_ == starts_.size()) return;
    starts_[next_session_].time = now_;
    start_session(next_session_++, now_);
  }

  void start_session(std::size_t index, double time) {
    const Session& session = *starts_[index].session;
    starts_[index].open_chains = session.chain_count;
    for (std::uint32_t c = session.first_chain; c < session.first_chain + session.chain_count;
         ++c) {
      chains_[c] = std::make_unique<ActiveChain>();
      chains_[c]->session = static_cast<std::uint32_t>(index);
      const auto& launch = trace_.chains[c].launch;
      if (!launch || !launch->after)
        push(Event::arrival, time + first_offset(c) + (launch ? launch->delay : 0), c);
    }
  }

  double first_offset(std::uint32_t chain) const {
    return trace_.requests[trace_.chains[chain].first_request].offset;
  }

  const TraceRequest& request_of(std::uint32_t chain) const {
    return trace_.requests[trace_.chains[chain].first_request + chains_[chain]->done];
  }

  void push(Event::Kind kind, double time, std::uint32_t chain) {
    events_.push({time, order_++, kind, chain});
  }

  void arrive(std::uint32_t index) {
    ActiveChain& chain = *chains_[index];
    const TraceRequest& request = request_of(index);
    chain.path.advance(trace_, trace_.chains[index].first_request + chain.done, config_.unit);
    chain.arrived = now_;
    chain.counted = false;
    ++result_.requests;
    result_.prompt_tokens += static_cast<std::uint64_t>(request.in);
    result_.answer_tokens += static_cast<std::uint64_t>(request.out);
    result_.prompt_flops += model_.flops(request.in);
    if (!cache_.fits(static_cast<Depth>(chain.path.demand().path.size()))) {
      ++result_.refused;
      end_request(index);
      return;
    }
    waiting_.push_back(index);
    if (!blocked_) admit();
  }

  // Waiting requests in order; one that waits for a prefix does not hold up the others, one without
  // room does.
  void admit() {
    constexpr std::size_t kMostPassedOver = 64;
    std::size_t passed = 0;
    for (auto place = waiting_.begin(); place != waiting_.end() && passed < kMostPassedOver;) {
      if (running_ >= config_.concurrency) break;
      const std::uint32_t index = *place;
      ActiveChain& chain = *chains_[index];
      const auto begin = Clock::now();
      auto outcome = cache_.acquire(chain.path.demand());
      decision_.push_back(static_cast<float>(seconds_since(begin)));
      if (const auto* reason = std::get_if<WaitReason>(&outcome)) {
        if (*reason == WaitReason::prefix_in_flight) {
          ++result_.waits_in_flight;
          ++passed;
          ++place;
          continue;
        }
        ++result_.waits_memory;
        if (running_ > 0) {
          blocked_ = true;
          break;
        }
        // Nothing runs that it could wait for.
        ++result_.refused;
        place = waiting_.erase(place);
        end_request(index);
        continue;
      }
      chain.running = std::get<std::unique_ptr<RunningRequest>>(std::move(outcome));
      start(index);
      place = waiting_.erase(place);
    }
    start_chunk();
  }

  void start(std::uint32_t index) {
    ActiveChain& chain = *chains_[index];
    ++running_;
    chain.computed = chain.running->hit();
    if (!chain.counted) {
      chain.counted = true;
      const Depth in = request_of(index).in;
      const std::int64_t hit =
          std::min(std::int64_t{chain.computed} * config_.unit.tokens, std::int64_t{in});
      result_.hit_tokens += static_cast<std::uint64_t>(hit);
      result_.saved_flops += model_.flops(static_cast<double>(hit));
    }
    prefilling_.push_back(index);
  }

  void start_chunk() {
    if (computing_ || prefilling_.empty()) return;
    computing_ = true;
    const std::uint32_t index = prefilling_.front();
    const ActiveChain& chain = *chains_[index];
    const Depth prompt = chain.path.demand().prompt;
    chunk_end_ =
        std::min(prompt, chain.computed + std::max(1, config_.chunk_tokens / config_.unit.tokens));
    const std::int64_t from = std::int64_t{chain.computed} * config_.unit.tokens;
    const std::int64_t to = std::min(std::int64_t{chunk_end_} * config_.unit.tokens,
                                     std::int64_t{request_of(index).in});
    const double time = static_cast<double>(to - from) / config_.profile.prefill;
    busy_ += time;
    push(Event::chunk, now_ + time, index);
  }

  void end_chunk() {
    computing_ = false;
    const std::uint32_t index = prefilling_.front();
    ActiveChain& chain = *chains_[index];
    chain.running->prefilled(chunk_end_);
    chain.computed = chunk_end_;
    if (chain.computed == chain.path.demand().prompt) {
      prefilling_.pop_front();
      answer(index);
    }
    if (!blocked_ && !waiting_.empty()) admit();
    start_chunk();
  }

  void answer(std::uint32_t index) {
    ActiveChain& chain = *chains_[index];
    if (!chain.running->start_answer()) {
      preempt(index);
      return;
    }
    ttft_.push_back(static_cast<float>(now_ - chain.arrived));
    push(Event::answer, now_ + request_of(index).out / config_.profile.decode, index);
  }

  // No room for the answer: what is computed goes into the cache, and the request waits, first in
  // line.
  void preempt(std::uint32_t index) {
    ActiveChain& chain = *chains_[index];
    chain.running->finish();
    chain.running.reset();
    --running_;
    ++result_.preemptions;
    waiting_.push_front(index);
    blocked_ = running_ > 0;
  }

  void end_answer(std::uint32_t index) {
    ActiveChain& chain = *chains_[index];
    chain.running->finish();
    chain.running.reset();
    --running_;
    blocked_ = false;
    end_request(index);
    admit();
  }

  void end_request(std::uint32_t index) {
    ActiveChain& chain = *chains_[index];
    Start& start = starts_[chain.session];
    const Chain& own = trace_.chains[index];
    const std::uint32_t request = own.first_request + chain.done;
    const Session& session = *start.session;
    for (std::uint32_t c = session.first_chain; c < session.first_chain + session.chain_count;
         ++c) {
      const auto& launch = trace_.chains[c].launch;
      if (launch && launch->after == request)
        push(Event::arrival, now_ + launch->delay + first_offset(c), c);
    }
    if (++chain.done < own.request_count) {
      const double offset = request_of(index).offset;
      push(Event::arrival, trace_.timed ? std::max(now_, start.time + offset) : now_ + offset,
           index);
      return;
    }
    chains_[index].reset();
    if (--start.open_chains == 0) start_next_session();
  }

  const Trace& trace_;
  const DriverConfig& config_;
  const ModelCosts& model_;
  CacheModel& cache_;

  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  double now_ = 0;
  double busy_ = 0;

  std::vector<Start> starts_;
  std::size_t next_session_ = 0;
  std::vector<std::unique_ptr<ActiveChain>> chains_;  // by chain; only those of sessions that run
  std::deque<std::uint32_t> waiting_;                 // chains whose request has arrived, in order
  std::deque<std::uint32_t>
      prefilling_;  // admitted, prompt not computed; the first is being computed
  int running_ = 0;
  bool computing_ = false;  // the first of prefilling_, up to chunk_end_
  Depth chunk_end_ = 0;
  bool blocked_ = false;  // the first that waits has no room until a request ends

  ReplayResult result_;
  std::vector<float> ttft_;
  std::vector<float> decision_;
};

}  // namespace

Result<ServiceProfile> find_service_profile(std::string_view name) {
  // gpu: two large GPUs on a model with 3 G active parameters; cpu: a desktop processor on the
  // same; marconi: the Jamba measurements behind that paper's TTFT figures (54 us a token).
  for (const auto& [known, prefill, decode] :
       {std::tuple{"gpu", 80000.0, 100.0}, std::tuple{"cpu", 300.0, 15.0},
        std::tuple{"marconi", 18500.0, 50.0}}) {
    if (name == known) return ServiceProfile{known, prefill, decode};
  }
  const std::size_t colon = name.find(':');
  const auto number = [](std::string_view text) -> std::optional<double> {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value > 0 && value < 1e12))
      return std::nullopt;
    return value;
  };
  if (colon != std::string_view::npos) {
    const auto prefill = number(name.substr(0, colon));
    const auto decode = number(name.substr(colon + 1));
    if (prefill && decode) return ServiceProfile{std::string(name), *prefill, *decode};
  }
  return fail(ErrorCode::replay_bad_setting,
              {{"reason", "a profile is gpu, cpu, marconi or PREFILL:DECODE in tokens/s, not " +
                              std::string(name)}});
}

ReplayResult replay(const Trace& trace, const DriverConfig& config, const ModelCosts& model,
                    CacheModel& cache) {
  return Driver(trace, config, model, cache).run();
}

}  // namespace stemma::replay
