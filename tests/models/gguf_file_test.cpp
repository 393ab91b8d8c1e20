// Files that GgufFile must refuse, each with its code, and what it reads from good ones.

#include "models/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/gguf_bytes.h"
#include "support/test_models.h"

namespace stemma {
namespace {

using test::GgufBytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ8_0 = 8;

std::string file_of(const GgufBytes& bytes, const std::string& name = "case.gguf") {
  const std::string path = test::temporary_directory() + "/" + name;
  test::write_file(path, bytes.bytes());
  return path;
}

// The architecture, which every file needs; `more_keys` keys are still to come.
GgufBytes with_architecture(std::uint64_t tensors, std::uint64_t more_keys) {
  GgufBytes bytes;
  bytes.start(tensors, 1 + more_keys).string_key("general.architecture", "llama");
  return bytes;
}

void expect_error(const GgufBytes& bytes, ErrorCode code, const std::string& part_of_message = "") {
  const auto file = GgufFile::open(file_of(bytes));
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code(), code) << file.error().to_string();
  EXPECT_THAT(file.error().message(), HasSubstr(part_of_message));
}

TEST(GgufFile, ReadsMetadataAndTensors) {
  auto bytes = with_architecture(2, 5);
  bytes.string("a.u8").u32(0).number<std::uint8_t>(200);
  bytes.string("a.f32").u32(6).number(0.5f);
  bytes.string("a.flag").u32(7).number<std::uint8_t>(1);
  bytes.string("a.list").u32(9).u32(5).u64(3).number<std::int32_t>(-1).number<std::int32_t>(2).number<std::int32_t>(3);
  bytes.string("a.words").u32(9).u32(8).u64(2).string("one").string("");
  bytes.tensor("first", 4, 2, kF32, 0).tensor("second", 32, 1, kQ8_0, 32).pad().zeros(66);
  const auto opened = GgufFile::open(file_of(bytes));
  ASSERT_TRUE(opened.has_value()) << opened.error().to_string();
  const GgufFile& file = **opened;

  EXPECT_EQ(file.architecture(), "llama");
  EXPECT_EQ(file.find_int("a.u8").value(), 200);
  EXPECT_EQ(file.find_float("a.f32").value(), 0.5);
  EXPECT_EQ(file.find_float("a.u8").value(), 200.0);
  EXPECT_EQ(file.find_bool("a.flag").value(), true);
  EXPECT_THAT(file.find_ints("a.list").value().value(), ElementsAre(-1, 2, 3));
  EXPECT_THAT(file.find_ints("a.u8").value().value(), ElementsAre(200));
  EXPECT_THAT(file.find_strings("a.words").value().value(), ElementsAre("one", ""));
  EXPECT_EQ(file.find_int("a.absent").value(), std::nullopt);
  EXPECT_EQ(file.find_int("a.words").error().code(), ErrorCode::gguf_bad_metadata);
  EXPECT_EQ(file.find_int("a.f32").error().code(), ErrorCode::gguf_bad_metadata);
  EXPECT_EQ(file.find_int("a.list").error().code(), ErrorCode::gguf_bad_metadata);
  EXPECT_EQ(file.find_string("a.u8").error().code(), ErrorCode::gguf_bad_metadata);
  EXPECT_EQ(file.find_bool("a.u8").error().code(), ErrorCode::gguf_bad_metadata);

  ASSERT_EQ(file.tensors().size(), 2u);
  const GgufTensor* second = file.find_tensor("second");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->bytes, 34u);
  EXPECT_EQ(second->data - file.tensors()[0].data, 32);
  EXPECT_EQ(file.tensors()[0].matrix().cols, 4);
  EXPECT_EQ(file.tensors()[0].matrix().rows, 2);
  EXPECT_EQ(file.find_tensor("third"), nullptr);
}

TEST(GgufFile, NamesWhatCannotBeOpened) {
  const auto code = [](const std::string& path) { return GgufFile::open(path).error().code(); };
  EXPECT_EQ(code("no/such/file.gguf"), ErrorCode::gguf_not_found);
  EXPECT_EQ(code(test::temporary_directory()), ErrorCode::gguf_not_found);
  EXPECT_EQ(code("/dev/zero"), ErrorCode::gguf_not_found);
}

TEST(GgufFile, RefusesOtherFormats) {
  expect_error(GgufBytes(), ErrorCode::gguf_bad_magic);
  expect_error(GgufBytes().raw("PK\x03\x04 and more"), ErrorCode::gguf_bad_magic, "PK\\x03\\x04");
  expect_error(GgufBytes().start(0, 0, 1), ErrorCode::gguf_unsupported_version);
  expect_error(GgufBytes().start(0, 0, 4), ErrorCode::gguf_unsupported_version);
  expect_error(GgufBytes().start(0, 0, 0x03000000), ErrorCode::gguf_big_endian);
}

