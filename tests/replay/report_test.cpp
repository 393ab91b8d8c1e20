#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "replay/auto_budgets.h"
#include "replay/plot_svg.h"
#include "replay/report_json.h"
#include "replay/report_text.h"
#include "small_traces.h"

namespace stemma::replay {
namespace {

using ::testing::HasSubstr;

const ModelCosts kModel{"small", 1, 1, {1000, 500, 300}, 10, 1e6, 1e6, 8, "made up"};

// Eight prompts of 2,048 tokens that take turns three times: each budget in between holds some of
// them.
Trace turns() {
  std::string text;
  for (int i = 0; i < 24; ++i) {
    const int first = 4 * (i % 8);
    text += R"({"timestamp": )" + std::to_string(i * 20'000) +
            R"(, "input_length": 2048, "output_length": 1, "hash_ids": [)";
    for (int b = 0; b < 4; ++b) text += (b > 0 ? ", " : "") + std::to_string(first + b);
    text += "]}\n";
  }
  return test::read(text).value();
}

SweepConfig small_sweep() {
  SweepConfig config;
  config.budgets = {60'000, 1e6};
  config.systems = {"lru", "vllm"};
  config.orders = 3;
  config.load.shuffle = true;
  config.load.concurrency = 1;
  config.load.profile = {"test", 1000, 10};
  return config;
}

TEST(ReportText, NamesModelProfileAndEverySystem) {
  const std::string text = report_text(run_sweep(turns(), kModel, small_sweep(), {}).value());
  for (const char* part : {"mooncake", "small", "profile test", "infinite cache", "lru", "vllm",
                           "budget 0.00 GB", "3 orders"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(ReportJson, HasEverySettingAndEveryOrder) {
  const nlohmann::json report = report_json(run_sweep(turns(), kModel, small_sweep(), {}).value());
  EXPECT_EQ(report.at("settings").at("profile").at("prefill_tokens_per_second"), 1000);
  EXPECT_EQ(report.at("model").at("codec"), "f32");
  ASSERT_EQ(report.at("budgets").size(), 2u);
  const nlohmann::json& vllm = report.at("budgets")[1].at("systems")[1];
  EXPECT_EQ(vllm.at("system"), "vllm");
  ASSERT_EQ(vllm.at("orders").size(), 3u);
  EXPECT_EQ(vllm.at("orders")[2].at("requests"), 24);
  EXPECT_TRUE(vllm.contains("against_lru"));
}

TEST(PlotSvg, HasALineAndANameForEverySystem) {
  const std::string svg = plot_svg(run_sweep(turns(), kModel, small_sweep(), {}).value());
  EXPECT_THAT(svg, ::testing::StartsWith("<svg"));
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
  for (const char* part : {">lru<", ">vllm<", ">infinite<", ">60 kB<", ">1 MB<", "reused, %"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  std::size_t lines = 0;
  for (std::size_t at = svg.find("<polyline"); at != std::string::npos;
       at = svg.find("<polyline", at + 1))
    ++lines;
  EXPECT_EQ(lines, 2u);
}

TEST(AutoBudgets, RiseWithTheirTargets) {
  const auto chosen = choose_budgets(turns(), kModel, small_sweep()).value();
  ASSERT_FALSE(chosen.empty());
  for (std::size_t i = 1; i < chosen.size(); ++i) {
    EXPECT_GT(chosen[i].bytes, chosen[i - 1].bytes);
    EXPECT_GE(chosen[i].reached, chosen[i - 1].reached);
  }
  EXPECT_GE(chosen.back().reached, 0.5);
}

TEST(AutoBudgets, TheLeastServesEveryRequest) {
  const Trace trace = turns();
  SweepConfig config = small_sweep();
  config.budgets = {least_budget(trace, kModel, config.cache)};
  const SweepResult result = run_sweep(trace, kModel, config, {}).value();
  EXPECT_EQ(result.budgets[0].systems[0].orders[0].refused, 0u);
}

}  // namespace
}  // namespace stemma::replay
