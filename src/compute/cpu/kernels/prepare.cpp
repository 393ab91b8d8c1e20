// prepare_inputs(): rows of f32 in the form that a packed product takes. Quantizing follows ggml's types, so that the
// integers are the same as libllama's.

#include <cmath>

#include "compute/cpu/kernels/panels.h"
#include "compute/cpu/kernels/prepared_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/cpu/kernels/prepare.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "compute/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stemma {
namespace kernels {
namespace HWY_NAMESPACE {

using PreparedInts = hn::RebindToSigned<Floats>;
using PreparedIntVec = hn::Vec<PreparedInts>;

// Writes the records of one input of a group.
template <class Record>
class RecordWriter {
 public:
  explicit RecordWriter(std::byte* input) : to_(input) {}

  HWY_INLINE void put(size_t at, float value) { std::memcpy(to_ + at * 4, &value, 4); }
  HWY_INLINE void put(size_t at, int32_t value) { std::memcpy(to_ + at * 4, &value, 4); }

  // A vector of integers in [-127, 127] as bytes, from byte `at` of the record on.
  HWY_INLINE void put_bytes(size_t at, PreparedIntVec q) {
    const hn::Rebind<int8_t, Floats> narrow;
    hn::StoreU(hn::DemoteTo(narrow, q), narrow, reinterpret_cast<int8_t*>(to_ + at));
  }

  HWY_INLINE void next() { to_ += group_record_bytes<Record>; }

