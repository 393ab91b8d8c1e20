#include "compute/cpu/cpu_ops.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "compute/cpu/checked.h"
#include "compute/cpu/kernels/recurrent.h"
#include "compute/cpu/kernels/rows.h"
#include "compute/dtype.h"

namespace stemma {
namespace {

constexpr std::size_t kLineFloats = kCacheLine / sizeof(float);

// Elements of cheap row work that one item covers: tens of microseconds, so that the pool's cost doesn't show.
constexpr std::size_t kRunElements = 16384;

// Channels of a convolution that one item takes: a token's run is a few cache lines.
constexpr std::size_t kConvChannels = 256;

// Bytes of weights in one item of a product. Few inputs: the item streams them, and longer runs cost less. Many
// inputs: the run stays in the L1 cache beside a tile of inputs.
constexpr std::size_t kStreamedWeightBytes = std::size_t{64} << 10;
constexpr std::size_t kCachedWeightBytes = std::size_t{16} << 10;
constexpr std::size_t kFewInputs = 8;

}  // namespace

void CpuOps::begin(const Step& step, const StepMemory& memory) {
  step_ = &step;
  weights_ = static_cast<CpuWeightStore*>(&memory.weights);
  pages_ = static_cast<CpuPageBuffer*>(&memory.pages);
  states_ = static_cast<CpuStateBuffer*>(&memory.states);
  first_rows_.clear();
  depths_.clear();
  for (const Segment& segment : step.segments) {
    STEMMA_ASSERT(!segment.tokens.empty() && segment.start >= 0);
    STEMMA_ASSERT(std::ranges::is_sorted(segment.marks, std::less_equal<>(), &Mark::depth));
    STEMMA_ASSERT(segment.marks.empty() || (segment.marks.front().depth > segment.start &&
                                            segment.marks.back().depth <= segment.end()));
    first_rows_.push_back(depths_.size());
    for (Depth depth = segment.start; depth < segment.end(); ++depth) depths_.push_back(depth);
  }
  rope_tables_.begin(depths_);
}

void CpuOps::end() {
  STEMMA_ASSERT(scopes_.empty());
  tensors_.clear();
  arena_.release({0, 0});
  step_ = nullptr;
}

void CpuOps::read(Tensor x, std::span<float> out) const {
  const View from = view(x);
  STEMMA_ASSERT(out.size() == from.rows * from.cols);
  for (std::size_t row = 0; row < from.rows; ++row) {
    std::memcpy(out.data() + row * from.cols, from.row(row), from.cols * sizeof(float));
  }
}

std::size_t CpuOps::open_scope() {
  scopes_.push_back({tensors_.size(), arena_.mark()});
  return scopes_.size() - 1;
}

void CpuOps::close_scope(std::size_t mark) {
  STEMMA_ASSERT(mark + 1 == scopes_.size());
  tensors_.resize(scopes_[mark].tensors);
  arena_.release(scopes_[mark].arena);
  scopes_.pop_back();
}

Tensor CpuOps::make_tensor(std::size_t rows, std::int64_t cols) {
  const auto width = static_cast<std::size_t>(cols);
  const std::size_t stride = round_up(width, kLineFloats);
  const std::span<float> data = arena_.allocate_array<float>(rows * stride);
#ifdef STEMMA_CHECKED
  std::ranges::fill(data, std::numeric_limits<float>::quiet_NaN());
#endif
  tensors_.push_back({data.data(), stride, rows, width});
  return {static_cast<std::uint32_t>(tensors_.size() - 1), 0, cols, static_cast<std::int64_t>(rows)};
}

CpuOps::View CpuOps::view(Tensor t) const {
  STEMMA_ASSERT(t.id < tensors_.size());
  const View& whole = tensors_[t.id];
  STEMMA_ASSERT(t.offset >= 0 && static_cast<std::size_t>(t.offset + t.cols) <= whole.cols);
  STEMMA_ASSERT(static_cast<std::size_t>(t.rows) == whole.rows);
  return {whole.data + t.offset, whole.stride, whole.rows, static_cast<std::size_t>(t.cols)};
}

template <class Body>
void CpuOps::for_each_run(std::size_t rows, std::size_t cols, std::size_t unit, Body&& body) {
  const std::size_t run = std::min(cols, std::max(unit, kRunElements / unit * unit));
  const std::size_t runs_per_row = (cols + run - 1) / run;
  const std::size_t rows_per_item = std::max<std::size_t>(1, kRunElements / run);
  const std::size_t groups = (rows + rows_per_item - 1) / rows_per_item;
  pool_.parallel_for(groups * runs_per_row, [&](std::size_t item, int) {
    const std::size_t first = item % runs_per_row * run;
    const std::size_t row = item / runs_per_row * rows_per_item;
    for (std::size_t r = row; r < std::min(row + rows_per_item, rows); ++r) {
      body(r, first, std::min(run, cols - first));
    }
  });
}

template <class Body>
void CpuOps::for_each_segment_part(std::size_t parts, Body&& body) {
  const std::vector<Segment>& segments = step_->segments;
  pool_.parallel_for(segments.size() * parts, [&](std::size_t item, int) {
    const std::size_t segment = item / parts;
    body(segments[segment], first_rows_[segment], item % parts);
  });
}

Tensor CpuOps::embed(Matrix table) {
  const Tensor y = make_tensor(depths_.size(), table.cols);
  const View out = view(y);
  const HostMatrix& source = weights_->matrix(table).weights.source;
  const std::size_t stride = row_bytes(source.type, source.cols);
  for_each_segment_part(1, [&](const Segment& segment, std::size_t row, std::size_t) {
    for (const Token token : segment.tokens) {
      STEMMA_ASSERT(token >= 0 && token < source.rows);
      unpack_elements(source.type, source.data + static_cast<std::size_t>(token) * stride, source.cols,
                      out.row(row++));
    }
  });
  return y;
}

void CpuOps::linear(Tensor x, std::span<const LinearTerm> terms, std::span<Tensor> out) {
  const View in = view(x);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    STEMMA_ASSERT(terms[i].weight.cols == x.cols);
    STEMMA_ASSERT(!terms[i].bias || terms[i].bias->size == terms[i].weight.rows);
    out[i] = make_tensor(in.rows, terms[i].weight.rows);
  }
  if (in.rows == 0) return;  // a step without outputs reads no output matrix
  const Scratch scratch(arena_);

