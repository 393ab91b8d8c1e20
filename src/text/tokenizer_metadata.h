#pragma once
// The check of a GGUF file's tokenizer.ggml.* metadata before libllama reads it.
//
// libllama throws, ends the process or builds a wrong vocabulary when this metadata contradicts itself. What it aborts
// on: duplicate tokens, a vocabulary kind without words, pre-tokenizers that let spaces reach the merge table, and (when
// text is tokenized) a byte without a token. All of it is found here.

#include "core/result.h"
#include "models/gguf_file.h"

namespace stemma {

// Success means: libllama loads the vocabulary or returns an error, and tokenizes every text.
// Errors: `tokenizer_bad_metadata`, `tokenizer_unsupported`. O(tokens + merges).
Status check_tokenizer_metadata(const GgufFile& file);

}  // namespace stemma
