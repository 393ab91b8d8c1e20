#pragma once
// Gives the heap's free memory back to the system when no request is under way. A crowd of clients, or a prompt of megabytes,
// would otherwise leave the process as large as it was at its busiest. Takes a few milliseconds of a worker's time, a second
// after a request has ended and at most once in five; nothing while none comes.

#include <chrono>
#include <functional>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

namespace stemma {

class HeapTrimmer {
 public:
  // `strand`: of its own. `is_quiet`: whether no request is under way; called on the strand.
  HeapTrimmer(boost::asio::any_io_executor strand, boost::asio::thread_pool& workers, std::function<bool()> is_quiet)
      : timer_(std::move(strand)), workers_(workers), is_quiet_(std::move(is_quiet)) {}

  // The last request under way has ended. Any thread; must not be called after the strand's context has ended.
  void on_quiet();

  // Waits for nothing any more. Any thread.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  boost::asio::steady_timer timer_;
  boost::asio::thread_pool& workers_;
  const std::function<bool()> is_quiet_;
  // On the strand.
  bool waiting_ = false;
  bool stopped_ = false;
  Clock::time_point next_{};  // not before
};

}  // namespace stemma
