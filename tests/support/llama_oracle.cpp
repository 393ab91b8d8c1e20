#include "support/llama_oracle.h"

#include <llama.h>

#include <cstdlib>
#include <stdexcept>

namespace stemma::test {
namespace {

struct Batch {
  llama_batch batch;
  explicit Batch(std::size_t tokens) : batch(llama_batch_init(static_cast<std::int32_t>(tokens), 0, 1)) {}
  ~Batch() { llama_batch_free(batch); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void add(Token token, Depth depth, std::size_t sequence) {
    const auto i = static_cast<std::size_t>(batch.n_tokens++);
    batch.token[i] = token;
    batch.pos[i] = depth;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = static_cast<llama_seq_id>(sequence);
    batch.logits[i] = 1;
  }
};

}  // namespace

LlamaOracle::LlamaOracle(const std::string& path) : model_(nullptr, llama_model_free) {
  setenv("GGML_CPU_TILED_MM", "0", 1);  // ggml reads it at the process's first product
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  // Weights as they are in the file: the repacked forms race, and crash on processors with AMX (ggml 0.25.3).
  params.use_extra_bufts = false;
  model_.reset(llama_model_load_from_file(path.c_str(), params));
  if (!model_) throw std::runtime_error("libllama does not load " + path);
}

LlamaOracle::~LlamaOracle() = default;

std::vector<std::vector<LlamaOracle::Logits>> LlamaOracle::logits(
    std::span<const std::vector<Token>> sequences, const LlamaSettings& settings) const {
  std::size_t tokens = 0;
  for (const auto& sequence : sequences) tokens += sequence.size();

  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<std::uint32_t>((tokens + 255) / 256 * 256);
  params.n_batch = static_cast<std::uint32_t>(tokens);
  params.n_seq_max = static_cast<std::uint32_t>(sequences.size());
  params.kv_unified = true;
  params.n_ubatch = settings.rows_at_once;
  params.n_threads = settings.threads;
  params.n_threads_batch = settings.threads;
  params.flash_attn_type =
      settings.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.type_k = static_cast<ggml_type>(settings.kv_type);
  params.type_v = static_cast<ggml_type>(settings.kv_type);
  const std::unique_ptr<llama_context, decltype(&llama_free)> context(llama_init_from_model(model_.get(), params),
                                                                      llama_free);
  if (!context) throw std::runtime_error("libllama makes no context");

  Batch batch(tokens);
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    for (std::size_t t = 0; t < sequences[s].size(); ++t) batch.add(sequences[s][t], static_cast<Depth>(t), s);
  }
  if (llama_decode(context.get(), batch.batch) != 0) throw std::runtime_error("libllama does not decode");

  const auto width = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model_.get())));
  std::vector<std::vector<Logits>> result(sequences.size());
  std::int32_t i = 0;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    for (std::size_t t = 0; t < sequences[s].size(); ++t) {
      const float* row = llama_get_logits_ith(context.get(), i++);
      result[s].emplace_back(row, row + width);
    }
  }
  return result;
}

void quantize_to_q4_k_m(const std::string& from, const std::string& to) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.ftype = LLAMA_FTYPE_MOSTLY_Q4_K_M;
  params.nthread = 1;
  if (llama_model_quantize(from.c_str(), to.c_str(), &params) != 0) {
    throw std::runtime_error("libllama does not quantize " + from);
  }
}

}  // namespace stemma::test
