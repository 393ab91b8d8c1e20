// Any bytes as a model file: it is opened or refused; every tensor lies in it; every key can be asked for as every kind; and a
// vocabulary that the check lets through is one that libllama loads, or refuses, and tokenizes with.

#include <sys/mman.h>
#include <unistd.h>

#include <numeric>

#include "models/gguf_file.h"
#include "property.h"
#include "text/tokenizer.h"
#include "text/tokenizer_metadata.h"

namespace stemma::fuzz {
namespace {

// A file in memory, with a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    require(fd_ >= 0 && write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "a file in memory");
  }
  ~MemoryFile() { close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

void ask_for(const GgufFile& file, std::string_view key) {
  const auto as_string = file.find_string(key);
  if (as_string && *as_string) std::accumulate((*as_string)->begin(), (*as_string)->end(), 0u);
  const auto strings = file.find_strings(key);
  if (strings && *strings)
    for (const std::string_view text : **strings) std::accumulate(text.begin(), text.end(), 0u);
  const auto ints = file.find_ints(key);
  const auto floats = file.find_floats(key);
  const auto as_int = file.find_int(key);
  if (as_int && *as_int) require(ints && *ints && (*ints)->front() == **as_int, "a number is an array of one");
  static_cast<void>(file.find_float(key));
  static_cast<void>(file.find_bool(key));
}

void look_at(const GgufFile& file) {
  for (const GgufTensor& tensor : file.tensors()) {
    require(tensor.bytes > 0 && tensor.data != nullptr, "a tensor has bytes");
    for (const std::byte* end : {tensor.data, tensor.data + tensor.bytes - 1}) [[maybe_unused]] const volatile std::byte read = *end;
    require(file.find_tensor(tensor.name) == &tensor, "a tensor is found by its name");
    require(tensor.matrix().rows > 0, "a tensor has rows");
  }
  for (const auto header : file.headers()) require(!header.empty(), "a part has a header");
  for (const char* key : {"general.architecture", "general.alignment", "split.count", "llama.context_length",
                          "llama.rope.freq_base", "tokenizer.ggml.model", "tokenizer.ggml.tokens",
                          "tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.ggml.merges",
                          "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token", "tokenizer.chat_template"}) {
    ask_for(file, key);
  }
}

}  // namespace
}  // namespace stemma::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stemma;
  const fuzz::MemoryFile bytes(fuzz::text_of(data, size));
  const auto file = GgufFile::open(bytes.path());
  if (!file) return 0;
  fuzz::look_at(**file);
  if (!check_tokenizer_metadata(**file)) return 0;
  if (const auto tokenizer = Tokenizer::load(**file)) {
    const auto tokens = (*tokenizer)->encode("One <|two|> \xff\xf0\x9f\x8c\x8a 3", true, true);
    (*tokenizer)->decode(tokens, true);
  }
  return 0;
}