TEST(GgufFile, ReadsVersion2) {
  GgufBytes bytes;
  bytes.start(0, 1, 2).string_key("general.architecture", "qwen3");
  EXPECT_TRUE(GgufFile::open(file_of(bytes)).has_value());
}

// Each count or length claims more than the file has; none may lead to an allocation of that size.
TEST(GgufFile, RefusesCountsBeyondItsEnd) {
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  expect_error(GgufBytes().start(kHuge, 0), ErrorCode::gguf_truncated);
  expect_error(GgufBytes().start(0, kHuge), ErrorCode::gguf_truncated);
  expect_error(GgufBytes().start(0, 1).u64(kHuge).zeros(64), ErrorCode::gguf_truncated);
  expect_error(GgufBytes().start(0, 1).string("key").u32(8).u64(kHuge - 7).zeros(64), ErrorCode::gguf_truncated);
  for (const std::uint32_t kind : {0u, 4u, 7u, 8u, 12u}) {
    expect_error(GgufBytes().start(0, 1).string("key").u32(9).u32(kind).u64(kHuge / 4).zeros(64),
                 ErrorCode::gguf_truncated);
  }
}

TEST(GgufFile, RefusesBadMetadata) {
  auto twice = with_architecture(0, 2);
  twice.u32_key("x", 1).u32_key("x", 1);
  expect_error(twice, ErrorCode::gguf_bad_metadata, "twice");
  auto nested = with_architecture(0, 1);
  nested.string("x").u32(9).u32(9).u64(1).u32(4).u64(1).u32(1);
  expect_error(nested, ErrorCode::gguf_bad_metadata, "arrays of arrays");
  auto unknown = with_architecture(0, 1);
  unknown.string("x").u32(13).u64(0);
  expect_error(unknown, ErrorCode::gguf_bad_metadata, "unknown");
  auto boolean = with_architecture(0, 1);
  boolean.string("x").u32(7).number<std::uint8_t>(2);
  expect_error(boolean, ErrorCode::gguf_bad_metadata, "boolean");
  auto zero_byte = with_architecture(0, 1);
  zero_byte.u32_key(std::string_view("x\0y", 3), 1);
  expect_error(zero_byte, ErrorCode::gguf_bad_metadata, "x\\x00y");
  expect_error(GgufBytes().start(0, 1).u32_key("x", 1), ErrorCode::gguf_bad_metadata, "general.architecture");
  expect_error(GgufBytes().start(0, 1).u32_key("general.architecture", 1), ErrorCode::gguf_bad_metadata);
  for (const std::uint32_t alignment : {0u, 1u, 4u, 24u, 1u << 30}) {
    auto bytes = with_architecture(0, 1);
    bytes.u32_key("general.alignment", alignment);
    expect_error(bytes, ErrorCode::gguf_bad_metadata, "alignment");
  }
}

TEST(GgufFile, RefusesBadTensors) {
  const auto one = [](auto describe, std::size_t data) {
    auto bytes = with_architecture(1, 0);
    describe(bytes);
    bytes.pad().zeros(data);
    return bytes;
  };
  const auto refuse = [&](auto describe, ErrorCode code) { expect_error(one(describe, 64), code); };
  refuse([](GgufBytes& b) { b.tensor("t", 4, 2, 999, 0); }, ErrorCode::gguf_bad_tensor);
  refuse([](GgufBytes& b) { b.tensor("t", 4, 2, 4, 0); }, ErrorCode::gguf_bad_tensor);  // Q4_2, removed
  refuse([](GgufBytes& b) { b.tensor("t", 0, 2, kF32, 0); }, ErrorCode::gguf_bad_tensor);
  refuse([](GgufBytes& b) { b.tensor("t", 4, 0, kF32, 0); }, ErrorCode::gguf_bad_tensor);
  refuse([](GgufBytes& b) { b.tensor("t", ~std::uint64_t{0}, 2, kF32, 0); }, ErrorCode::gguf_bad_tensor);
  refuse([](GgufBytes& b) { b.tensor("t", 1ull << 32, 1ull << 32, kF32, 0); }, ErrorCode::gguf_bad_tensor);
  refuse([](GgufBytes& b) { b.tensor("t", 1ull << 31, 1ull << 31, kF32, 0); }, ErrorCode::gguf_bad_tensor);
  refuse([](GgufBytes& b) { b.tensor("t", 1ull << 30, 1ull << 30, kF32, 0); }, ErrorCode::gguf_truncated);
  refuse([](GgufBytes& b) { b.tensor("t", 33, 1, kQ8_0, 0); }, ErrorCode::gguf_bad_tensor);
  refuse([](GgufBytes& b) { b.tensor("t", 4, 2, kF32, 8); }, ErrorCode::gguf_bad_tensor);
  refuse([](GgufBytes& b) { b.tensor("t", 4, 2, kF32, 64); }, ErrorCode::gguf_truncated);
  refuse([](GgufBytes& b) { b.tensor("t", 4, 2, kF32, ~std::uint64_t{31}); }, ErrorCode::gguf_truncated);
  refuse([](GgufBytes& b) { b.tensor("", 4, 2, kF32, 0); }, ErrorCode::gguf_bad_tensor);
  refuse([](GgufBytes& b) { b.tensor(std::string(65, 'n'), 4, 2, kF32, 0); }, ErrorCode::gguf_bad_tensor);
  refuse([](GgufBytes& b) { b.tensor(std::string_view("t\0", 2), 4, 2, kF32, 0); }, ErrorCode::gguf_bad_tensor);
  refuse([](GgufBytes& b) { b.string("t").u32(0).u32(kF32).u64(0).zeros(16); }, ErrorCode::gguf_bad_tensor);
  refuse([](GgufBytes& b) { b.string("t").u32(5).zeros(64); }, ErrorCode::gguf_bad_tensor);

  auto twice = with_architecture(2, 0);
  twice.tensor("t", 4, 2, kF32, 0).tensor("t", 4, 2, kF32, 32).pad().zeros(64);
  expect_error(twice, ErrorCode::gguf_bad_tensor, "twice");
  auto overlap = with_architecture(2, 0);
  overlap.tensor("t", 16, 1, kF32, 0).tensor("u", 4, 2, kF32, 32).pad().zeros(64);
  expect_error(overlap, ErrorCode::gguf_bad_tensor, "overlaps");
}