  // One set of prepared inputs for each form that the terms ask for.
  struct Prepared {
    const Product* product;
    Product::Inputs inputs;
    std::byte* data;
  };
  // Weight rows of one term, in items of rows_per_item.
  struct Part {
    const CpuWeightStore::WeightMatrix* matrix;
    const Prepared* prepared;
    const float* bias;
    View out;
    std::size_t rows_per_item;
    std::size_t first_item;
  };
  const std::span<Prepared> prepared = arena_.allocate_array<Prepared>(terms.size());
  const std::span<Part> parts = arena_.allocate_array<Part>(terms.size());
  std::size_t prepared_count = 0;
  std::size_t items = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const CpuWeightStore::WeightMatrix& matrix = weights_->matrix(terms[i].weight);
    Prepared* known = std::find_if(prepared.data(), prepared.data() + prepared_count, [&](const Prepared& p) {
      return p.product->input_form() == matrix.product->input_form();
    });
    if (known == prepared.data() + prepared_count) {
      const std::size_t stride = matrix.product->prepared_bytes(x.cols);
      const std::size_t groups = (in.rows + matrix.product->input_group() - 1) / matrix.product->input_group();
      std::byte* data = arena_.allocate(groups * stride);
      *known = {matrix.product, {data, stride, in.rows}, data};
      ++prepared_count;
    }
    const std::size_t bytes = in.rows < kFewInputs ? kStreamedWeightBytes : kCachedWeightBytes;
    const HostMatrix& source = matrix.weights.source;
    const auto unit = static_cast<std::size_t>(matrix.product->row_unit());
    const std::size_t per_item = std::max<std::size_t>(1, bytes / row_bytes(source.type, source.cols) / unit) * unit;
    const float* bias = terms[i].bias ? weights_->vector(*terms[i].bias).data() : nullptr;
    parts[i] = {&matrix, known, bias, view(out[i]), per_item, items};
    items += (static_cast<std::size_t>(source.rows) + per_item - 1) / per_item;
  }

  for (std::size_t p = 0; p < prepared_count; ++p) {
    const std::size_t group = prepared[p].product->input_group();
    const std::size_t groups = (in.rows + group - 1) / group;
    for_each_run(groups, in.cols * group, in.cols * group, [&](std::size_t g, std::size_t, std::size_t) {
      const std::size_t row = g * group;
      prepared[p].product->prepare(in.row(row), in.stride, std::min(group, in.rows - row), x.cols,
                                   prepared[p].data + g * prepared[p].inputs.stride);
    });
  }
  pool_.parallel_for(items, [&](std::size_t item, int) {
    const auto after = std::ranges::upper_bound(parts, item, {}, &Part::first_item);
    const Part& part = *std::prev(after);
    const std::size_t first = (item - part.first_item) * part.rows_per_item;
    const std::size_t count = std::min(part.rows_per_item, part.out.cols - first);
    part.matrix->product->multiply(part.matrix->weights, static_cast<std::int64_t>(first),
                                   static_cast<std::int64_t>(count), part.prepared->inputs,
                                   {part.out.data, part.out.stride});
    if (part.bias == nullptr) return;
    for (std::size_t row = 0; row < part.out.rows; ++row) {
      float* y = part.out.row(row) + first;
      kernels::add(y, part.bias + first, count, y);
    }
  });
}

