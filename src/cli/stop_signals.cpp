#include "cli/stop_signals.h"

#include <pthread.h>

namespace stemma {

StopSignals::StopSignals() {
  sigemptyset(&set_);
  sigaddset(&set_, SIGINT);
  sigaddset(&set_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
}

void StopSignals::wait() {
  int received = 0;
  sigwait(&set_, &received);
}

void StopSignals::exit_on_next() { pthread_sigmask(SIG_UNBLOCK, &set_, nullptr); }

}  // namespace stemma
