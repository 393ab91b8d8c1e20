// Single operations on the CPU device, in shapes of a 0.8B hybrid model, each beside its roof: the time that its bytes take at
// the memory's speed, or its multiply-adds at the processor's, whichever is longer, both measured first with as many threads.
//
//   kernel_bench [--threads=2] [--benchmark_filter=delta]
//
// The argument is the number of tokens (and for attention the depth they start at). of_roof is the roof's time over the
// kernel's, bound says which roof (0 memory, 1 multiply-adds).

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string_view>
#include <vector>

#include "compute/cpu/cpu_device.h"
#include "compute/cpu/memory_speed.h"
#include "compute/dtype.h"
#include "peaks.h"

namespace stemma {

constexpr int kPageSize = 16;
constexpr int kHeads = 16, kHeadSize = 128;  // of the delta net
constexpr int kQueryHeads = 8, kKvHeads = 2, kAttentionSize = 256;
constexpr std::int64_t kWidth = 1024;
constexpr Depth kMaxDepth = 16384;

// What --threads=N asked for.
int& thread_count() {
  static int threads = 2;
  return threads;
}

// What one iteration asks of the machine. Work that is no multiply-add counts as the multiply-adds that take as long.
struct Work {
  double f32 = 0;    // multiply-adds
  double i8 = 0;
  double bytes = 0;  // of memory that is not in a cache
};

struct Roofs {
  double f32, i8, amx, memory;  // a second

