#pragma once
// A request trace in memory: who asks when, how long the prompts and answers are, and which blocks
// of tokens they share. Prompts are kept as differences to the one before, so that traces of
// billions of tokens take some megabytes.
//
// A session holds one chain of requests, and the chains of sub-agents that it starts. The path of a
// request is its prompt and its answer in blocks: block i covers the tokens [i * block_tokens, (i +
// 1) * block_tokens). Equal ids on equal paths are equal tokens. An answer's blocks are those of
// the next prompt of the chain if that goes on from this prompt, since it then contains the answer;
// else they are blocks of its own.
//
// Immutable once built: any number of threads may read one.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.h"

namespace stemma::replay {

using BlockId = std::uint32_t;

// The ids first, first + 1, ..., first + count - 1.
struct BlockRun {
  BlockId first;
  std::uint32_t count;
};

struct TraceRequest {
  Depth in;            // tokens, >= 1
  Depth out;           // tokens, >= 0
  double offset;       // seconds after the session's start (timed traces), or after the end of the
                       // chain's previous request (others)
  std::uint32_t keep;  // leading blocks of the path that are those of the previous request's path
  std::uint32_t first_run;  // the rest, in Trace::runs
  std::uint32_t run_count;
};

// When a sub-agent starts: `delay` seconds after the end of a request of its session's first chain,
// or after the session's start if there is none.
struct Launch {
  std::optional<std::uint32_t> after;  // in Trace::requests
  double delay;
};

struct Chain {
  std::uint32_t first_request;
  std::uint32_t request_count;   // >= 1
  std::optional<Launch> launch;  // nullopt: the session's own chain
};

struct Session {
  double start;  // seconds after the trace's; 0 in traces that are not timed
  std::uint32_t first_chain;
  std::uint32_t chain_count;  // >= 1; the first is the session's own
};

struct Trace {
  std::string name;
  std::string_view format;
  std::string_view note;  // what this format cannot say; empty: nothing
  Depth block_tokens;
  bool timed;  // requests have arrival times; else think times
  std::vector<Session> sessions;
  std::vector<Chain> chains;
  std::vector<TraceRequest> requests;
  std::vector<BlockRun> runs;
  BlockId block_count;  // ids are below it

  std::span<const Chain> chains_of(const Session& session) const {
    return std::span(chains).subspan(session.first_chain, session.chain_count);
  }
  std::span<const BlockRun> runs_of(const TraceRequest& request) const {
    return std::span(runs).subspan(request.first_run, request.run_count);
  }
};

// Blocks of a request's path, the last of which may be partly filled.
constexpr std::uint32_t path_blocks(const TraceRequest& request, Depth block_tokens) {
  const std::int64_t tokens = std::int64_t{request.in} + request.out;
  return static_cast<std::uint32_t>((tokens + block_tokens - 1) / block_tokens);
}

// Every k-th session, k such that at most `count` are left; the trace itself if it has no more.
// O(trace).
Trace every_kth_session(const Trace& trace, std::size_t count);

}  // namespace stemma::replay
