#include "compute/dtype.h"

#include <cctype>
#include <string>

#include <gtest/gtest.h>

#include "ggml-cpu.h"
#include "ggml.h"

namespace stemma {
namespace {

// The table has exactly ggml's types, with ggml's sizes and names.
TEST(DType, AgreesWithGgml) {
  for (int number = 0; number < GGML_TYPE_COUNT; ++number) {
    const auto type = static_cast<ggml_type>(number);
    const TypeInfo* info = find_type(static_cast<std::uint32_t>(number));
    ASSERT_EQ(info != nullptr, ggml_blck_size(type) != 0) << number;
    if (info == nullptr) continue;
    std::string name = ggml_type_name(type);
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    EXPECT_EQ(info->name, name);
    EXPECT_EQ(info->block, ggml_blck_size(type)) << name;
    EXPECT_EQ(info->block_bytes, ggml_type_size(type)) << name;
    EXPECT_EQ(info->multipliable, ggml_get_type_traits_cpu(type)->vec_dot != nullptr) << name;
    EXPECT_EQ(row_bytes(info->type, 4 * info->block), ggml_row_size(type, 4 * info->block)) << name;
  }
  EXPECT_EQ(find_type(GGML_TYPE_COUNT), nullptr);
  EXPECT_EQ(find_type(0xffffffff), nullptr);
}

}  // namespace
}  // namespace stemma
