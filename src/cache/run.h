#pragma once
// A growing run of small values behind one pointer; whoever has it knows how
// many there are. It grows by an eighth at a time: amortized O(1) appends, at
// most 12.5 % (or 3 values) unused.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

namespace stemma {

template <class T>
class Run {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static std::size_t capacity(std::size_t size) {
    constexpr std::size_t kLeast = 4;
    const std::size_t step = std::max(kLeast, std::bit_floor(size | 1) / 8);
    return (size + step - 1) / step * step;
  }

  const T* data() const { return values_.get(); }
  T* data() { return values_.get(); }

  void assign(std::span<const T> values) {
    std::unique_ptr<T[]> made(values.empty() ? nullptr : new T[capacity(values.size())]);
    std::copy(values.begin(), values.end(), made.get());
    values_ = std::move(made);
  }
  // [0, size) stay; `values` come behind them.
  void append(std::size_t size, std::span<const T> values) {
    resize(size, size + values.size());
    std::copy(values.begin(), values.end(), values_.get() + size);
  }
  // The first min(size, to) stay; values behind them are not set.
  void resize(std::size_t size, std::size_t to) {
    if (size > 0 && capacity(to) == capacity(size)) return;
    std::unique_ptr<T[]> moved(to == 0 ? nullptr : new T[capacity(to)]);
    std::copy_n(values_.get(), std::min(size, to), moved.get());
    values_ = std::move(moved);
  }

 private:
  std::unique_ptr<T[]> values_;
};

}  // namespace stemma
