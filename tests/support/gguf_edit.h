#pragma once
// A model file taken apart and written again with changes: what other exporters' files look like.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct gguf_context;

namespace stemma::test {

class GgufEdit {
 public:
  // Reads all of `path`, a file that GgufFile accepts. Throws std::runtime_error.
  explicit GgufEdit(const std::string& path);

  // The metadata, for gguf.h's setters.
  gguf_context* keys() { return keys_.get(); }
  void remove_key(const std::string& key);

  void rename(const std::string& from, const std::string& to);
  void remove(const std::string& name);
  void add(const std::string& name, std::vector<std::int64_t> shape, std::span<const float> values);
  // Calls the elements another type of the same size; `type` is ggml's number.
  void set_type(const std::string& name, int type);
  // Moves every number of the f32 vectors (norms, biases, gates) by one unit in the last place, up or
  // down at random.
  void nudge_vectors(std::uint32_t seed);
  // A copy of tensor `from` under another name.
  void copy(const std::string& from, const std::string& to);
  // Joins matrices over the same inputs into one, in place of the first.
  void fuse(const std::vector<std::string>& names, const std::string& to);

  // Writes the file and returns `path`; or the same in `parts` parts, returning the first's path (`path` is their stem).
  std::string write(const std::string& path) const;
  std::string write_split(const std::string& stem, std::size_t parts) const;

 private:
  struct Tensor {
    std::string name;
    int type;  // ggml_type
    std::vector<std::int64_t> shape;
    std::vector<std::byte> data;
  };
  struct FreeGguf {
    void operator()(gguf_context* context) const;
  };
  using Keys = std::unique_ptr<gguf_context, FreeGguf>;

  std::vector<Tensor>::iterator find(const std::string& name);
  static void write_tensors(gguf_context* out, std::span<const Tensor> tensors, const std::string& path);

  Keys keys_;
  std::vector<Tensor> tensors_;
};

}  // namespace stemma::test
