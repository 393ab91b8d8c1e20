#include "models/fingerprint.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

namespace stemma {

std::string fingerprint(const GgufFile& file) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr);
  const auto add = [&](std::span<const std::byte> bytes) {
    EVP_DigestUpdate(hash.get(), bytes.data(), bytes.size());
  };

  for (const auto header : file.headers()) add(header);
  constexpr std::size_t kSample = 4096;
  for (const GgufTensor& tensor : file.tensors()) {
    const std::span<const std::byte> data(tensor.data, tensor.bytes);
    const std::size_t sample = std::min(kSample, data.size());
    add(data.first(sample));
    add(data.subspan((data.size() - sample) / 2, sample));
    add(data.last(sample));
  }

  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(hash.get(), digest, &size);
  std::string text;
  for (const unsigned char byte : std::span(digest, size)) {
    constexpr char kHex[] = "0123456789abcdef";
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

}  // namespace stemma
