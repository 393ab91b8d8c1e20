#pragma once
// The identity of a model file, for namespaces of the cache and for stored records.

#include <string>

#include "models/gguf_file.h"

namespace stemma {

// Hex SHA-256 over the headers of all parts and, of each tensor, its first, middle and last 4 KiB. Another
// conversion, quantization or fine-tune changes it; an edit of some weights between the samples does not.
// O(metadata + tensors).
std::string fingerprint(const GgufFile& file);

}  // namespace stemma
