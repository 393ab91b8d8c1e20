#include "support/gguf_edit.h"

#include <ggml.h>
#include <gguf.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>

namespace stemma::test {
namespace {

using GgmlContext = std::unique_ptr<ggml_context, decltype(&ggml_free)>;

}  // namespace

void GgufEdit::FreeGguf::operator()(gguf_context* context) const { gguf_free(context); }

GgufEdit::GgufEdit(const std::string& path) {
  ggml_context* data = nullptr;
  keys_.reset(gguf_init_from_file(path.c_str(), {.no_alloc = false, .ctx = &data}));
  if (!keys_) throw std::runtime_error("cannot read " + path);
  const GgmlContext owner(data, ggml_free);
  for (std::int64_t i = 0; i < gguf_get_n_tensors(keys_.get()); ++i) {
    const std::string name = gguf_get_tensor_name(keys_.get(), i);
    const ggml_tensor* tensor = ggml_get_tensor(data, name.c_str());
    const auto* bytes = static_cast<const std::byte*>(tensor->data);
    tensors_.push_back({name, tensor->type, {tensor->ne, tensor->ne + ggml_n_dims(tensor)},
                        {bytes, bytes + ggml_nbytes(tensor)}});
  }
  // Only the keys: the tensors are described again when they are written.
  Keys keys(gguf_init_empty());
  gguf_set_kv(keys.get(), keys_.get());
  keys_ = std::move(keys);
}

std::vector<GgufEdit::Tensor>::iterator GgufEdit::find(const std::string& name) {
  const auto found = std::ranges::find(tensors_, name, &Tensor::name);
  if (found == tensors_.end()) throw std::runtime_error("no tensor " + name);
  return found;
}

void GgufEdit::remove_key(const std::string& key) {
  if (gguf_remove_key(keys_.get(), key.c_str()) < 0) throw std::runtime_error("no key " + key);
}

void GgufEdit::rename(const std::string& from, const std::string& to) { find(from)->name = to; }

void GgufEdit::remove(const std::string& name) { tensors_.erase(find(name)); }

void GgufEdit::add(const std::string& name, std::vector<std::int64_t> shape, std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  tensors_.push_back({name, GGML_TYPE_F32, std::move(shape), {bytes.begin(), bytes.end()}});
}

void GgufEdit::set_type(const std::string& name, int type) { find(name)->type = type; }

void GgufEdit::nudge_vectors(std::uint32_t seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(seed);
  for (Tensor& tensor : tensors_) {
    if (tensor.type != GGML_TYPE_F32 || tensor.shape.size() != 1) continue;
    for (std::size_t at = 0; at < tensor.data.size(); at += sizeof(float)) {
      float value;
      std::memcpy(&value, &tensor.data[at], sizeof value);
      value = std::nextafter(value, random() % 2 == 0 ? kInfinity : -kInfinity);
      std::memcpy(&tensor.data[at], &value, sizeof value);
    }
  }
}

void GgufEdit::copy(const std::string& from, const std::string& to) {
  Tensor tensor = *find(from);
  tensor.name = to;
  tensors_.push_back(std::move(tensor));
}

void GgufEdit::fuse(const std::vector<std::string>& names, const std::string& to) {
  for (std::size_t i = 1; i < names.size(); ++i) {
    const Tensor part = *find(names[i]);
    remove(names[i]);
    Tensor& whole = *find(names[0]);
    whole.shape[1] += part.shape[1];
    whole.data.insert(whole.data.end(), part.data.begin(), part.data.end());
  }
  rename(names[0], to);
}

void GgufEdit::write_tensors(gguf_context* out, std::span<const Tensor> tensors, const std::string& path) {
  const GgmlContext descriptions(ggml_init({.mem_size = (tensors.size() + 1) * ggml_tensor_overhead(),
                                            .mem_buffer = nullptr,
                                            .no_alloc = true}),
                                 ggml_free);
  for (const Tensor& tensor : tensors) {
    ggml_tensor* description =
        ggml_new_tensor(descriptions.get(), static_cast<ggml_type>(tensor.type),
                        static_cast<int>(tensor.shape.size()), tensor.shape.data());
    ggml_set_name(description, tensor.name.c_str());
    description->data = const_cast<std::byte*>(tensor.data.data());
    gguf_add_tensor(out, description);
  }
  if (!gguf_write_to_file(out, path.c_str(), false)) throw std::runtime_error("cannot write " + path);
}

std::string GgufEdit::write(const std::string& path) const {
  const Keys out(gguf_init_empty());
  gguf_set_kv(out.get(), keys_.get());
  write_tensors(out.get(), tensors_, path);
  return path;
}

std::string GgufEdit::write_split(const std::string& stem, std::size_t parts) const {
  const auto path_of = [&](std::size_t part) {
    char suffix[64];
    std::snprintf(suffix, sizeof suffix, "-%05zu-of-%05zu.gguf", part + 1, parts);
    return stem + suffix;
  };
  const std::size_t each = (tensors_.size() + parts - 1) / parts;
  for (std::size_t part = 0; part < parts; ++part) {
    const Keys out(gguf_init_empty());
    if (part == 0) gguf_set_kv(out.get(), keys_.get());
    gguf_set_val_u16(out.get(), "split.no", static_cast<std::uint16_t>(part));
    gguf_set_val_u16(out.get(), "split.count", static_cast<std::uint16_t>(parts));
    gguf_set_val_i32(out.get(), "split.tensors.count", static_cast<std::int32_t>(tensors_.size()));
    const std::size_t first = std::min(part * each, tensors_.size());
    const std::size_t count = std::min(each, tensors_.size() - first);
    write_tensors(out.get(), std::span(tensors_).subspan(first, count), path_of(part));
  }
  return path_of(0);
}

}  // namespace stemma::test
