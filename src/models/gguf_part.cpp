#include "models/gguf_part.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>

#include "compute/dtype.h"

namespace stemma {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read as they lie in the file");

constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxAlignment = 1 << 20;
constexpr std::uint64_t kMaxNameBytes = 64;    // the format's limit for tensor names
constexpr std::uint64_t kMaxKeyBytes = 65535;  // the format's limit for keys
constexpr std::uint64_t kMinKeyBytes = 8 + 4 + 1;             // empty name, kind, one byte of value
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;  // empty name, one dimension
constexpr std::uint32_t kMaxDimensions = 4;

// Bytes of one element; nullopt for strings and arrays, whose elements vary.
std::optional<std::uint64_t> fixed_size(GgufKind kind) {
  switch (kind) {
    case GgufKind::u8:
    case GgufKind::i8:
    case GgufKind::boolean: return 1;
    case GgufKind::u16:
    case GgufKind::i16: return 2;
    case GgufKind::u32:
    case GgufKind::i32:
    case GgufKind::f32: return 4;
    case GgufKind::u64:
    case GgufKind::i64:
    case GgufKind::f64: return 8;
    case GgufKind::string:
    case GgufKind::array: return std::nullopt;
  }
  return std::nullopt;
}

template <class T>
T read_at(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

}  // namespace

std::optional<std::int64_t> read_int(const GgufValue& value, std::uint64_t i) {
  switch (value.kind) {
    case GgufKind::u8:
    case GgufKind::boolean: return read_at<std::uint8_t>(value.data + i);
    case GgufKind::i8: return read_at<std::int8_t>(value.data + i);
    case GgufKind::u16: return read_at<std::uint16_t>(value.data + 2 * i);
    case GgufKind::i16: return read_at<std::int16_t>(value.data + 2 * i);
    case GgufKind::u32: return read_at<std::uint32_t>(value.data + 4 * i);
    case GgufKind::i32: return read_at<std::int32_t>(value.data + 4 * i);
    case GgufKind::i64: return read_at<std::int64_t>(value.data + 8 * i);
    case GgufKind::u64: {
      const auto wide = read_at<std::uint64_t>(value.data + 8 * i);
      if (wide > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
      return static_cast<std::int64_t>(wide);
    }
    default: return std::nullopt;
  }
}

std::optional<double> read_float(const GgufValue& value, std::uint64_t i) {
  switch (value.kind) {
    case GgufKind::f32: return read_at<float>(value.data + 4 * i);
    case GgufKind::f64: return read_at<double>(value.data + 8 * i);
    case GgufKind::u64: return static_cast<double>(read_at<std::uint64_t>(value.data + 8 * i));
    default: break;
  }
  if (const auto integer = read_int(value, i)) return static_cast<double>(*integer);
  return std::nullopt;
}

std::vector<std::string_view> read_strings(const GgufValue& value) {
  std::vector<std::string_view> strings;
  strings.reserve(value.count);
  const std::byte* at = value.data;
  for (std::uint64_t i = 0; i < value.count; ++i) {
    const auto length = read_at<std::uint64_t>(at);
    strings.emplace_back(reinterpret_cast<const char*>(at + 8), length);
    at += 8 + length;
  }
  return strings;
}

std::string printable(std::string_view text) {
  constexpr std::size_t kShown = 64;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  if (text.size() > kShown) out += "...";
  return out;
}

// Reads forward through the bytes before the data section. Every read is checked against what is left.
class GgufPart::Parser {
 public:
  explicit Parser(GgufPart& part) : part_(part), bytes_(part.file_.bytes()) {}

  Status parse() {
    STEMMA_CHECK(parse_start());
    STEMMA_CHECK(parse_metadata());
    STEMMA_CHECK(parse_alignment());
    STEMMA_CHECK(parse_tensors());
    return check_overlap();
  }

 private:
  std::uint64_t left() const { return bytes_.size() - at_; }

  tl::unexpected<Error> truncated(std::string what) const {
    return fail(ErrorCode::gguf_truncated,
                {{"file", part_.path_}, {"size", std::to_string(bytes_.size())}, {"what", std::move(what)}});
  }
  tl::unexpected<Error> bad_key(std::string_view key, std::string reason) const {
    return fail(ErrorCode::gguf_bad_metadata,
                {{"file", part_.path_}, {"key", printable(key)}, {"reason", std::move(reason)}});
  }
  tl::unexpected<Error> bad_tensor(std::string_view name, std::string reason) const {
    return fail(ErrorCode::gguf_bad_tensor,
                {{"file", part_.path_}, {"tensor", printable(name)}, {"reason", std::move(reason)}});
  }

  template <class T>
  Result<T> take(const char* what) {
    if (left() < sizeof(T)) return truncated(what);
    const T value = read_at<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return value;
  }

  Result<std::string_view> take_string(const char* what) {
    STEMMA_TRY(const auto length, take<std::uint64_t>(what));
    if (left() < length) return truncated(what);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + at_), length);
    at_ += length;
    return text;
  }

