#pragma once
// GGUF files byte by byte, also wrong ones, which gguf.h's writer cannot produce.

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

namespace stemma::test {

class GgufBytes {
 public:
  template <class T>
  GgufBytes& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBytes& u32(std::uint32_t value) { return number(value); }
  GgufBytes& u64(std::uint64_t value) { return number(value); }
  GgufBytes& raw(std::string_view text) {
    bytes_.append(text);
    return *this;
  }
  GgufBytes& string(std::string_view text) { return u64(text.size()).raw(text); }

  // Magic, version, number of tensors, number of keys.
  GgufBytes& start(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
    return raw("GGUF").u32(version).u64(tensors).u64(keys);
  }
  GgufBytes& string_key(std::string_view key, std::string_view value) { return string(key).u32(8).string(value); }
  GgufBytes& u32_key(std::string_view key, std::uint32_t value) { return string(key).u32(4).u32(value); }
  // A description with two dimensions.
  GgufBytes& tensor(std::string_view name, std::uint64_t cols, std::uint64_t rows, std::uint32_t type,
                    std::uint64_t offset) {
    return string(name).u32(2).u64(cols).u64(rows).u32(type).u64(offset);
  }
  GgufBytes& pad(std::size_t alignment = 32) { return zeros((alignment - bytes_.size() % alignment) % alignment); }
  GgufBytes& zeros(std::size_t count) {
    bytes_.append(count, '\0');
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

inline void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace stemma::test
