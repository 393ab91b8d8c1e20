#include "toy_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compute/dtype.h"
#include "ggml.h"

namespace stemma {

ToyModel::ToyModel(Device& device, const ToyShape& shape, std::uint32_t seed)
    : shape_(shape), random_(seed), store_(device.make_weight_store()) {
  const std::int64_t width = shape.width;
  embedding_ = matrix(shape.vocabulary, width);
  for (int i = 0; i < shape.recurrent_layers; ++i) {
    const std::int64_t mixed = 2 * shape.h_k * shape.d_k + shape.h_v * shape.d_v;
    recurrent_.push_back({.norm = vector(width, 1.0f, 0.1f),
                          .mixed = matrix(mixed, width),
                          .gate = matrix(shape.h_v * shape.d_v, width),
                          .decay = matrix(shape.h_v, width),
                          .beta = matrix(shape.h_v, width),
                          .out = matrix(width, shape.h_v * shape.d_v),
                          .kernel = vector(mixed * shape.d_conv, 0.0f, 0.5f),
                          .decay_scale = vector(shape.h_v, -0.3f, 0.1f),
                          .decay_bias = vector(shape.h_v, 0.0f, 0.5f),
                          .head_norm = vector(shape.d_v, 1.0f, 0.1f)});
  }
  for (int i = 0; i < shape.attention_layers; ++i) {
    attention_.push_back({.norm = vector(width, 1.0f, 0.1f),
                          .q = matrix(2 * shape.n_head * shape.k_size, width),
                          .k = matrix(shape.n_head_kv * shape.k_size, width),
                          .v = matrix(shape.n_head_kv * shape.v_size, width),
                          .out = matrix(width, shape.n_head * shape.v_size),
                          .q_norm = vector(shape.k_size, 1.0f, 0.1f),
                          .v_bias = vector(shape.n_head_kv * shape.v_size, 0.0f, 0.1f)});
  }
  final_norm_ = vector(width, 1.0f, 0.1f);
}

Matrix ToyModel::matrix(std::int64_t rows, std::int64_t cols) {
  std::normal_distribution<float> normal(0.0f, 1.0f / std::sqrt(static_cast<float>(cols)));
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (float& value : values) value = normal(random_);
  std::vector<std::byte>& bytes = bytes_.emplace_back(row_bytes(shape_.weight_type, cols) *
                                                      static_cast<std::size_t>(rows));
  ggml_quantize_chunk(static_cast<ggml_type>(shape_.weight_type), values.data(), bytes.data(), 0, rows, cols,
                      nullptr);
  return store_->add_matrix({"toy", shape_.weight_type, cols, rows, bytes.data(), bytes.size()}).value();
}

Vector ToyModel::vector(std::int64_t size, float mean, float spread) {
  std::normal_distribution<float> normal(mean, spread);
  std::vector<float> values(static_cast<std::size_t>(size));
  for (float& value : values) value = normal(random_);
  const std::size_t bytes = values.size() * sizeof(float);
  return store_
      ->add_vector({"toy", DType::f32, size, 1, reinterpret_cast<const std::byte*>(values.data()), bytes})
      .value();
}

KvLayout ToyModel::kv_layout(int page_size) const {
  KvLayout layout;
  for (int i = 0; i < shape_.attention_layers; ++i) {
    layout.layers.push_back({shape_.n_head_kv * shape_.k_size, shape_.n_head_kv * shape_.v_size});
  }
  layout.k_type = shape_.k_type;
  layout.v_type = shape_.v_type;
  layout.page_size = page_size;
  return layout;
}

StateLayout ToyModel::state_layout() const {
  StateLayout layout;
  const std::int64_t mixed = 2 * shape_.h_k * shape_.d_k + shape_.h_v * shape_.d_v;
  for (int i = 0; i < shape_.recurrent_layers; ++i) {
    layout.add_layer(shape_.d_conv - 1, mixed, shape_.h_v, shape_.d_v, shape_.d_k);
  }
  return layout;
}

Tensor ToyModel::forward(Ops& ops) const {
  const ToyShape& s = shape_;
  const Tensor x = ops.embed(embedding_);
  for (int i = 0; i < s.recurrent_layers; ++i) {
    const Recurrent& w = recurrent_[static_cast<std::size_t>(i)];
    const Ops::Scope scope(ops);
    const Tensor h = ops.rms_norm(x, w.norm, 1e-6f);
    const auto [mixed, gate, decay, beta] = ops.linear(h, {{w.mixed}, {w.gate}, {w.decay}, {w.beta}});
    const Tensor y = ops.conv_silu(mixed, w.kernel, i);
    const std::int64_t keys = s.h_k * s.d_k;
    const Tensor q = ops.l2_norm(y.columns(0, keys), s.d_k, 1e-6f);
    const Tensor k = ops.l2_norm(y.columns(keys, keys), s.d_k, 1e-6f);
    const Tensor g = ops.softplus_gate(decay, w.decay_scale, w.decay_bias);
    const Tensor o = ops.gated_delta_net(q, k, y.columns(2 * keys, s.h_v * s.d_v), g, ops.sigmoid(beta),
                                         {.layer = i, .h_k = s.h_k, .h_v = s.h_v, .d_k = s.d_k, .d_v = s.d_v});
    const Tensor gated = ops.silu_mul(gate, ops.rms_norm(o, w.head_norm, 1e-6f));
    ops.add_to(x, ops.linear(gated, {w.out}));
  }
  const RopeParams rope{.pairs = s.pairs,
                        .head_size = s.k_size,
                        .n_rot = s.n_rot,
                        .freq_base = 10000.0f,
                        .freq_scale = 1.0f,
                        .factors = std::nullopt};
  for (int i = 0; i < s.attention_layers; ++i) {
    const Attention& w = attention_[static_cast<std::size_t>(i)];
    const Ops::Scope scope(ops);
    const Tensor h = ops.rms_norm(x, w.norm, 1e-6f);
    const auto [qg, k, v] = ops.linear(h, {{w.q}, {w.k}, {w.v, w.v_bias}});
    const Tensor q = ops.rope(ops.rms_norm(ops.split_heads(qg, s.n_head, 0, s.k_size), w.q_norm, 1e-6f), rope);
    const Tensor o = ops.attention(q, ops.rope(k, rope), v,
                                   {.layer = i,
                                    .n_head = s.n_head,
                                    .n_head_kv = s.n_head_kv,
                                    .k_size = s.k_size,
                                    .v_size = s.v_size,
                                    .scale = 1.0f / std::sqrt(static_cast<float>(s.k_size))});
    const Tensor gate = ops.split_heads(qg, s.n_head, s.k_size, s.k_size);
    const Tensor gated = s.k_size == s.v_size ? ops.sigmoid_mul(gate, o) : o;
    ops.add_to(x, ops.linear(gated, {w.out}));
  }
  return ops.linear(ops.rms_norm(ops.select_outputs(x), final_norm_, 1e-6f), {embedding_});
}

ToyRunner::ToyRunner(Device& device, const ToyModel& model, int page_size, std::size_t pages, std::size_t rows)
    : device_(device),
      model_(model),
      page_size_(page_size),
      pages_(device.make_pages(model.kv_layout(page_size), pages).value()),
      states_(device.make_states(model.state_layout(), rows).value()) {
  const KvLayout layout = model.kv_layout(page_size);
  for (std::size_t i = 0; i < layout.layers.size(); ++i) {
    const std::vector<float> k(static_cast<std::size_t>(layout.layers[i].k_cols), NAN);
    const std::vector<float> v(static_cast<std::size_t>(layout.layers[i].v_cols), NAN);
    for (std::size_t page = 0; page < pages; ++page) {
      for (int slot = 0; slot < page_size; ++slot) {
        page_buffer().write(static_cast<int>(i), PageId{static_cast<std::uint32_t>(page)}, slot, k.data(), v.data());
      }
    }
  }
  auto& states = static_cast<CpuStateBuffer&>(*states_);
  for (std::size_t row = 0; row < rows; ++row) {
    float* first = states.row(RowId{static_cast<std::uint32_t>(row)});
    for (const StateLayout::Layer& layer : states.layout().layers) {
      std::fill_n(first + layer.conv_offset, layer.conv_rows * layer.conv_cols, NAN);
      std::fill_n(first + layer.matrix_offset, layer.heads * layer.d_v * layer.d_k, NAN);
    }
  }
  // Pages are handed out in an order that is not theirs.
  std::mt19937 random(7);
  for (std::size_t page = 0; page < pages; ++page) free_pages_.push_back(PageId{static_cast<std::uint32_t>(page)});
  std::ranges::shuffle(free_pages_, random);
}

void ToyRunner::take_pages(Sequence& sequence) {
  const std::size_t needed = (sequence.tokens.size() + static_cast<std::size_t>(page_size_) - 1) /
                             static_cast<std::size_t>(page_size_);
  while (sequence.pages.size() < needed) {
    sequence.pages.push_back(free_pages_.back());
    free_pages_.pop_back();
  }
}

std::size_t ToyRunner::add_sequence(std::span<const Token> tokens) {
  Sequence sequence{tokens, 0, 0, take_row(), {}, Logits(tokens.size())};
  states_->clear_row(sequence.row);
  take_pages(sequence);
  sequences_.push_back(std::move(sequence));
  return sequences_.size() - 1;
}

std::size_t ToyRunner::add_branch(std::span<const Token> tokens, std::size_t other, Depth depth, RowId checkpoint,
                                  Depth shared) {
  Sequence sequence{tokens, depth, shared, take_row(), {}, Logits(tokens.size())};
  states_->copy_row(checkpoint, sequence.row);
  const auto whole = static_cast<std::size_t>(shared / page_size_);
  const std::vector<PageId>& pages = sequences_[other].pages;
  sequence.pages.assign(pages.begin(), pages.begin() + static_cast<std::ptrdiff_t>(whole));
  take_pages(sequence);
  if (shared % page_size_ != 0) pages_->copy_page(pages[whole], sequence.pages[whole], shared % page_size_);
  sequences_.push_back(std::move(sequence));
  return sequences_.size() - 1;
}

void ToyRunner::step(const std::vector<Part>& parts) {
  Step step;
  std::vector<std::vector<Depth>> outputs(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Sequence& sequence = sequences_[parts[i].sequence];
    for (Depth d = 0; d < parts[i].count; ++d) outputs[i].push_back(sequence.depth + d);
    step.segments.push_back({.tokens = sequence.tokens.subspan(static_cast<std::size_t>(sequence.depth),
                                                               static_cast<std::size_t>(parts[i].count)),
                             .start = sequence.depth,
                             .pages = sequence.pages,
                             .kv_write_from = sequence.kv_write_from,
                             .row = sequence.row,
                             .marks = parts[i].marks,
                             .outputs = outputs[i]});
  }
  const auto width = static_cast<std::size_t>(model_.shape().vocabulary);
  std::vector<float> logits(step.output_count() * width);
  device_.run(step, {model_.weights(), *pages_, *states_}, [&](Ops& ops) { return model_.forward(ops); }, logits);
  const float* next = logits.data();
  for (const Part& part : parts) {
    Sequence& sequence = sequences_[part.sequence];
    for (Depth d = 0; d < part.count; ++d, next += width) {
      sequence.logits[static_cast<std::size_t>(sequence.depth++)].assign(next, next + width);
    }
  }
}

std::vector<float> ToyRunner::row(RowId id) const {
  const auto& states = static_cast<const CpuStateBuffer&>(*states_);
  const float* first = states.row(id);
  return {first, first + states.layout().row_floats};
}

std::vector<Token> random_tokens(std::mt19937& random, std::size_t count, const ToyShape& shape) {
  std::uniform_int_distribution<Token> token(0, static_cast<Token>(shape.vocabulary - 1));
  std::vector<Token> tokens(count);
  for (Token& t : tokens) t = token(random);
  return tokens;
}

}  // namespace stemma
