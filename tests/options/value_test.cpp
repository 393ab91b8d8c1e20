#include "options/value.h"

#include <gtest/gtest.h>

namespace stemma {
namespace {

constexpr double kMiB = 1024.0 * 1024;

const ValueRules kInteger{ValueType::integer, -1, 256};
const ValueRules kNumber{ValueType::number, 0, 1};
const ValueRules kBytes{ValueType::bytes, kMiB, 1024 * kMiB};
const ValueRules kToggle{ValueType::toggle};
const ValueRules kChoice{.type = ValueType::choice, .choices = "fcfs lpm"};
const ValueRules kTexts{ValueType::texts};
const ValueRules kIntegers{ValueType::integers, 1, 256};
const ValueRules kChoiceOrForm{
    .type = ValueType::choice,
    .choices = "lru",
    .form = "x:N",
    .has_form = [](std::string_view text) { return text.starts_with("x:"); }};

Result<OptionValue> parse(const ValueRules& rules, const std::string& text) {
  return parse_value(rules, {text}, "--it", "the command line");
}

template <class T>
T value(const ValueRules& rules, const std::string& text) {
  return std::get<T>(parse(rules, text).value());
}

TEST(Value, ReadsNumbersInsideTheirRange) {
  EXPECT_EQ(value<std::int64_t>(kInteger, "256"), 256);
  EXPECT_EQ(value<std::int64_t>(kInteger, "-1"), -1);
  EXPECT_DOUBLE_EQ(value<double>(kNumber, "0.25"), 0.25);
  for (const char* bad : {"257", "-2", "1.5", "12x", "", " 3", "99999999999999999999"}) {
    EXPECT_FALSE(parse(kInteger, bad).has_value()) << bad;
  }
  for (const char* bad : {"1.01", "-0.1", "nan", "x"}) EXPECT_FALSE(parse(kNumber, bad).has_value()) << bad;
}

TEST(Value, ASizeCountsMebibytesWithoutAUnit) {
  for (const char* text : {"512", "512M", "512m", "512MiB", "512MB", "512 MiB", "0.5G", "524288K"}) {
    EXPECT_EQ(value<std::int64_t>(kBytes, text), 512 << 20) << text;
  }
  EXPECT_EQ(value<std::int64_t>(kBytes, "1048576B"), 1 << 20);
  for (const char* bad : {"0", "2G", "512X", "M", "-1", "1.2.3M"}) {
    EXPECT_FALSE(parse(kBytes, bad).has_value()) << bad;
  }
}

TEST(Value, ReadsTogglesChoicesAndLists) {
  EXPECT_TRUE(value<bool>(kToggle, "on"));
  EXPECT_FALSE(value<bool>(kToggle, "False"));
  EXPECT_FALSE(parse(kToggle, "maybe").has_value());
  EXPECT_EQ(value<std::string>(kChoice, "lpm"), "lpm");
  EXPECT_FALSE(parse(kChoice, "LPM").has_value());
  const std::vector<std::string> keys = {"a", "b"};
  EXPECT_EQ(std::get<std::vector<std::string>>(parse_value(kTexts, keys, "--it", "").value()), keys);
}

TEST(Value, AListOfIntegersHasCommasAndMayBeGivenSeveralTimes) {
  using Integers = std::vector<std::int64_t>;
  EXPECT_EQ(value<Integers>(kIntegers, "7"), (Integers{7}));
  EXPECT_EQ(value<Integers>(kIntegers, "1,256,3"), (Integers{1, 256, 3}));
  EXPECT_EQ(std::get<Integers>(parse_value(kIntegers, {"1,2", "3"}, "--it", "").value()),
            (Integers{1, 2, 3}));
  for (const char* bad : {"", ",", "1,", ",1", "1,,2", "0", "257", "1;2", "1 2", "x"}) {
    EXPECT_FALSE(parse(kIntegers, bad).has_value()) << bad;
  }
  EXPECT_EQ(parse_value(kIntegers, {"1", "0"}, "--it", "a file").error().message(),
            "--it is 0 (a file); it must be integers from 1 to 256 with commas between them");
  EXPECT_EQ(display(kIntegers, Integers{1, 2}), "1,2");
}

TEST(Value, AChoiceMayTakeAFormBesides) {
  EXPECT_EQ(value<std::string>(kChoiceOrForm, "lru"), "lru");
  EXPECT_EQ(value<std::string>(kChoiceOrForm, "x:1"), "x:1");
  EXPECT_EQ(parse(kChoiceOrForm, "y").error().message(),
            "--it is y (the command line); it must be lru, or x:N");
}

TEST(Value, TheLastOfSeveralCounts) {
  EXPECT_EQ(std::get<std::int64_t>(parse_value(kInteger, {"1", "2"}, "--it", "").value()), 2);
}

TEST(Value, AMessageNamesTheOptionItsOriginAndWhatIsExpected) {
  EXPECT_EQ(parse(kInteger, "300").error().message(),
            "--it is 300 (the command line); it must be an integer from -1 to 256");
  EXPECT_EQ(parse(kChoice, "").error().message(),
            "--it is empty (the command line); it must be fcfs or lpm");
}

TEST(Value, IsShownAsOneWouldTypeIt) {
  EXPECT_EQ(display(kBytes, std::int64_t{512} << 20), "512.0 MiB");
  EXPECT_EQ(display(kToggle, true), "on");
  EXPECT_EQ(display(kNumber, 0.25), "0.25");
  EXPECT_EQ(display_bytes(0), "0 B");
  EXPECT_EQ(display_bytes(1536.0 * 1024 * 1024), "1.5 GiB");
}

}  // namespace
}  // namespace stemma