  Status parse_start() {
    const std::string_view start(reinterpret_cast<const char*>(bytes_.data()),
                                 std::min<std::size_t>(4, bytes_.size()));
    if (start != "GGUF") {
      const std::string found = start.empty() ? "nothing (it is empty)" : printable(start);
      return fail(ErrorCode::gguf_bad_magic, {{"file", part_.path_}, {"found", found}});
    }
    at_ = 4;
    STEMMA_TRY(const auto version, take<std::uint32_t>("the version"));
    if (version != 0 && (version & 0xffff) == 0) {
      return fail(ErrorCode::gguf_big_endian, {{"file", part_.path_}});
    }
    if (version != 2 && version != 3) {
      return fail(ErrorCode::gguf_unsupported_version,
                  {{"file", part_.path_}, {"version", std::to_string(version)}});
    }
    STEMMA_TRY(tensor_count_, take<std::uint64_t>("the number of tensors"));
    STEMMA_TRY(key_count_, take<std::uint64_t>("the number of metadata keys"));
    if (key_count_ > left() / kMinKeyBytes) {
      return truncated("its " + std::to_string(key_count_) + " metadata keys");
    }
    if (tensor_count_ > left() / kMinTensorBytes) {
      return truncated("the descriptions of its " + std::to_string(tensor_count_) + " tensors");
    }
    return {};
  }

  Status parse_metadata() {
    for (std::uint64_t i = 0; i < key_count_; ++i) {
      STEMMA_TRY(const auto key, take_string("the end of the metadata"));
      if (key.empty() || key.size() > kMaxKeyBytes || key.find('\0') != std::string_view::npos) {
        return bad_key(key, "a key has 1 to 65535 bytes, none of them zero");
      }
      STEMMA_TRY(const auto value, take_value(key));
      if (!part_.metadata_.emplace(key, value).second) return bad_key(key, "it appears twice");
    }
    return {};
  }

  Result<GgufValue> take_value(std::string_view key) {
    STEMMA_TRY(auto kind, take<std::uint32_t>("the end of the metadata"));
    const bool is_array = GgufKind{kind} == GgufKind::array;
    std::uint64_t count = 1;
    if (is_array) {
      STEMMA_TRY(kind, take<std::uint32_t>("the end of the metadata"));
      STEMMA_TRY(count, take<std::uint64_t>("the end of the metadata"));
      if (GgufKind{kind} == GgufKind::array) return bad_key(key, "arrays of arrays are not supported");
    }
    if (kind > static_cast<std::uint32_t>(GgufKind::f64)) {
      return bad_key(key, "its kind " + std::to_string(kind) + " is unknown");
    }
    const GgufValue value{GgufKind{kind}, is_array, count, bytes_.data() + at_};
    if (const auto size = fixed_size(value.kind)) {
      if (count > left() / *size) return truncated("the value of metadata key " + printable(key));
      at_ += count * *size;
    } else {
      if (count > left() / sizeof(std::uint64_t)) {
        return truncated("the value of metadata key " + printable(key));
      }
      for (std::uint64_t i = 0; i < count; ++i) STEMMA_CHECK(take_string("the end of the metadata"));
    }
    if (value.kind == GgufKind::boolean) {
      const bool valid = std::all_of(value.data, value.data + count, [](std::byte b) { return b <= std::byte{1}; });
      if (!valid) return bad_key(key, "a boolean is neither 0 nor 1");
    }
    return value;
  }

  Status parse_alignment() {
    constexpr std::string_view key = "general.alignment";
    const GgufValue* value = part_.find(key);
    if (value == nullptr) return {};
    const auto alignment = value->is_array ? std::nullopt : read_int(*value, 0);
    if (!alignment || *alignment < 8 || static_cast<std::uint64_t>(*alignment) > kMaxAlignment ||
        !std::has_single_bit(static_cast<std::uint64_t>(*alignment))) {
      return bad_key(key, "the alignment must be a power of two from 8 to " + std::to_string(kMaxAlignment));
    }
    alignment_ = static_cast<std::uint64_t>(*alignment);
    return {};
  }

  // A tensor as described; its place is checked once the data section's start is known.
  struct Description {
    GgufTensor tensor;
    std::uint64_t offset;
  };

