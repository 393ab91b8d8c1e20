#include "text/child_trial.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <new>

namespace stemma {

namespace {

// Of this process's addresses.
std::size_t mapped_bytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void limit(decltype(RLIMIT_CPU) resource, rlim_t value) {
  rlimit both{};
  if (getrlimit(resource, &both) == 0 && both.rlim_max < value) value = both.rlim_max;
  both.rlim_cur = value;
  setrlimit(resource, &both);
}

[[noreturn]] void be_the_child(const std::function<void()>& work, const TrialLimits& limits) {
  for (const int fault : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGXCPU}) std::signal(fault, SIG_DFL);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, static_cast<rlim_t>(limits.seconds));
  limit(RLIMIT_AS, static_cast<rlim_t>(mapped_bytes() + limits.bytes));
  // The work may catch what is thrown for want of memory, and here there is less of it than for the caller.
  std::set_new_handler([] { _exit(1); });
  try {
    work();
  } catch (...) {  // the caller meets it again, where it can be told
  }
  _exit(0);
}

constexpr const char* kTooLarge = "it takes too much stack or memory";

std::string too_slow(const TrialLimits& limits) {
  return "it does not end within " + std::to_string(limits.seconds) + " seconds";
}

}  // namespace

std::string fault_in_child(const std::function<void()>& work, const TrialLimits& limits) {
  int ends[2];  // the pipe closes when the child is no more
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) be_the_child(work, limits);
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return {};
  }
  pollfd closed{ends[0], POLLIN, 0};
  int ready = 0;
  do ready = poll(&closed, 1, 6000 * limits.seconds);
  while (ready < 0 && errno == EINTR);
  if (ready == 0) kill(child, SIGKILL);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (ready == 0) return too_slow(limits);
  if (WIFEXITED(status)) return WEXITSTATUS(status) == 0 ? "" : kTooLarge;  // a sanitizer's allocator exits, too
  switch (WTERMSIG(status)) {
    case SIGXCPU:
    case SIGKILL: return too_slow(limits);
    case SIGSEGV:
    case SIGBUS: return kTooLarge;
    default: return "it ends the process with signal " + std::to_string(WTERMSIG(status));
  }
}

}  // namespace stemma
