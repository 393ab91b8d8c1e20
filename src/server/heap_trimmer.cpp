#include "server/heap_trimmer.h"

#include <chrono>

#include <boost/asio/post.hpp>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace stemma {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds kPause{1};

void trim() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace

void HeapTrimmer::on_quiet() {
  asio::post(pause_.get_executor(), [this] {
    if (stopped_) return;
    pause_.expires_after(kPause);  // a pause that has begun ends here
    pause_.async_wait([this](boost::system::error_code interrupted) {
      if (!interrupted && !stopped_ && is_quiet_()) asio::post(workers_, trim);
    });
  });
}

void HeapTrimmer::stop() {
  asio::post(pause_.get_executor(), [this] {
    stopped_ = true;
    pause_.cancel();
  });
}

}  // namespace stemma