Tensor CpuOps::rms_norm(Tensor x, Vector weight, float eps) {
  const Tensor y = make_tensor(static_cast<std::size_t>(x.rows), x.cols);
  const View in = view(x), out = view(y);
  const std::span<const float> w = weights_->vector(weight);
  STEMMA_ASSERT(in.cols % w.size() == 0);
  for_each_run(in.rows, in.cols, w.size(), [&](std::size_t row, std::size_t first, std::size_t count) {
    for (std::size_t c = first; c < first + count; c += w.size()) {
      kernels::rms_norm(in.row(row) + c, w.data(), eps, w.size(), out.row(row) + c);
    }
  });
  return y;
}

Tensor CpuOps::l2_norm(Tensor x, std::int64_t group, float eps) {
  const Tensor y = make_tensor(static_cast<std::size_t>(x.rows), x.cols);
  const View in = view(x), out = view(y);
  const auto size = static_cast<std::size_t>(group);
  STEMMA_ASSERT(group > 0 && x.cols % group == 0);
  for_each_run(in.rows, in.cols, size, [&](std::size_t row, std::size_t first, std::size_t count) {
    for (std::size_t c = first; c < first + count; c += size) {
      kernels::l2_norm(in.row(row) + c, eps, size, out.row(row) + c);
    }
  });
  return y;
}

void CpuOps::add_to(Tensor a, Tensor b) {
  const View to = view(a), from = view(b);
  STEMMA_ASSERT(to.rows == from.rows && to.cols == from.cols);
  for_each_run(to.rows, to.cols, kLineFloats, [&](std::size_t row, std::size_t first, std::size_t count) {
    kernels::add(to.row(row) + first, from.row(row) + first, count, to.row(row) + first);
  });
}

Tensor CpuOps::silu_mul(Tensor gate, Tensor x) {
  const Tensor y = make_tensor(static_cast<std::size_t>(x.rows), x.cols);
  const View g = view(gate), in = view(x), out = view(y);
  STEMMA_ASSERT(g.rows == in.rows && g.cols == in.cols);
  for_each_run(in.rows, in.cols, kLineFloats, [&](std::size_t row, std::size_t first, std::size_t count) {
    kernels::silu_mul(g.row(row) + first, in.row(row) + first, count, out.row(row) + first);
  });
  return y;
}

Tensor CpuOps::sigmoid_mul(Tensor gate, Tensor x) {
  const Tensor y = make_tensor(static_cast<std::size_t>(x.rows), x.cols);
  const View g = view(gate), in = view(x), out = view(y);
  STEMMA_ASSERT(g.rows == in.rows && g.cols == in.cols);
  for_each_run(in.rows, in.cols, kLineFloats, [&](std::size_t row, std::size_t first, std::size_t count) {
    kernels::sigmoid_mul(g.row(row) + first, in.row(row) + first, count, out.row(row) + first);
  });
  return y;
}

Tensor CpuOps::sigmoid(Tensor x) {
  const Tensor y = make_tensor(static_cast<std::size_t>(x.rows), x.cols);
  const View in = view(x), out = view(y);
  for_each_run(in.rows, in.cols, kLineFloats, [&](std::size_t row, std::size_t first, std::size_t count) {
    kernels::sigmoid(in.row(row) + first, count, out.row(row) + first);
  });
  return y;
}

Tensor CpuOps::softplus_gate(Tensor x, Vector a, Vector bias) {
  const Tensor y = make_tensor(static_cast<std::size_t>(x.rows), x.cols);
  const View in = view(x), out = view(y);
  const float* scale = weights_->vector(a).data();
  const float* shift = weights_->vector(bias).data();
  STEMMA_ASSERT(a.size == x.cols && bias.size == x.cols);
  for_each_run(in.rows, in.cols, kLineFloats, [&](std::size_t row, std::size_t first, std::size_t count) {
    kernels::softplus_gate(in.row(row) + first, scale + first, shift + first, count, out.row(row) + first);
  });
  return y;
}

