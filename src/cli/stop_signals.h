#pragma once
// SIGINT and SIGTERM as something to wait for: the first asks for a graceful end, the second ends at once.

#include <csignal>

namespace stemma {

class StopSignals {
 public:
  // Blocks both signals in this thread and all threads it starts from now on, so that only wait() sees them.
  StopSignals();

  // Returns at the first signal.
  void wait();

  // From now on a signal ends the process as if nobody had asked for it.
  void exit_on_next();

 private:
  sigset_t set_;
};

}  // namespace stemma
