#pragma once
// libllama's process-wide state: its one-time set-up and its log.
//
// libllama has one log per process, so this is the one place in Stemma with process-wide state: start_llama_library()
// points that log at spdlog (level debug) and silences llama.cpp's common part, whose messages would go to stderr.
// The set-up is undone when the process exits. Any thread may call anything here.

#include <string>

namespace stemma {

// Sets libllama up, once per process; later calls do nothing. Everything that calls libllama calls this first. O(1).
void start_llama_library();

// Keeps the first error that libllama reports on this thread while it lives: the reason behind a null that it returned.
// At most one lives per thread at a time.
class LlamaErrors {
 public:
  LlamaErrors();
  ~LlamaErrors();
  LlamaErrors(const LlamaErrors&) = delete;
  LlamaErrors& operator=(const LlamaErrors&) = delete;

  // That error in one line, or "no reason given".
  std::string first() const;

 private:
  std::string text_;
};

}  // namespace stemma