Tensor CpuOps::split_heads(Tensor x, std::int64_t groups, std::int64_t first, std::int64_t count) {
  const Tensor y = make_tensor(static_cast<std::size_t>(x.rows), groups * count);
  const View in = view(x), out = view(y);
  STEMMA_ASSERT(groups > 0 && x.cols % groups == 0 && first >= 0 && first + count <= x.cols / groups);
  const std::size_t size = in.cols / static_cast<std::size_t>(groups);
  const auto width = static_cast<std::size_t>(count);
  for_each_run(out.rows, out.cols, width, [&](std::size_t row, std::size_t begin, std::size_t length) {
    for (std::size_t c = begin; c < begin + length; c += width) {
      const float* from = in.row(row) + c / width * size + static_cast<std::size_t>(first);
      std::memcpy(out.row(row) + c, from, width * sizeof(float));
    }
  });
  return y;
}

Tensor CpuOps::rope(Tensor x, const RopeParams& params) {
  const Tensor y = make_tensor(static_cast<std::size_t>(x.rows), x.cols);
  const View in = view(x), out = view(y);
  STEMMA_ASSERT(in.rows == depths_.size() && x.cols % params.head_size == 0);
  STEMMA_ASSERT(params.n_rot % 2 == 0 && params.n_rot <= params.head_size);
  STEMMA_ASSERT(!params.factors || params.factors->size * 2 == params.n_rot);
  const RopeTable& table = rope_tables_.find(
      params, params.factors ? weights_->vector(*params.factors) : std::span<const float>());
  const auto rotate =
      params.pairs == RopeParams::Pairs::halves ? kernels::rope_halves : kernels::rope_neighbours;
  const auto size = static_cast<std::size_t>(params.head_size);
  const auto rotated = static_cast<std::size_t>(params.n_rot);
  for_each_run(in.rows, in.cols, size, [&](std::size_t row, std::size_t first, std::size_t count) {
    const float* cosines = table.cosines.data() + row * table.pairs;
    const float* sines = table.sines.data() + row * table.pairs;
    for (std::size_t c = first; c < first + count; c += size) {
      rotate(in.row(row) + c, cosines, sines, table.pairs, out.row(row) + c);
      std::memcpy(out.row(row) + c + rotated, in.row(row) + c + rotated, (size - rotated) * sizeof(float));
    }
  });
  return y;
}

Tensor CpuOps::select_outputs(Tensor x) {
  const Tensor y = make_tensor(step_->output_count(), x.cols);
  const View in = view(x), out = view(y);
  STEMMA_ASSERT(in.rows == depths_.size());
  std::size_t to = 0;
  for (std::size_t s = 0; s < step_->segments.size(); ++s) {
    const Segment& segment = step_->segments[s];
    for (const Depth depth : segment.outputs) {
      STEMMA_ASSERT(depth >= segment.start && depth < segment.end());
      const std::size_t from = first_rows_[s] + static_cast<std::size_t>(depth - segment.start);
      std::memcpy(out.row(to++), in.row(from), in.cols * sizeof(float));
    }
  }
  return y;
}

void CpuOps::write_kv(View k, View v, int layer) {
  for (std::size_t s = 0; s < step_->segments.size(); ++s) {
    const Segment& segment = step_->segments[s];
    const Depth from = std::max(segment.start, segment.kv_write_from);
    if (from >= segment.end()) continue;
    const std::size_t first_row = first_rows_[s] + static_cast<std::size_t>(from - segment.start);
    for_each_run(static_cast<std::size_t>(segment.end() - from), k.cols + v.cols, k.cols + v.cols,
                 [&](std::size_t row, std::size_t, std::size_t) {
                   const std::size_t depth = static_cast<std::size_t>(from) + row;
                   const auto page_size = static_cast<std::size_t>(pages_->page_size());
                   pages_->write(layer, segment.pages[depth / page_size], static_cast<int>(depth % page_size),
                                 k.row(first_row + row), v.row(first_row + row));
                 });
  }
}

