#pragma once
// Work that would hold up the I/O threads: parsing, templates, tokenizing.

#include <optional>
#include <type_traits>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace stemma {

// Runs `work` on the pool and comes back to the caller's strand with its result. What it throws is thrown here. What it refers
// to must live until it is done: it is not given up when the client goes.
template <class Work>
boost::asio::awaitable<std::invoke_result_t<Work>> run_on(boost::asio::thread_pool& pool, Work work) {
  std::optional<std::invoke_result_t<Work>> result;
  const auto job = [&]() -> boost::asio::awaitable<void> {
    result.emplace(work());
    co_return;
  };
  co_await boost::asio::co_spawn(pool, job, boost::asio::use_awaitable);
  co_return std::move(*result);
}

}  // namespace stemma
