#pragma once
// Work that may end or hang the process, tried in a child process first.

#include <cstddef>
#include <functional>
#include <string>

namespace stemma {

struct TrialLimits {
  int seconds = 5;                           // of processor time, and six times as many in all
  std::size_t bytes = std::size_t{2} << 30;  // that the work may take
};

// Runs `work` in a copy of this process with this thread alone, and gives back what was wrong in words: "it takes too much stack
// or memory", "it does not end within 5 seconds". Empty if it returned or threw something, and where the system makes no
// child. What it changes is not seen here. Meant for start-up: no other thread may hold a lock that `work` takes.
std::string fault_in_child(const std::function<void()>& work, const TrialLimits& limits = {});

}  // namespace stemma
