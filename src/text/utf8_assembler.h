#pragma once
// Bytes in arbitrary pieces to whole UTF-8 characters.

#include <string>
#include <string_view>

namespace stemma {

// Holds the bytes of at most one character that has begun and is valid so far (up to 3 bytes).
class Utf8Assembler {
 public:
  // The characters that `bytes` completed. What cannot be UTF-8 becomes U+FFFD, one for each maximal part of a sequence
  // (the Unicode standard's recommendation, section 3.9), wherever the pieces were cut. O(bytes).
  std::string push(std::string_view bytes);

  // U+FFFD if a character was left unfinished.
  std::string finish();

 private:
  void push_byte(unsigned char byte, std::string& text);

  std::string pending_;
  int missing_ = 0;                             // bytes that pending_ still needs
  unsigned char lowest_ = 0x80, highest_ = 0xbf;  // range of the next of them
};

}  // namespace stemma
