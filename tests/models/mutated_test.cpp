// 200 damaged model files, the same ones each run: cut off, with changed bytes, numbers, names and types. Each is opened,
// loaded and run, or refused with an error; none may end the process. Run under AddressSanitizer too.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <random>

#include "models/gguf_file.h"
#include "support/gguf_bytes.h"
#include "support/model_runner.h"
#include "support/test_models.h"
#include "text/tokenizer.h"

namespace stemma {
namespace {

constexpr int kFiles = 200;

class Mutator {
 public:
  Mutator(std::string bytes, const std::string& architecture, std::uint32_t seed)
      : bytes_(std::move(bytes)), random_(seed) {
    // The interesting stretches: the counts, the architecture's keys (to the end of the file's keys), and the
    // descriptions of tensors. The tokenizer's strings, most of the header, get a share of their own.
    const std::size_t keys = bytes_.find(architecture + ".context_length");
    const std::size_t tensors = bytes_.find("token_embd.weight");
    const std::size_t end = bytes_.find('\0', bytes_.rfind(".weight", bytes_.size())) + 64;
    stretches_ = {{4, 24}, {24, keys}, {keys, tensors}, {tensors, std::min(end, bytes_.size())}};
  }

  std::string mutate() {
    switch (pick(5)) {
      case 0: bytes_.resize(pick(bytes_.size())); break;
      case 1: change_bytes(1 + pick(8)); break;
      case 2: change_number<std::uint32_t>(); break;
      case 3: change_number<std::uint64_t>(); break;
      case 4: move_bytes(); break;
    }
    return bytes_;
  }

 private:
  std::size_t pick(std::size_t below) { return random_() % below; }

  std::size_t place() {
    const auto [begin, end] = stretches_[pick(stretches_.size())];
    return begin + pick(end - begin);
  }

  void change_bytes(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) bytes_[place()] = static_cast<char>(pick(256));
  }

  template <class Number>
  void change_number() {
    constexpr Number kMax = ~Number{0};
    const Number values[] = {0, 1, 2, 3, 9, 255, 65536, kMax / 2, kMax / 2 + 1, kMax - 1, kMax};
    const std::size_t at = std::min(place(), bytes_.size() - sizeof(Number));
    Number value;
    std::memcpy(&value, &bytes_[at], sizeof value);
    const std::size_t choice = pick(std::size(values) + 2);
    if (choice < std::size(values)) {
      value = values[choice];
    } else {
      value += choice % 2 == 0 ? 1 : kMax;
    }
    std::memcpy(&bytes_[at], &value, sizeof value);
  }

  // Some bytes taken out, or put in again elsewhere, so that all that follows is read from the wrong place.
  void move_bytes() {
    const std::size_t at = place();
    const std::size_t count = std::min<std::size_t>(1 + pick(16), bytes_.size() - at);
    if (pick(2) == 0) {
      bytes_.erase(at, count);
    } else {
      bytes_.insert(at, bytes_.substr(at, count));
    }
  }

  std::string bytes_;
  std::mt19937 random_;
  std::vector<std::pair<std::size_t, std::size_t>> stretches_;
};

// Everything a server does with a file before its first token. Empty: it worked.
std::string use(const std::string& path) {
  const auto file = GgufFile::open(path);
  if (!file) return file.error().to_string();
  const auto tokenizer = Tokenizer::load(**file);
  if (tokenizer) (*tokenizer)->encode("one two", true, true);
  try {
    test::ModelRunner runner(path, {.context = 32, .rows = 2});
    const Token token = 0;
    runner.prefill(runner.add_sequence(), {&token, 1}, 1);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return tokenizer ? "" : tokenizer.error().to_string();
}

TEST(Mutated, NoFileEndsTheProcess) {
  int worked = 0;
  int refused = 0;
  for (int i = 0; i < kFiles; ++i) {
    const std::string architecture = std::vector<std::string>{"qwen35", "llama", "qwen3"}[i % 3];
    const std::string original = test::read_file(test::tiny_model(architecture, "q4_0"));
    const std::string path = test::temporary_directory() + "/mutated.gguf";
    test::write_file(path, Mutator(original, architecture, static_cast<std::uint32_t>(i)).mutate());
    const std::string error = use(path);
    if (error.empty()) {
      ++worked;
    } else {
      ++refused;
      EXPECT_EQ(error.find('['), 0u) << "file " << i << ": " << error;  // "[code] message"
    }
  }
  std::cout << worked << " damaged files still work, " << refused << " are refused" << std::endl;
  EXPECT_GT(refused, kFiles / 2);
}

}  // namespace
}  // namespace stemma
