#pragma once
// Vectors by dense numbers that grow by an eighth at a time: amortized O(1) like std::vector's own
// doubling, and at most 12.5 % unused.

#include <cstddef>
#include <vector>

namespace stemma {

// Makes the vector have `size` elements at least; new ones as given, or as made by default.
template <class T, class... Value>
void grow_to(std::vector<T>& values, std::size_t size, const Value&... value) {
  if (size <= values.size()) return;
  if (size > values.capacity()) values.reserve(size + size / 8);
  values.resize(size, value...);
}

template <class T>
void push(std::vector<T>& values, const T& value) {
  if (values.size() == values.capacity()) values.reserve(values.size() + values.size() / 8 + 1);
  values.push_back(value);
}

template <class T>
std::size_t bytes_of(const std::vector<T>& values) {
  return values.capacity() * sizeof(T);
}

}  // namespace stemma
