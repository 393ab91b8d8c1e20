#include "server/heap_trimmer.h"

#include <algorithm>

#include <boost/asio/post.hpp>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace stemma {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds kPause{1};
constexpr std::chrono::seconds kInterval{5};

void trim() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace

void HeapTrimmer::on_quiet() {
  asio::post(timer_.get_executor(), [this] {
    if (stopped_ || waiting_) return;
    waiting_ = true;
    timer_.expires_at(std::max(Clock::now() + kPause, next_));
    timer_.async_wait([this](boost::system::error_code interrupted) {
      waiting_ = false;
      if (interrupted || stopped_ || !is_quiet_()) return;  // the next quiet moment will do
      next_ = Clock::now() + kInterval;
      asio::post(workers_, trim);
    });
  });
}

void HeapTrimmer::stop() {
  asio::post(timer_.get_executor(), [this] {
    stopped_ = true;
    timer_.cancel();
  });
}

}  // namespace stemma
