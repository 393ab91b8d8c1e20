#pragma once
// Values of options: their types, from text and to text. Pure functions.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/result.h"

namespace stemma {

using OptionValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>,
                                 std::vector<std::int64_t>>;

enum class ValueType {
  flag,      // bool; on a command line without a value
  toggle,    // bool; "on" or "off"
  integer,   // std::int64_t
  number,    // double
  bytes,     // std::int64_t; "512M", "1.5GiB"; without a unit MiB
  choice,    // std::string, one of the option's choices, or of a form that it takes besides
  text,      // std::string
  texts,     // std::vector<std::string>: may be given several times
  integers,  // std::vector<std::int64_t>: "100,200"; may be given several times
};

// What values an option takes. Bounds count for integer, number, bytes (in bytes) and each of
// integers.
struct ValueRules {
  ValueType type;
  double min = 0;
  double max = 0;
  std::string_view choices = {};  // separated by spaces
  // Of a choice: values beside the choices, as one would write them ("marconi:ALPHA"), and which
  // texts they are.
  std::string_view form = {};
  bool (*has_form)(std::string_view text) = nullptr;
};

// The words of a list separated by spaces.
std::vector<std::string_view> words(std::string_view list);

// In words, for messages and help: "an integer from 1 to 256", "fcfs or lpm".
std::string expected(const ValueRules& rules);

// Reads what was typed. `what` and `origin` name the option and where its value came from, for the
// message. Types that take one value use the last text; lists take all. Errors: `option_bad_value`.
Result<OptionValue> parse_value(const ValueRules& rules, const std::vector<std::string>& texts,
                                std::string_view what, std::string_view origin);

// As a person would read it: "512.0 MiB", "on", "f16".
std::string display(const ValueRules& rules, const OptionValue& value);
nlohmann::json to_json(const OptionValue& value);

// "1.5 GiB": three digits or so, with a binary unit.
std::string display_bytes(double bytes);

}  // namespace stemma
