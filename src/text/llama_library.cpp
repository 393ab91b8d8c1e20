#include "text/llama_library.h"

#include <string_view>

#include <spdlog/spdlog.h>

#include "llama.h"
#include "log.h"

namespace stemma {

namespace {

// Where this thread's errors go, if anyone asked for them. libllama reports errors on the thread that called it.
thread_local std::string* error_text = nullptr;

void write_log(ggml_log_level level, const char* text, void* /*user_data*/) {
  std::string_view line(text);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (line.empty()) return;
  // The first error is the cause; what follows only says that loading failed.
  if (level == GGML_LOG_LEVEL_ERROR && error_text != nullptr && error_text->empty()) error_text->assign(line);
  spdlog::debug("libllama: {}", line);
}

struct Library {
  Library() {
    llama_log_set(write_log, nullptr);
    common_log_set_verbosity_thold(-1);  // below every level: common never starts its log thread
    llama_backend_init();
  }
  ~Library() { llama_backend_free(); }
};

}  // namespace

void start_llama_library() { static const Library library; }

LlamaErrors::LlamaErrors() { error_text = &text_; }
LlamaErrors::~LlamaErrors() { error_text = nullptr; }

std::string LlamaErrors::first() const { return text_.empty() ? "no reason given" : text_; }

}  // namespace stemma