  Status parse_tensors() {
    std::vector<Description> descriptions;
    descriptions.reserve(tensor_count_);
    std::set<std::string_view> names;
    for (std::uint64_t i = 0; i < tensor_count_; ++i) {
      STEMMA_TRY(auto name, take_string("the end of the tensor descriptions"));
      if (name.empty() || name.size() > kMaxNameBytes || name.find('\0') != std::string_view::npos) {
        return bad_tensor(name, "a tensor's name has 1 to 64 bytes, none of them zero");
      }
      if (!names.insert(name).second) return bad_tensor(name, "it appears twice");
      STEMMA_TRY(auto description, take_description(name));
      descriptions.push_back(std::move(description));
    }
    // A file without tensors may end before the padding.
    const std::uint64_t padding = (alignment_ - at_ % alignment_) % alignment_;
    if (tensor_count_ > 0 && left() < padding) return truncated("the tensor data");
    const std::uint64_t data_start = at_ + std::min(padding, left());
    part_.header_bytes_ = data_start;

    const std::uint64_t data_bytes = bytes_.size() - data_start;
    part_.tensors_.reserve(descriptions.size());
    for (Description& description : descriptions) {
      GgufTensor& tensor = description.tensor;
      if (description.offset % alignment_ != 0) {
        return bad_tensor(tensor.name, "its offset " + std::to_string(description.offset) +
                                           " is not a multiple of the alignment " + std::to_string(alignment_));
      }
      if (description.offset > data_bytes || tensor.bytes > data_bytes - description.offset) {
        return truncated("the end of tensor " + printable(tensor.name));
      }
      tensor.data = bytes_.data() + data_start + description.offset;
      part_.tensors_.push_back(std::move(tensor));
    }
    return {};
  }

  Result<Description> take_description(std::string_view name) {
    const char* what = "the end of the tensor descriptions";
    STEMMA_TRY(const auto dimensions, take<std::uint32_t>(what));
    if (dimensions == 0 || dimensions > kMaxDimensions) {
      return bad_tensor(name, "it has " + std::to_string(dimensions) + " dimensions, not 1 to 4");
    }
    GgufTensor tensor{std::string(name), DType::f32, {}, nullptr, 0};
    std::int64_t elements = 1;
    for (std::uint32_t i = 0; i < dimensions; ++i) {
      STEMMA_TRY(const auto size, take<std::uint64_t>(what));
      const auto extent = static_cast<std::int64_t>(size);
      if (extent <= 0 || __builtin_mul_overflow(elements, extent, &elements)) {
        return bad_tensor(name, "dimension " + std::to_string(i) + " is " + std::to_string(size));
      }
      tensor.shape.push_back(extent);
    }
    STEMMA_TRY(const auto type_number, take<std::uint32_t>(what));
    const TypeInfo* type = find_type(type_number);
    if (type == nullptr) return bad_tensor(name, "its type " + std::to_string(type_number) + " is unknown");
    if (tensor.shape[0] % type->block != 0) {
      return bad_tensor(name, "its rows of " + std::to_string(tensor.shape[0]) + " elements are not whole blocks of " +
                                  std::string(type->name) + " (" + std::to_string(type->block) + " elements)");
    }
    tensor.type = type->type;
    const auto blocks = static_cast<std::uint64_t>(elements / type->block);
    if (__builtin_mul_overflow(blocks, type->block_bytes, &tensor.bytes)) {
      return bad_tensor(name, "its size overflows");
    }
    STEMMA_TRY(const auto offset, take<std::uint64_t>(what));
    return Description{std::move(tensor), offset};
  }

  Status check_overlap() const {
    std::vector<const GgufTensor*> order;
    order.reserve(part_.tensors_.size());
    for (const GgufTensor& tensor : part_.tensors_) order.push_back(&tensor);
    std::ranges::sort(order, {}, &GgufTensor::data);
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (order[i - 1]->data + order[i - 1]->bytes > order[i]->data) {
        return bad_tensor(order[i]->name, "it overlaps tensor " + printable(order[i - 1]->name));
      }
    }
    return {};
  }

  GgufPart& part_;
  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t key_count_ = 0;
  std::uint64_t alignment_ = kDefaultAlignment;
};

Result<GgufPart> GgufPart::open(const std::string& path) {
  STEMMA_TRY(auto file, MappedFile::open(path));
  GgufPart part(path, std::move(file));
  STEMMA_CHECK(Parser(part).parse());
  return part;
}

const GgufValue* GgufPart::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

}  // namespace stemma
