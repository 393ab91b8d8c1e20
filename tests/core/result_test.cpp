#include "core/result.h"

#include <gtest/gtest.h>

namespace stemma {
namespace {

TEST(Result, AnErrorFillsTheFieldsOfItsPattern) {
  const Error error = make_error(ErrorCode::request_token_out_of_range,
                                 {{"size", "4096"}, {"token", "9999"}, {"position", "3"}});
  EXPECT_EQ(error.code(), ErrorCode::request_token_out_of_range);
  EXPECT_EQ(error.message(), "token 9999 at position 3 is outside the vocabulary of 4096");
  EXPECT_EQ(error.to_string(),
            "[request_token_out_of_range] token 9999 at position 3 is outside the vocabulary of 4096");
}

TEST(Result, AFieldWithoutAValueStaysAsWritten) {
  EXPECT_EQ(make_error(ErrorCode::gguf_not_found, {{"file", "a.gguf"}}).message(), "cannot open a.gguf: {reason}");
}

TEST(Result, BracesInAValueAreText) {
  EXPECT_EQ(make_error(ErrorCode::gguf_not_found, {{"file", "{reason}"}, {"reason", "gone"}}).message(),
            "cannot open {reason}: gone");
}

Result<int> half(int value) {
  if (value % 2 != 0) return fail(ErrorCode::request_prompt_empty);
  return value / 2;
}

Result<int> quarter(int value) {
  STEMMA_TRY(const int h, half(value));
  return half(h);
}

Status is_multiple_of_four(int value) {
  STEMMA_CHECK(quarter(value));
  return {};
}

TEST(Result, TryPassesValuesOnAndReturnsErrors) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_FALSE(quarter(7).has_value());
  EXPECT_FALSE(quarter(6).has_value());
  EXPECT_TRUE(is_multiple_of_four(4).has_value());
  EXPECT_EQ(is_multiple_of_four(6).error().code(), ErrorCode::request_prompt_empty);
}

}  // namespace
}  // namespace stemma