  double seconds_for(const Work& work) const { return std::max(work.bytes / memory, arithmetic_for(work)); }
  double arithmetic_for(const Work& work) const { return work.f32 / f32 + work.i8 / std::max(i8, amx); }
};

const Roofs& roofs() {
  static const Roofs measured = [] {
    const int threads = thread_count();
    const std::vector<double> reads = measure_memory_reads(std::size_t{512} << 20, threads, 5).value();
    return Roofs{peak_f32(threads), peak_i8(threads), peak_amx(threads), *std::ranges::max_element(reads)};
  }();
  return measured;
}

void set_roof(benchmark::State& state, const Work& work) {
  state.counters["of_roof"] =
      benchmark::Counter(roofs().seconds_for(work), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["bound"] = roofs().arithmetic_for(work) < work.bytes / roofs().memory ? 0 : 1;
}

// One step over one sequence, and the memory for it.
class Bench {
 public:
  Bench(Depth start, Depth count) : tokens_(static_cast<std::size_t>(count), 0) {
    for (int i = 0; i <= kMaxDepth / kPageSize; ++i) page_ids_.push_back(PageId{static_cast<std::uint32_t>(i)});
    const Depth last[] = {start + count - 1};
    outputs_.assign(last, last + 1);
    step_.segments.push_back({.tokens = tokens_,
                              .start = start,
                              .pages = page_ids_,
                              .kv_write_from = start,
                              .row = RowId{0},
                              .marks = {},
                              .outputs = outputs_});
    pages_ = device_->make_pages({.layers = {{kKvHeads * kAttentionSize, kKvHeads * kAttentionSize}},
                                  .k_type = DType::f16,
                                  .v_type = DType::f16,
                                  .page_size = kPageSize},
                                 page_ids_.size())
                 .value();
    StateLayout state;
    state.add_layer(3, 3 * kHeads * kHeadSize, kHeads, kHeadSize, kHeadSize);
    states_ = device_->make_states(state, 1).value();
  }

  Matrix matrix(DType type, std::int64_t rows, std::int64_t cols) {
    std::vector<std::byte>& bytes =
        bytes_.emplace_back(row_bytes(type, cols) * static_cast<std::size_t>(rows), std::byte{0x21});
    return store_->add_matrix({"bench", type, cols, rows, bytes.data(), bytes.size()}).value();
  }

  Vector vector(std::int64_t size) {
    const std::vector<float> values(static_cast<std::size_t>(size), 0.5f);
    return store_
        ->add_vector({"bench", DType::f32, size, 1, reinterpret_cast<const std::byte*>(values.data()),
                      values.size() * sizeof(float)})
        .value();
  }

  // Times `operation` on a tensor of ones with `cols` columns, inside one step.
  template <class Operation>
  void run(benchmark::State& state, std::int64_t cols, Operation&& operation) {
    std::vector<float> ones(static_cast<std::size_t>(cols), 1.0f);
    const Matrix table = store_->add_table({"ones", DType::f32, cols, 1,
                                             reinterpret_cast<const std::byte*>(ones.data()),
                                             ones.size() * sizeof(float)})
                             .value();
    std::vector<float> out(ones.size());
    device_->run(step_, {*store_, *pages_, *states_},
                 [&](Ops& ops) {
                   const Tensor x = ops.embed(table);
                   for (auto iteration : state) {
                     const Ops::Scope scope(ops);
                     operation(ops, x);
                   }
                   return ops.select_outputs(x);
                 },
                 out);
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(tokens_.size()));  // tokens
  }

 private:
  std::unique_ptr<Device> device_ = make_cpu_device({.threads = thread_count()});
  std::unique_ptr<WeightStore> store_ = device_->make_weight_store();
  std::unique_ptr<PageBuffer> pages_;
  std::unique_ptr<StateBuffer> states_;
  std::vector<PageId> page_ids_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<Token> tokens_;
  std::vector<Depth> outputs_;
  Step step_;
};

void delta_net(benchmark::State& state) {
  Bench bench(0, static_cast<Depth>(state.range(0)));
  constexpr std::int64_t kCols = kHeads * kHeadSize;
  const Vector scale = bench.vector(kHeads);
  bench.run(state, kCols, [&](Ops& ops, Tensor x) {
    const Tensor heads = x.columns(0, kHeads);
    const Tensor k = ops.l2_norm(x, kHeadSize, 1e-6f);
    ops.gated_delta_net(
        k, k, x, ops.softplus_gate(heads, scale, scale), ops.sigmoid(heads),
        {.layer = 0, .h_k = kHeads, .h_v = kHeads, .d_k = kHeadSize, .d_v = kHeadSize});
  });
  // Of each element of the matrix: decay, update, and the products with k and q.
  set_roof(state, {.f32 = 4.0 * static_cast<double>(state.range(0)) * kHeads * kHeadSize * kHeadSize});
}
BENCHMARK(delta_net)->Arg(1)->Arg(16)->Arg(512)->UseRealTime();

void convolution(benchmark::State& state) {
  Bench bench(0, static_cast<Depth>(state.range(0)));
  constexpr std::int64_t kCols = 3 * kHeads * kHeadSize;
  const Vector kernel = bench.vector(4 * kCols);
  bench.run(state, kCols, [&](Ops& ops, Tensor x) { ops.conv_silu(x, kernel, 0); });
  // 4 taps; exp, its range and the division take some 20 instructions.
  set_roof(state, {.f32 = 24.0 * static_cast<double>(state.range(0)) * kCols});
}
BENCHMARK(convolution)->Arg(1)->Arg(512)->UseRealTime();

void attention(benchmark::State& state) {
  Bench bench(static_cast<Depth>(state.range(1)), static_cast<Depth>(state.range(0)));
  const AttentionParams params{.layer = 0,
                               .n_head = kQueryHeads,
                               .n_head_kv = kKvHeads,
                               .k_size = kAttentionSize,
                               .v_size = kAttentionSize,
                               .scale = 1.0f / 16};
  constexpr std::int64_t kCols = kQueryHeads * kAttentionSize;
  constexpr std::int64_t kKvCols = kKvHeads * kAttentionSize;
  bench.run(state, kCols, [&](Ops& ops, Tensor x) {
    ops.attention(x, x.columns(0, kKvCols), x.columns(0, kKvCols), params);
  });
  const auto tokens = static_cast<double>(state.range(0));
  const double depths = static_cast<double>(state.range(1)) + (tokens + 1) / 2;  // that a token sees, on average
  set_roof(state, {.f32 = 2 * tokens * depths * kCols,
                   .bytes = (static_cast<double>(state.range(1)) + tokens) * 2 * kKvCols * 2});
}
BENCHMARK(attention)->Args({1, 1000})->Args({1, 8000})->Args({512, 0})->Args({512, 4096})->UseRealTime();

void linear(benchmark::State& state, DType type) {
  Bench bench(0, static_cast<Depth>(state.range(0)));
  constexpr std::int64_t kRows = 3584;
  // Several matrices, so that one token's weights do not stay in the cache.
  std::vector<Matrix> weights;
  for (int i = 0; i < 60; ++i) weights.push_back(bench.matrix(type, kRows, kWidth));
  std::size_t next = 0;
  bench.run(state, kWidth, [&](Ops& ops, Tensor x) { ops.linear(x, {weights[next++ % weights.size()]}); });
  const double products = static_cast<double>(state.iterations() * state.range(0)) * kRows * kWidth;
  state.counters["MAC"] = benchmark::Counter(products, benchmark::Counter::kIsRate);
  const auto bytes = static_cast<std::int64_t>(row_bytes(type, kWidth)) * kRows;
  state.SetBytesProcessed(state.iterations() * bytes);  // weights
  Work work{.bytes = static_cast<double>(bytes)};
  const bool quantized = type_info(type).block > 1;
  (quantized ? work.i8 : work.f32) = static_cast<double>(state.range(0)) * kRows * kWidth;
  set_roof(state, work);
}
BENCHMARK_CAPTURE(linear, q8_0, DType::q8_0)->Arg(1)->Arg(4)->Arg(16)->Arg(512)->UseRealTime();
BENCHMARK_CAPTURE(linear, q4_k, DType::q4_k)->Arg(1)->Arg(4)->Arg(16)->Arg(512)->UseRealTime();
BENCHMARK_CAPTURE(linear, q4_0, DType::q4_0)->Arg(1)->Arg(4)->Arg(16)->Arg(512)->UseRealTime();
BENCHMARK_CAPTURE(linear, q5_k, DType::q5_k)->Arg(1)->Arg(4)->Arg(16)->Arg(512)->UseRealTime();
BENCHMARK_CAPTURE(linear, q6_k, DType::q6_k)->Arg(1)->Arg(4)->Arg(16)->Arg(512)->UseRealTime();
BENCHMARK_CAPTURE(linear, f32, DType::f32)->Arg(1)->Arg(512)->UseRealTime();
BENCHMARK_CAPTURE(linear, f16, DType::f16)->Arg(1)->Arg(512)->UseRealTime();
BENCHMARK_CAPTURE(linear, bf16, DType::bf16)->Arg(1)->Arg(512)->UseRealTime();

// The small row-wise operations of one layer, whose cost must not show beside the products.
void row_work(benchmark::State& state) {
  Bench bench(0, static_cast<Depth>(state.range(0)));
  const Vector weight = bench.vector(kWidth);
  bench.run(state, kWidth, [&](Ops& ops, Tensor x) {
    const Tensor y = ops.rms_norm(x, weight, 1e-6f);
    ops.silu_mul(y, x);
    ops.add_to(y, x);
  });
}
BENCHMARK(row_work)->Arg(1)->Arg(512)->UseRealTime();

}  // namespace stemma

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    constexpr std::string_view name = "--threads=";
    const std::string_view argument = argv[i];
    if (!argument.starts_with(name)) {
      std::cerr << "kernel_bench: unknown option " << argument << '\n';
      return 2;
    }
    stemma::thread_count() = std::atoi(argv[i] + name.size());
  }
  const stemma::Roofs& roofs = stemma::roofs();
  std::cout << stemma::make_cpu_device({.threads = stemma::thread_count()})->description() << ": at most "
            << roofs.memory / 1e9 << " GB/s of memory, " << roofs.f32 / 1e9 << " G f32 and " << roofs.i8 / 1e9
            << " G 8-bit multiply-adds a second (" << roofs.amx / 1e9 << " G with AMX)" << std::endl;
  benchmark::RunSpecifiedBenchmarks();
}