 private:
  std::byte* to_;
};

HWY_INLINE float rounded_to_f16(float value) {
  round_to_f16(&value, 1);
  return value;
}

// scale = max |x| / 127, q = x / scale rounded to nearest even. The scale that products use is rounded to f16, as ggml
// stores it.
void PrepareBlocks32(const float* x, size_t cols, std::byte* input) {
  constexpr size_t kVectors = 32 / kLanes;
  const Floats d;
  const PreparedInts di;
  RecordWriter<Blocks32Record> record(input);
  for (size_t begin = 0; begin < cols; begin += Blocks32Record::columns) {
    const float* from = x + begin;
    Vec greatest = hn::Zero(d);
    for (size_t n = 0; n < kVectors; ++n) greatest = hn::Max(greatest, hn::Abs(hn::LoadU(d, from + n * kLanes)));
    const float max = hn::GetLane(hn::MaxOfLanes(d, greatest));
    const Vec inverse = hn::Set(d, max != 0.0f ? 127.0f / max : 0.0f);
    PreparedIntVec sums = hn::Zero(di);
    for (size_t n = 0; n < kVectors; ++n) {
      const PreparedIntVec q = hn::NearestInt(hn::Mul(hn::LoadU(d, from + n * kLanes), inverse));
      record.put_bytes(Blocks32Record::quads * 4 + n * kLanes, q);
      sums = hn::Add(sums, q);
    }
    const float scale = max / 127.0f;
    const int32_t sum = hn::GetLane(hn::SumOfLanes(di, sums));
    record.put(Blocks32Record::scale, rounded_to_f16(scale));
    record.put(Blocks32Record::start, -128 * sum);
    record.put(Blocks32Record::sum, sum);
    record.put(Blocks32Record::scaled_sum, rounded_to_f16(scale * static_cast<float>(sum)));
    record.next();
  }
}

// The first of the block's elements with the greatest magnitude.
float greatest_of(const float* x, size_t count) {
  const Floats d;
  Vec high = hn::LoadU(d, x), low = high;
  for (size_t i = kLanes; i < count; i += kLanes) {
    const Vec v = hn::LoadU(d, x + i);
    high = hn::Max(high, v);
    low = hn::Min(low, v);
  }
  const float max = hn::GetLane(hn::MaxOfLanes(d, high)), min = hn::GetLane(hn::MinOfLanes(d, low));
  if (max > -min) return max;
  if (max < -min) return min;
  for (size_t i = 0; i < count; ++i) {
    if (std::fabs(x[i]) == max) return x[i];
  }
  return 0.0f;  // not a number
}

// q = -127 x / (element of greatest magnitude), rounded to nearest even: that element becomes -127.
void PrepareBlocks256(const float* x, size_t cols, std::byte* input) {
  constexpr size_t kVectors = 16 / kLanes;
  const Floats d;
  const PreparedInts di;
  RecordWriter<Blocks256Record> record(input);
  for (size_t begin = 0; begin < cols; begin += Blocks256Record::columns) {
    const float* from = x + begin;
    const float greatest = greatest_of(from, Blocks256Record::columns);
    const float inverse = greatest != 0.0f ? -127.0f / greatest : 0.0f;
    const Vec factor = hn::Set(d, inverse);
    int32_t sums16[16], sums32[8];
    for (size_t half = 0; half < 16; ++half) {
      PreparedIntVec sum = hn::Zero(di);
      for (size_t n = 0; n < kVectors; ++n) {
        const size_t at = 16 * half + n * kLanes;
        const PreparedIntVec q = hn::NearestInt(hn::Mul(hn::LoadU(d, from + at), factor));
        record.put_bytes(Blocks256Record::quads * 4 + at, q);
        sum = hn::Add(sum, q);
      }
      sums16[half] = hn::GetLane(hn::SumOfLanes(di, sum));
    }
    const auto pair = [](int32_t low, int32_t high) {
      return static_cast<int32_t>(static_cast<uint32_t>(low) & 0xffff) | static_cast<int32_t>(static_cast<uint32_t>(high) << 16);
    };
    for (size_t run = 0; run < 8; ++run) {
      sums32[run] = sums16[2 * run] + sums16[2 * run + 1];
      record.put(Blocks256Record::sums16 + run, pair(sums16[2 * run], sums16[2 * run + 1]));
    }
    for (size_t i = 0; i < 4; ++i) record.put(Blocks256Record::sums32 + i, pair(sums32[2 * i], sums32[2 * i + 1]));
    record.put(Blocks256Record::scale, greatest != 0.0f ? 1.0f / inverse : 0.0f);
    record.next();
  }
}

// A column a record, after `round` has rounded it.
template <class Round>
HWY_INLINE void prepare_floats(const float* x, size_t cols, std::byte* input, Round round) {
  RecordWriter<FloatRecord> record(input);
  for (size_t i = 0; i < cols; i += kLanes) {
    const size_t count = HWY_MIN(kLanes, cols - i);
    HWY_ALIGN float values[kLanes] = {};
    std::memcpy(values, x + i, count * sizeof(float));
    round(values);
    for (size_t j = 0; j < count; ++j) {
      record.put(FloatRecord::value, values[j]);
      record.next();
    }
  }
}

void PrepareF32(const float* x, size_t cols, std::byte* input) { prepare_floats(x, cols, input, [](float*) {}); }

void PrepareF16(const float* x, size_t cols, std::byte* input) {
  prepare_floats(x, cols, input, [](float* values) HWY_ATTR { round_to_f16(values, kLanes); });
}

// Rounded to nearest even; the lower 16 bits become zero.
void PrepareBf16(const float* x, size_t cols, std::byte* input) {
  prepare_floats(x, cols, input, [](float* values) HWY_ATTR {
    const hn::RebindToUnsigned<Floats> du;
    const auto bits = hn::BitCast(du, hn::Load(Floats(), values));
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
    hn::Store(hn::BitCast(Floats(), hn::And(rounded, hn::Set(du, 0xffff0000))), Floats(), values);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stemma::kernels {

HWY_EXPORT(PrepareBlocks32);
HWY_EXPORT(PrepareBlocks256);
HWY_EXPORT(PrepareF32);
HWY_EXPORT(PrepareF16);
HWY_EXPORT(PrepareBf16);

namespace {

void prepare_input(InputForm form, const float* x, std::size_t cols, std::byte* input) {
  switch (form) {
    case InputForm::blocks32: return HWY_DYNAMIC_DISPATCH(PrepareBlocks32)(x, cols, input);
    case InputForm::blocks256: return HWY_DYNAMIC_DISPATCH(PrepareBlocks256)(x, cols, input);
    case InputForm::f32: return HWY_DYNAMIC_DISPATCH(PrepareF32)(x, cols, input);
    case InputForm::f16: return HWY_DYNAMIC_DISPATCH(PrepareF16)(x, cols, input);
    case InputForm::bf16: return HWY_DYNAMIC_DISPATCH(PrepareBf16)(x, cols, input);
  }
}

// The sizes of a form's records.
struct RecordSizes {
  std::size_t group, columns, bytes;  // of one input
};

template <class Record>
constexpr RecordSizes sizes_of() {
  return {Record::group, Record::columns, record_bytes<Record>};
}

constexpr RecordSizes record_sizes(InputForm form) {
  switch (form) {
    case InputForm::blocks32: return sizes_of<Blocks32Record>();
    case InputForm::blocks256: return sizes_of<Blocks256Record>();
    case InputForm::f32:
    case InputForm::f16:
    case InputForm::bf16: break;
  }
  return sizes_of<FloatRecord>();
}

}  // namespace

std::size_t input_group(InputForm form) { return record_sizes(form).group; }

std::size_t prepared_group_bytes(InputForm form, std::size_t cols) {
  const RecordSizes sizes = record_sizes(form);
  return (cols / sizes.columns * sizes.group * sizes.bytes + 63) / 64 * 64;
}

void prepare_inputs(InputForm form, const float* x, std::size_t x_stride, std::size_t count, std::size_t cols,
                    std::byte* group) {
  const std::size_t bytes = record_sizes(form).bytes;
  for (std::size_t i = 0; i < count; ++i) prepare_input(form, x + i * x_stride, cols, group + i * bytes);
}

}  // namespace stemma::kernels
#endif  // HWY_ONCE