TEST(GgufFile, RefusesEveryTruncation) {
  auto bytes = with_architecture(1, 2);
  bytes.u32_key("general.alignment", 64).string("words").u32(9).u32(8).u64(2).string("one").string("two");
  bytes.tensor("t", 4, 2, kF32, 0).pad(64).zeros(32);
  ASSERT_TRUE(GgufFile::open(file_of(bytes)).has_value());
  for (std::size_t size = 0; size < bytes.bytes().size(); ++size) {
    GgufBytes cut;
    cut.raw(std::string_view(bytes.bytes()).substr(0, size));
    expect_error(cut, size < 4 ? ErrorCode::gguf_bad_magic : ErrorCode::gguf_truncated);
  }
}

// ----- split files -------------------------------------------------------------------------------------------

GgufBytes part(std::uint16_t number, std::uint16_t count, const std::string& tensor, int total = 2) {
  GgufBytes bytes;
  bytes.start(1, number == 0 ? 4 : 2);
  bytes.string("split.no").u32(2).number(number);
  bytes.string("split.count").u32(2).number(count);
  if (number == 0) {
    bytes.string("split.tensors.count").u32(5).number<std::int32_t>(total);
    bytes.string_key("general.architecture", "llama");
  }
  bytes.tensor(tensor, 4, 2, kF32, 0).pad().zeros(32);
  return bytes;
}

class SplitFile : public ::testing::Test {
 protected:
  void SetUp() override {
    second_ = test::temporary_directory() + "/m-00002-of-00002.gguf";
    std::filesystem::remove(second_);
  }
  Result<std::shared_ptr<const GgufFile>> open(const GgufBytes& first, const GgufBytes& second) {
    file_of(second, "m-00002-of-00002.gguf");
    return GgufFile::open(file_of(first, "m-00001-of-00002.gguf"));
  }
  void expect_incomplete(const Result<std::shared_ptr<const GgufFile>>& file) {
    ASSERT_FALSE(file.has_value());
    EXPECT_EQ(file.error().code(), ErrorCode::gguf_split_incomplete) << file.error().to_string();
  }
  std::string second_;
};

TEST_F(SplitFile, OpensAllParts) {
  const auto file = open(part(0, 2, "t"), part(1, 2, "u"));
  ASSERT_TRUE(file.has_value()) << file.error().to_string();
  EXPECT_EQ((*file)->tensors().size(), 2u);
  EXPECT_NE((*file)->find_tensor("u"), nullptr);
}

TEST_F(SplitFile, RefusesWrongParts) {
  expect_incomplete(GgufFile::open(file_of(part(0, 2, "t"), "m-00001-of-00002.gguf")));  // the second is missing
  expect_incomplete(GgufFile::open(file_of(part(0, 2, "t"), "renamed.gguf")));
  expect_incomplete(GgufFile::open(file_of(part(1, 2, "t"), "other-00002-of-00002.gguf")));
  expect_incomplete(open(part(0, 2, "t"), part(0, 2, "u")));  // the first again
  expect_incomplete(open(part(0, 2, "t"), part(1, 3, "u")));
  expect_incomplete(open(part(0, 2, "t", 5), part(1, 2, "u")));
  expect_incomplete(open(part(0, 0, "t"), part(1, 2, "u")));
  const auto twice = open(part(0, 2, "t"), part(1, 2, "t"));
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error().code(), ErrorCode::gguf_bad_tensor);
}

}  // namespace
}  // namespace stemma
