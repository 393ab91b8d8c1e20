#include "options/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

namespace stemma {

namespace {

struct ByteUnit {
  std::string_view name;
  double bytes;
};
constexpr std::array<ByteUnit, 5> kByteUnits = {{{"B", 1},
                                                 {"KiB", 1024.0},
                                                 {"MiB", 1024.0 * 1024},
                                                 {"GiB", 1024.0 * 1024 * 1024},
                                                 {"TiB", 1024.0 * 1024 * 1024 * 1024}}};

template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::optional<bool> read_bool(std::string_view text) {
  const std::string word = lower(text);
  if (word == "on" || word == "true" || word == "1" || word == "yes") return true;
  if (word == "off" || word == "false" || word == "0" || word == "no") return false;
  return std::nullopt;
}

// "1.5G", "1.5 GiB", "1.5gb" -> bytes; a bare number counts MiB.
std::optional<double> read_bytes(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto number = read_number<double>(text.substr(0, digits));
  if (!number) return std::nullopt;
  std::string unit = lower(text.substr(digits));
  std::erase(unit, ' ');
  if (unit.empty()) unit = "mib";
  for (const ByteUnit& known : kByteUnits) {
    const std::string name = lower(known.name);
    if (unit == name || (name.size() == 3 && (unit == name.substr(0, 1) || unit == name.substr(0, 1) + "b"))) {
      return *number * known.bytes;
    }
  }
  return std::nullopt;
}

std::string plain_number(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.10g", number);
  return text.data();
}

std::optional<OptionValue> read(const ValueRules& rules, const std::string& text) {
  const auto in_range = [&](double number) { return number >= rules.min && number <= rules.max; };
  switch (rules.type) {
    case ValueType::flag:
    case ValueType::toggle:
      if (const auto value = read_bool(text)) return *value;
      return std::nullopt;
    case ValueType::integer:
      if (const auto value = read_number<std::int64_t>(text); value && in_range(static_cast<double>(*value))) {
        return *value;
      }
      return std::nullopt;
    case ValueType::number:
      if (const auto value = read_number<double>(text); value && in_range(*value)) return *value;
      return std::nullopt;
    case ValueType::bytes:
      if (const auto value = read_bytes(text); value && in_range(*value)) {
        return static_cast<std::int64_t>(std::llround(*value));
      }
      return std::nullopt;
    case ValueType::choice: {
      const auto choices = words(rules.choices);
      if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
      if (rules.has_form != nullptr && rules.has_form(text)) return text;
      return std::nullopt;
    }
    case ValueType::text:
    case ValueType::texts:
      return text;
    case ValueType::integers: {
      std::vector<std::int64_t> list;
      for (std::size_t at = 0; at <= text.size();) {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        const auto value = read_number<std::int64_t>(std::string_view(text).substr(at, comma - at));
        if (!value || !in_range(static_cast<double>(*value))) return std::nullopt;
        list.push_back(*value);
        at = comma + 1;
      }
      return list;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string_view> words(std::string_view list) {
  std::vector<std::string_view> result;
  while (!list.empty()) {
    const std::size_t space = std::min(list.find(' '), list.size());
    if (space > 0) result.push_back(list.substr(0, space));
    list.remove_prefix(std::min(space + 1, list.size()));
  }
  return result;
}

std::string display_bytes(double bytes) {
  std::size_t unit = 0;
  while (unit + 1 < kByteUnits.size() && bytes >= kByteUnits[unit + 1].bytes) ++unit;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f" : "%.1f", bytes / kByteUnits[unit].bytes);
  return std::string(text.data()) + ' ' + std::string(kByteUnits[unit].name);
}

std::string expected(const ValueRules& rules) {
  switch (rules.type) {
    case ValueType::flag:
    case ValueType::toggle:
      return "on or off";
    case ValueType::integer:
      return "an integer from " + plain_number(rules.min) + " to " + plain_number(rules.max);
    case ValueType::number:
      return "a number from " + plain_number(rules.min) + " to " + plain_number(rules.max);
    case ValueType::bytes:
      return "a size from " + display_bytes(rules.min) + " to " + display_bytes(rules.max) +
             ", e.g. 512M or 4G";
    case ValueType::choice: {
      const auto choices = words(rules.choices);
      std::string text;
      for (std::size_t i = 0; i < choices.size(); ++i) {
        if (i > 0) text += i + 1 < choices.size() ? ", " : " or ";
        text += choices[i];
      }
      return rules.form.empty() ? text : text + ", or " + std::string(rules.form);
    }
    case ValueType::text:
    case ValueType::texts:
      return "a text";
    case ValueType::integers:
      return "integers from " + plain_number(rules.min) + " to " + plain_number(rules.max) +
             " with commas between them";
  }
  return {};
}

Result<OptionValue> parse_value(const ValueRules& rules, const std::vector<std::string>& texts,
                                std::string_view what, std::string_view origin) {
  if (rules.type == ValueType::texts) return texts;
  const auto bad = [&](const std::string& text) {
    return fail(ErrorCode::option_bad_value, {{"option", std::string(what)},
                                              {"value", text.empty() ? "empty" : text},
                                              {"origin", std::string(origin)},
                                              {"expected", expected(rules)}});
  };
  if (rules.type != ValueType::integers) {
    if (auto value = read(rules, texts.back())) return *std::move(value);
    return bad(texts.back());
  }
  std::vector<std::int64_t> all;
  for (const std::string& text : texts) {
    const auto value = read(rules, text);
    if (!value) return bad(text);
    const auto& part = std::get<std::vector<std::int64_t>>(*value);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::string display(const ValueRules& rules, const OptionValue& value) {
  switch (rules.type) {
    case ValueType::flag:
    case ValueType::toggle:
      return std::get<bool>(value) ? "on" : "off";
    case ValueType::integer:
      return std::to_string(std::get<std::int64_t>(value));
    case ValueType::number:
      return plain_number(std::get<double>(value));
    case ValueType::bytes:
      return display_bytes(static_cast<double>(std::get<std::int64_t>(value)));
    case ValueType::choice:
    case ValueType::text:
      return std::get<std::string>(value);
    case ValueType::texts: {
      std::string text;
      for (const std::string& item : std::get<std::vector<std::string>>(value)) {
        if (!text.empty()) text += ' ';
        text += item;
      }
      return text;
    }
    case ValueType::integers: {
      std::string text;
      for (const std::int64_t item : std::get<std::vector<std::int64_t>>(value)) {
        if (!text.empty()) text += ',';
        text += std::to_string(item);
      }
      return text;
    }
  }
  return {};
}

nlohmann::json to_json(const OptionValue& value) {
  return std::visit([](const auto& plain) { return nlohmann::json(plain); }, value);
}

}  // namespace stemma