Tensor CpuOps::conv_silu(Tensor x, Vector kernel, int layer) {
  const Tensor y = make_tensor(depths_.size(), x.cols);
  const View in = view(x), out = view(y);
  const StateLayout::Layer& place = states_->layout().layers[static_cast<std::size_t>(layer)];
  const auto window_rows = static_cast<std::size_t>(place.conv_rows);
  const std::size_t taps = window_rows + 1;
  const float* weights = weights_->vector(kernel).data();
  STEMMA_ASSERT(in.rows == depths_.size() && x.cols == place.conv_cols);
  STEMMA_ASSERT(static_cast<std::size_t>(kernel.size) == in.cols * taps);

  for_each_segment_part((in.cols + kConvChannels - 1) / kConvChannels, [&](const Segment& segment,
                                                                           std::size_t first_row, std::size_t part) {
    const std::size_t channel = part * kConvChannels;
    const std::size_t channels = std::min(kConvChannels, in.cols - channel);
    const auto window_of = [&](RowId row) { return states_->row(row) + place.conv_offset + channel; };
    float* window = window_of(segment.row);
    const float* rows = in.row(first_row) + channel;
    kernels::conv_silu({.tokens = segment.tokens.size(),
                        .channels = channels,
                        .taps = taps,
                        .kernel = weights + channel * taps,
                        .window = window,
                        .window_stride = in.cols,
                        .x = rows,
                        .x_stride = in.stride,
                        .y = out.row(first_row) + channel,
                        .y_stride = out.stride});
    // The window after `tokens` tokens: the last rows of the old window followed by x. Ascending order lets it
    // overwrite the old window.
    const auto store_window = [&](std::size_t tokens, float* to) {
      for (std::size_t i = 0; i < window_rows; ++i) {
        const std::size_t source = tokens + i;
        const float* from =
            source < window_rows ? window + source * in.cols : rows + (source - window_rows) * in.stride;
        std::memmove(to + i * in.cols, from, channels * sizeof(float));
      }
    };
    for (const Mark& mark : segment.marks) {
      store_window(static_cast<std::size_t>(mark.depth - segment.start), window_of(mark.row));
    }
    store_window(segment.tokens.size(), window);
  });
  return y;
}

Tensor CpuOps::gated_delta_net(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta,
                               const GatedDeltaNetParams& params) {
  const Tensor y = make_tensor(depths_.size(), static_cast<std::int64_t>(params.h_v) * params.d_v);
  const View qs = view(q), ks = view(k), vs = view(v), gs = view(g), betas = view(beta), out = view(y);
  const StateLayout::Layer& place = states_->layout().layers[static_cast<std::size_t>(params.layer)];
  STEMMA_ASSERT(q.cols == params.h_k * params.d_k && k.cols == q.cols && v.cols == params.h_v * params.d_v);
  STEMMA_ASSERT(g.cols == params.h_v && beta.cols == params.h_v && q.rows == y.rows && v.rows == y.rows);
  STEMMA_ASSERT(place.heads == params.h_v && place.d_k == params.d_k && place.d_v == params.d_v);
  const auto d_k = static_cast<std::size_t>(params.d_k);
  const auto d_v = static_cast<std::size_t>(params.d_v);
  const auto key_heads = static_cast<std::size_t>(params.h_k);

  for_each_segment_part(static_cast<std::size_t>(params.h_v), [&](const Segment& segment, std::size_t first_row,
                                                                  std::size_t head) {
    const auto matrix_of = [&](RowId row) { return states_->row(row) + place.matrix_offset + head * d_v * d_k; };
    const std::size_t key_head = head % key_heads;
    float* state = matrix_of(segment.row);
    std::size_t done = 0;
    const auto run_to = [&](std::size_t tokens) {
      const std::size_t row = first_row + done;
      kernels::gated_delta_net({.tokens = tokens - done,
                                .d_k = d_k,
                                .d_v = d_v,
                                .q = qs.row(row) + key_head * d_k,
                                .q_stride = qs.stride,
                                .k = ks.row(row) + key_head * d_k,
                                .k_stride = ks.stride,
                                .v = vs.row(row) + head * d_v,
                                .v_stride = vs.stride,
                                .g = gs.row(row) + head,
                                .g_stride = gs.stride,
                                .beta = betas.row(row) + head,
                                .beta_stride = betas.stride,
                                .state = state,
                                .out = out.row(row) + head * d_v,
                                .out_stride = out.stride});
      done = tokens;
    };
    for (const Mark& mark : segment.marks) {
      run_to(static_cast<std::size_t>(mark.depth - segment.start));
      std::memcpy(matrix_of(mark.row), state, d_v * d_k * sizeof(float));
    }
    run_to(segment.tokens.size());
  });
  return y;
}

}  // namespace stemma
