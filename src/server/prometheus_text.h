#pragma once
// Writes Prometheus' text exposition format, version 0.0.4. Everything shown is a snapshot of numbers that live elsewhere,
// so a client library with a registry of its own would only add a second copy of each.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "server/server_metrics.h"

namespace stemma {

class PrometheusText {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  // Begins a metric; `type` is "counter", "gauge" or "histogram".
  void family(std::string_view name, std::string_view type, std::string_view help);

  // One sample of the family begun last. Label values are escaped.
  void sample(double value, Labels labels = {});

  // A family of one sample.
  void counter(std::string_view name, std::string_view help, double value);
  void gauge(std::string_view name, std::string_view help, double value);
  void histogram(std::string_view name, std::string_view help, const SecondsHistogram& histogram);

  std::string take() && { return std::move(text_); }

 private:
  void line(std::string_view suffix, double value, Labels labels);

  std::string text_;
  std::string name_;
};

}  // namespace stemma
