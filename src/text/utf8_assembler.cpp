#include "text/utf8_assembler.h"

namespace stemma {

namespace {
constexpr std::string_view kReplacement = "\xef\xbf\xbd";
}  // namespace

std::string Utf8Assembler::push(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + pending_.size());
  for (const char byte : bytes) push_byte(static_cast<unsigned char>(byte), text);
  return text;
}

std::string Utf8Assembler::finish() {
  if (missing_ == 0) return {};
  missing_ = 0;
  pending_.clear();
  return std::string(kReplacement);
}

// Well-formed byte sequences: table 3-7 of the Unicode standard.
void Utf8Assembler::push_byte(unsigned char byte, std::string& text) {
  if (missing_ > 0) {
    if (byte < lowest_ || byte > highest_) {
      text += finish();
    } else {
      pending_ += static_cast<char>(byte);
      lowest_ = 0x80;
      highest_ = 0xbf;
      if (--missing_ == 0) {
        text += pending_;
        pending_.clear();
      }
      return;
    }
  }
  if (byte < 0x80) {
    text += static_cast<char>(byte);
  } else if (byte < 0xc2 || byte > 0xf4) {
    text += kReplacement;
  } else {
    pending_ = static_cast<char>(byte);
    missing_ = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    lowest_ = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    highest_ = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
  }
}

}  // namespace stemma
