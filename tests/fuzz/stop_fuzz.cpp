// Bytes that arrive in any pieces, and any stop strings: the text that comes out is the same as of all at once, and the same as
// a plain search finds. The input: how it is cut, one byte a cut; a line; stop strings, one a line; an empty line; the bytes.

#include <algorithm>
#include <optional>

#include "property.h"
#include "text/stop_scanner.h"
#include "text/utf8_assembler.h"

namespace stemma::fuzz {
namespace {

struct Output {
  std::string text;
  std::optional<std::size_t> found;
  bool operator==(const Output&) const = default;
};

// As TextStream does it.
class Stream {
 public:
  explicit Stream(const std::vector<std::string>& stops) : scanner_(stops) {}
  void push(std::string_view bytes) { text_ += scanner_.push(characters_.push(bytes)); }
  Output finish() {
    text_ += scanner_.push(characters_.finish());
    text_ += scanner_.finish();
    return {text_, scanner_.found()};
  }

 private:
  Utf8Assembler characters_;
  StopScanner scanner_;
  std::string text_;
};

Output plain_search(const std::string& text, const std::vector<std::string>& stops) {
  Output best{text, std::nullopt};
  std::size_t best_end = text.npos;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    const std::size_t at = text.find(stops[i]);
    if (at == text.npos) continue;
    const std::size_t end = at + stops[i].size();
    const bool longer = best.found && end == best_end && stops[i].size() > stops[*best.found].size();
    if (best.found && end >= best_end && !longer) continue;
    best = {text.substr(0, at), i};
    best_end = end;
  }
  return best;
}

std::string as_utf8(std::string_view bytes) {
  Utf8Assembler characters;
  std::string text = characters.push(bytes);
  return text + characters.finish();
}

std::vector<std::string> lines_up_to_an_empty_one(std::string_view& text) {
  std::vector<std::string> lines;
  while (lines.size() < 16) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) break;
    lines.push_back(line);
  }
  return lines;
}

void check(std::string_view input) {
  const std::size_t first = std::min(input.find('\n'), input.size());
  const std::string_view cuts = input.substr(0, first);
  input.remove_prefix(std::min(first + 1, input.size()));
  const std::vector<std::string> stops = lines_up_to_an_empty_one(input);

  Stream whole(stops);
  whole.push(input);
  const Output expected = whole.finish();

  Stream pieces(stops);
  std::size_t at = 0;
  for (std::size_t i = 0; at < input.size(); ++i) {
    const std::size_t length = cuts.empty() ? 1 : static_cast<unsigned char>(cuts[i % cuts.size()]) % 16;
    pieces.push(input.substr(at, std::max<std::size_t>(length, i % 2)));  // also empty ones
    at += std::max<std::size_t>(length, i % 2);
  }
  require(pieces.finish() == expected, "pieces give what the whole gives");
  const std::string text = as_utf8(input);
  require(plain_search(text, stops) == expected, "a plain search gives the same");
  require(as_utf8(text) == text, "what comes out is UTF-8");
}

}  // namespace
}  // namespace stemma::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stemma::fuzz::check(stemma::fuzz::text_of(data, size));
  return 0;
}
