#include "core/error_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "core/result.h"

namespace stemma {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

ErrorCode code_at(std::size_t index) { return static_cast<ErrorCode>(index); }

// The pattern with each field replaced by a word of its own, as a program would print it.
std::string filled_message(std::string_view pattern) {
  return std::regex_replace(std::string(pattern), std::regex(R"(\{(\w+)\})"), "<$1>");
}

TEST(Catalogue, AnEntryIsFoundByItsCode) {
  for (std::size_t i = 0; i < error_entries().size(); ++i) {
    EXPECT_EQ(find_error(error_entries()[i].code), code_at(i)) << error_entries()[i].code;
  }
}

TEST(Catalogue, AnEntryIsFoundByTheLineThatTheCommandLinePrints) {
  for (std::size_t i = 0; i < error_entries().size(); ++i) {
    const Error error(code_at(i), filled_message(error_entries()[i].message));
    EXPECT_EQ(find_error(error.to_string()), code_at(i)) << error.to_string();
    EXPECT_EQ(find_error("error " + error.to_string()), code_at(i)) << error.to_string();
  }
}

TEST(Catalogue, AnEntryIsFoundByItsMessageAlone) {
  EXPECT_EQ(find_error("token 7 at position 0 is outside the vocabulary of 5"),
            ErrorCode::request_token_out_of_range);
  EXPECT_EQ(find_error("x.gguf: architecture rwkv7 is not supported; supported are llama, qwen35"),
            ErrorCode::model_unsupported_architecture);
  EXPECT_EQ(find_error("there is: no such message"), std::nullopt);
  EXPECT_EQ(find_error(""), std::nullopt);
}

TEST(Catalogue, TheExportHasTheKnowledgeBasesSchema) {
  const Json all = Json::parse(explain_all_json());
  ASSERT_EQ(all.size(), error_entries().size());
  for (const Json& entry : all) {
    const std::string code = entry.at("code");
    for (const char* text : {"errorMessage", "messagePattern", "errorClass", "severity", "documentation",
                             "handlingStrategy", "validationCode"}) {
      EXPECT_TRUE(entry.at(text).is_string()) << code << ' ' << text;
    }
    for (const char* list : {"triggerScenarios", "commonSituations", "solutions", "preventionTips", "tags"}) {
      EXPECT_TRUE(entry.at(list).is_array()) << code << ' ' << list;
    }
    EXPECT_TRUE(entry.at("exampleFix").at("before").is_string()) << code;
    EXPECT_TRUE(entry.at("exampleFix").at("after").is_string()) << code;
    const std::regex pattern(entry.at("messagePattern").get<std::string>());
    EXPECT_TRUE(std::regex_match(filled_message(entry.at("errorMessage").get<std::string>()), pattern)) << code;
  }
}

TEST(Catalogue, TheExplanationShowsEveryPartOfTheEntry) {
  const std::vector<Json> all = Json::parse(explain_all_json());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string text = explain_error(code_at(i));
    EXPECT_THAT(text, HasSubstr(all[i].at("code").get<std::string>()));
    for (const char* list : {"triggerScenarios", "solutions"}) {
      for (const Json& item : all[i].at(list)) {
        const std::string first_words = item.get<std::string>().substr(0, 20);
        EXPECT_THAT(text, HasSubstr(first_words));
      }
    }
  }
}

// What makes an entry useful to the person who meets it may not be left out.
TEST(Catalogue, EveryEntryIsComplete) {
  const std::set<std::string> severities = {"warning", "error", "fatal"};
  for (const Json& entry : Json::parse(explain_all_json())) {
    const std::string code = entry.at("code");
    EXPECT_TRUE(severities.contains(entry.at("severity"))) << code << ": severity " << entry.at("severity");
    for (const char* text : {"documentation", "handlingStrategy", "validationCode"}) {
      EXPECT_GE(entry.at(text).get<std::string>().size(), 10u) << code << ": " << text << " is missing";
    }
    for (const char* list : {"triggerScenarios", "commonSituations", "solutions", "preventionTips", "tags"}) {
      EXPECT_FALSE(entry.at(list).empty()) << code << ": " << list << " is missing";
    }
    EXPECT_FALSE(entry.at("exampleFix").at("before").get<std::string>().empty()) << code << ": exampleFix.before";
    EXPECT_FALSE(entry.at("exampleFix").at("after").get<std::string>().empty()) << code << ": exampleFix.after";
  }
}

}  // namespace
}  // namespace stemma
