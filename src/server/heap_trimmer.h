#pragma once
// Gives the heap's free memory back to the system once no request has been under way for a second. A crowd of clients, or a
// prompt of megabytes, would otherwise leave the process as large as it was at its busiest. Takes a few milliseconds of a
// worker's time for each such pause, and nothing after that.

#include <functional>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

namespace stemma {

class HeapTrimmer {
 public:
  // `strand`: of its own. `is_quiet`: whether no request is under way; called on the strand.
  HeapTrimmer(boost::asio::any_io_executor strand, boost::asio::thread_pool& workers, std::function<bool()> is_quiet)
      : pause_(std::move(strand)), workers_(workers), is_quiet_(std::move(is_quiet)) {}

  // The last request under way has ended. Any thread; must not be called after the strand's context has ended.
  void on_quiet();

  // Waits for nothing any more. Any thread.
  void stop();

 private:
  boost::asio::steady_timer pause_;  // used on the strand
  boost::asio::thread_pool& workers_;
  const std::function<bool()> is_quiet_;
  bool stopped_ = false;
};

}  // namespace stemma
