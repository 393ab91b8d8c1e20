#pragma once
// Generated tokens to text that may be sent: whole UTF-8 sequences only, and nothing that could still turn out to be
// the beginning of a stop string.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.h"
#include "text/stop_scanner.h"
#include "text/tokenizer.h"
#include "text/utf8_assembler.h"

namespace stemma {

class TextStream {
 public:
  // Stop strings are non-empty. `special`: whether control tokens have text. The tokenizer must outlive the stream.
  TextStream(const Tokenizer& tokenizer, const std::vector<std::string>& stop, bool special = false);

  // Text that became certain with this token. After a stop string was found (stopped()), text before it only, and
  // later tokens give nothing. Invalid UTF-8 becomes U+FFFD. O(piece * stop strings), amortised.
  std::string push(Token token);

  // What is still held back; called once at the end of generation.
  std::string finish();

  bool stopped() const { return scanner_.found().has_value(); }
  // Index of the stop string that was found.
  std::optional<std::size_t> stop_index() const { return scanner_.found(); }

 private:
  const Tokenizer& tokenizer_;
  bool special_;
  Utf8Assembler assembler_;
  StopScanner scanner_;
};

}  // namespace stemma
