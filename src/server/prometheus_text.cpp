#include "server/prometheus_text.h"

#include <charconv>

namespace stemma {

namespace {

// The shortest text that reads back as the same number.
std::string number(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

void PrometheusText::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_.append("# HELP ").append(name).append(" ").append(help).append("\n");
  text_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

void PrometheusText::sample(double value, Labels labels) { line("", value, labels); }

void PrometheusText::counter(std::string_view name, std::string_view help, double value) {
  family(name, "counter", help);
  sample(value);
}

void PrometheusText::gauge(std::string_view name, std::string_view help, double value) {
  family(name, "gauge", help);
  sample(value);
}

void PrometheusText::histogram(std::string_view name, std::string_view help, const SecondsHistogram& histogram) {
  family(name, "histogram", help);
  std::uint64_t total = 0;  // buckets are cumulative, and the count is the last one whatever is added meanwhile
  for (std::size_t i = 0; i < SecondsHistogram::kBuckets; ++i) {
    total += histogram.count(i);
    line("_bucket", static_cast<double>(total), {{"le", number(SecondsHistogram::upper_bound(i))}});
  }
  total += histogram.count(SecondsHistogram::kBuckets);
  line("_bucket", static_cast<double>(total), {{"le", "+Inf"}});
  line("_sum", histogram.sum(), {});
  line("_count", static_cast<double>(total), {});
}

void PrometheusText::line(std::string_view suffix, double value, Labels labels) {
  text_.append(name_).append(suffix);
  char separator = '{';
  for (const auto& [name, label] : labels) {
    text_ += separator;
    text_.append(name).append("=\"");
    for (const char c : label) {
      if (c == '\\' || c == '"') text_ += '\\';
      if (c == '\n') text_ += "\\n";
      else text_ += c;
    }
    text_ += '"';
    separator = ',';
  }
  if (separator == ',') text_ += '}';
  text_.append(" ").append(number(value)).append("\n");
}

}  // namespace stemma
