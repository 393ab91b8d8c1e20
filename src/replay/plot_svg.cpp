#include "replay/plot_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace stemma::replay {

namespace {

constexpr double kWidth = 760, kHeight = 440;
constexpr double kLeft = 64, kRight = 170, kTop = 56, kBottom = 56;

// Colours that differ in lightness as well, for print and for the colour-blind.
constexpr std::array<const char*, 10> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                  "#e69f00", "#56b4e9", "#000000", "#8c564b",
                                                  "#7f7f7f", "#bcbd22"};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// With as many digits as it takes to tell ticks apart.
std::string size_label(double bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 5; ++unit) bytes /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %s", bytes, units[unit]);
  return text;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '&') {
      result += "&amp;";
    } else {
      result += c;
    }
  }
  return result;
}

class Canvas {
 public:
  void line(double x1, double y1, double x2, double y2, const std::string& style) {
    body_ += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
             "\" y2=\"" + number(y2) + "\" " + style + "/>\n";
  }
  void text(double x, double y, const std::string& words, const std::string& style) {
    body_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + style + ">" +
             escaped(words) + "</text>\n";
  }
  void polyline(const std::string& points, const std::string& style) {
    body_ += "<polyline fill=\"none\" points=\"" + points + "\" " + style + "/>\n";
  }
  void dot(double x, double y, const std::string& colour) {
    body_ += "<circle cx=\"" + number(x) + "\" cy=\"" + number(y) + "\" r=\"3.2\" fill=\"" +
             colour + "\"/>\n";
  }
  std::string document() const {
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(kWidth) + "\" height=\"" +
           number(kHeight) + "\" viewBox=\"0 0 " + number(kWidth) + " " + number(kHeight) +
           "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
           "fill=\"white\"/>\n" +
           body_ + "</svg>\n";
  }

 private:
  std::string body_;
};

struct Axes {
  double low, high;  // bytes
  double top;        // share

  double x(double bytes) const {
    const double span = std::log(high / low);
    return kLeft + (kWidth - kLeft - kRight) * (span > 0 ? std::log(bytes / low) / span : 0.5);
  }
  double y(double share) const {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * share / top;
  }
};

void draw_axes(Canvas& canvas, const Axes& axes, const SweepResult& sweep) {
  const std::string grid = "stroke=\"#dddddd\"";
  const int ticks = axes.top > 0.2 ? static_cast<int>(std::lround(axes.top * 10)) : 5;
  for (int i = 0; i <= ticks; ++i) {
    const double share = axes.top * i / ticks;
    canvas.line(kLeft, axes.y(share), kWidth - kRight, axes.y(share), grid);
    canvas.text(kLeft - 8, axes.y(share) + 4, number(100 * share), "text-anchor=\"end\"");
  }
  for (const BudgetResult& budget : sweep.budgets) {
    const double x = axes.x(budget.budget_bytes);
    canvas.line(x, kTop, x, kHeight - kBottom, grid);
    canvas.text(x, kHeight - kBottom + 18, size_label(budget.budget_bytes),
                "text-anchor=\"middle\"");
  }
  canvas.line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, "stroke=\"black\"");
  canvas.line(kLeft, kTop, kLeft, kHeight - kBottom, "stroke=\"black\"");
  canvas.text((kLeft + kWidth - kRight) / 2, kHeight - 12, "memory for pages and states",
              "text-anchor=\"middle\"");
  canvas.text(14, (kTop + kHeight - kBottom) / 2, "prompt tokens reused, %",
              "text-anchor=\"middle\" transform=\"rotate(-90 14 " +
                  number((kTop + kHeight - kBottom) / 2) + ")\"");
  canvas.text(kLeft, 22, sweep.trace + " on " + sweep.model.name,
              "font-size=\"15\" font-weight=\"bold\"");
  canvas.text(
      kLeft, 40,
      std::to_string(sweep.requests) + " requests, " + std::to_string(sweep.config.orders) +
          " order(s), " +
          std::string(kStateCodecNames[static_cast<std::size_t>(sweep.config.cache.codec)]) +
          " states",
      "fill=\"#555555\"");
}

}  // namespace

std::string plot_svg(const SweepResult& sweep) {
  Canvas canvas;
  if (sweep.budgets.empty()) return canvas.document();
  const double infinite = spread(hit_shares(sweep.infinite)).mean;
  Axes axes{sweep.budgets.front().budget_bytes, sweep.budgets.front().budget_bytes, 0.05};
  for (const BudgetResult& budget : sweep.budgets) {
    axes.low = std::min(axes.low, budget.budget_bytes);
    axes.high = std::max(axes.high, budget.budget_bytes);
  }
  axes.top = std::max(axes.top, std::min(1.0, std::ceil(infinite * 10) / 10));
  draw_axes(canvas, axes, sweep);
  canvas.line(kLeft, axes.y(infinite), kWidth - kRight, axes.y(infinite),
              "stroke=\"#555555\" stroke-dasharray=\"6 4\"");
  double legend = kTop + 8;
  canvas.line(kWidth - kRight + 12, legend, kWidth - kRight + 36, legend,
              "stroke=\"#555555\" stroke-dasharray=\"6 4\"");
  canvas.text(kWidth - kRight + 42, legend + 4, "infinite", "");

  for (std::size_t s = 0; s < sweep.budgets.front().systems.size(); ++s) {
    const std::string colour = kColours[s % kColours.size()];
    const std::string dashes = s < kColours.size() ? "" : " stroke-dasharray=\"2 3\"";
    const std::string stroke = "stroke=\"" + colour + "\" stroke-width=\"2\"" + dashes;
    std::vector<const BudgetResult*> budgets;
    for (const BudgetResult& budget : sweep.budgets) budgets.push_back(&budget);
    std::sort(budgets.begin(), budgets.end(), [](const BudgetResult* a, const BudgetResult* b) {
      return a->budget_bytes < b->budget_bytes;
    });
    std::string points;
    for (const BudgetResult* budget : budgets) {
      const Spread hits = spread(hit_shares(budget->systems[s]));
      const double x = axes.x(budget->budget_bytes);
      points += number(x) + "," + number(axes.y(hits.mean)) + " ";
      canvas.line(x, axes.y(hits.mean - hits.standard_error), x,
                  axes.y(hits.mean + hits.standard_error), "stroke=\"" + colour + "\"");
      canvas.dot(x, axes.y(hits.mean), colour);
    }
    canvas.polyline(points, stroke);
    legend += 20;
    canvas.line(kWidth - kRight + 12, legend, kWidth - kRight + 36, legend, stroke);
    canvas.text(kWidth - kRight + 42, legend + 4, sweep.budgets.front().systems[s].system, "");
  }
  return canvas.document();
}

}  // namespace stemma::replay
