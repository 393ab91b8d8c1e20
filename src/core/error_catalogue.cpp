// The catalogue is small and read by people: documents are parsed when asked for, nothing is kept.

#include "core/error_catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace stemma {

namespace {
#include "core/error_entries.inc"

using Json = nlohmann::ordered_json;

constexpr std::size_t kLineWidth = 92;

// All entries as their files have them, in the order of ErrorCode.
Json all_documents() {
  Json all = Json::array();
  for (const std::string_view document : kDocuments) {
    const Json entries = Json::parse(document);
    all.insert(all.end(), entries.begin(), entries.end());
  }
  return all;
}

// A message pattern taken apart: the texts before, between and after its {fields}; always one more than fields.
std::vector<std::string_view> literal_parts(std::string_view pattern) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t open = pattern.find('{');
    const std::size_t close = open == std::string_view::npos ? open : pattern.find('}', open);
    if (close == std::string_view::npos) break;
    parts.push_back(pattern.substr(0, open));
    pattern.remove_prefix(close + 1);
  }
  parts.push_back(pattern);
  return parts;
}

// Whether `text` is the parts in order with anything between them. Taking the first place for each part is enough,
// because what lies between may be any text. O(text x parts).
bool matches(std::string_view text, const std::vector<std::string_view>& parts) {
  if (parts.size() == 1) return text == parts.front();
  if (!text.starts_with(parts.front())) return false;
  text.remove_prefix(parts.front().size());
  for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
    const std::size_t at = text.find(parts[i]);
    if (at == std::string_view::npos) return false;
    text.remove_prefix(at + parts[i].size());
  }
  return text.ends_with(parts.back());
}

// Letters outside fields: how much a match says.
std::size_t specificity(const std::vector<std::string_view>& parts) {
  std::size_t letters = 0;
  for (const std::string_view part : parts) {
    letters += std::count_if(part.begin(), part.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
  }
  return letters;
}

std::string regex_of(std::string_view pattern) {
  constexpr std::string_view special = R"(\^$.|?*+()[]{})";
  std::string regex = "^";
  bool first = true;
  for (const std::string_view part : literal_parts(pattern)) {
    if (!first) regex += "(.*)";
    first = false;
    for (const char c : part) {
      if (special.find(c) != std::string_view::npos) regex += '\\';
      regex += c;
    }
  }
  return regex + "$";
}

// Words of `text` in lines of kLineWidth, each after `indent`; the first line starts with `bullet` instead.
void write_wrapped(std::ostream& out, const std::string& text, const std::string& bullet,
                   const std::string& indent) {
  std::istringstream words(text);
  std::string line = bullet;
  std::size_t empty = line.size();
  for (std::string word; words >> word;) {
    if (line.size() > empty && line.size() + 1 + word.size() > kLineWidth) {
      out << line << '\n';
      line = indent;
      empty = line.size();
    }
    if (line.size() > empty) line += ' ';
    line += word;
  }
  out << line << '\n';
}

void write_verbatim(std::ostream& out, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out << "    " << line << '\n';
}

void write_list(std::ostream& out, const Json& entry, const char* field, const char* title) {
  const Json& items = entry.at(field);
  if (items.empty()) return;
  out << '\n' << title << '\n';
  for (const Json& item : items) write_wrapped(out, item.get<std::string>(), "  - ", "    ");
}

}  // namespace

std::span<const ErrorEntry> error_entries() { return kEntries; }

std::optional<ErrorCode> find_error(std::string_view code_or_message) {
  std::string_view text = code_or_message;
  for (const std::string_view prefix : {"error: ", "error "}) {
    if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  }
  // A message as printed, "[code] message", names its code.
  std::string_view code = text;
  if (text.starts_with('[')) {
    if (const std::size_t close = text.find(']'); close != std::string_view::npos) {
      code = text.substr(1, close - 1);
    }
  }
  constexpr std::size_t enough_letters = 6;  // "{file}: {reason}" matches too much to mean anything
  std::optional<ErrorCode> found;
  std::size_t best = enough_letters;
  for (std::size_t i = 0; i < std::size(kEntries); ++i) {
    if (kEntries[i].code == code) return static_cast<ErrorCode>(i);
    const auto parts = literal_parts(kEntries[i].message);
    if (const std::size_t letters = specificity(parts); letters > best && matches(text, parts)) {
      found = static_cast<ErrorCode>(i);
      best = letters;
    }
  }
  return found;
}

std::string explain_error(ErrorCode code) {
  const Json documents = all_documents();
  const Json& entry = documents.at(static_cast<std::size_t>(code));
  std::ostringstream out;
  out << entry.at("code").get<std::string>() << '\n';
  write_wrapped(out, entry.at("message").get<std::string>(), "  ", "  ");
  out << "  severity " << entry.at("severity").get<std::string>() << "; over HTTP "
      << entry.at("httpStatus").get<int>() << ' ' << entry.at("httpType").get<std::string>() << '\n';
  out << '\n';
  write_wrapped(out, entry.at("documentation").get<std::string>(), "", "");
  write_list(out, entry, "triggerScenarios", "When it happens");
  write_list(out, entry, "commonSituations", "Where people meet it");
  write_list(out, entry, "solutions", "What to do");
  out << "\nExample: before\n";
  write_verbatim(out, entry.at("exampleFix").at("before").get<std::string>());
  out << "Example: after\n";
  write_verbatim(out, entry.at("exampleFix").at("after").get<std::string>());
  out << "\nIn a program\n";
  write_wrapped(out, entry.at("handlingStrategy").get<std::string>(), "  ", "  ");
  out << "\nTo check beforehand\n";
  write_verbatim(out, entry.at("validationCode").get<std::string>());
  write_list(out, entry, "preventionTips", "To avoid it");
  return out.str();
}

std::string explain_all_json() {
  constexpr std::array passed_on = {
      "severity",   "documentation",    "triggerScenarios", "commonSituations", "solutions",
      "exampleFix", "handlingStrategy", "validationCode",   "preventionTips",   "tags"};
  Json all = Json::array();
  const Json documents = all_documents();
  for (const Json& entry : documents) {
    const std::string message = entry.at("message").get<std::string>();
    const std::string error_class = entry.at("errorClass").get<std::string>();
    Json exported = {{"code", entry.at("code")},
                     {"errorMessage", message},
                     {"messagePattern", regex_of(message)},
                     {"errorClass", error_class.empty() ? entry.at("code").get<std::string>() : error_class}};
    for (const char* field : passed_on) exported[field] = entry.at(field);
    all.push_back(std::move(exported));
  }
  return all.dump(2);
}

}  // namespace stemma
