// The program as a person meets it: output, messages and exit statuses of the built binary.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/error_catalogue.h"

namespace stemma {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int status;
  std::string output;
  std::string errors;
};

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class Program : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "stemma-cli-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // `stemma ARGUMENTS` (a shell's words), with its output in files and no options in the environment.
  std::string command(const std::string& arguments) const {
    return "exec env -u STEMMA_MODEL " STEMMA_BINARY " " + arguments + " >" + path("out") + " 2>" + path("err") +
           " </dev/null";
  }

  // Runs it to its end.
  Outcome stemma(const std::string& arguments) const {
    const int status = std::system(command(arguments).c_str());
    return {WEXITSTATUS(status), contents(path("out")), contents(path("err"))};
  }

  // A tiny random hybrid model.
  std::string make_model() const {
    const Outcome made = stemma("make-model --arch qwen35 --preset tiny --type q8_0 --vocab " STEMMA_LLAMA_CPP_DIR
                                "/models/ggml-vocab-qwen35.gguf -o " + path("tiny.gguf"));
    EXPECT_EQ(made.status, 0) << made.errors;
    return path("tiny.gguf");
  }

  std::filesystem::path folder_;
};

TEST_F(Program, HelpsAndTellsItsVersion) {
  EXPECT_THAT(stemma("--help").output, HasSubstr("make-model"));
  EXPECT_THAT(stemma("serve --help").output, HasSubstr("--cache-memory"));
  EXPECT_THAT(stemma("--version").output, StartsWith("stemma 0."));
  const Outcome nothing = stemma("");
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.errors, HasSubstr("usage:"));
}

TEST_F(Program, AWrongCallEndsWithTwoAndSaysWhatToDo) {
  const Outcome outcome = stemma("serve --thread 4");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, IsEmpty());
  EXPECT_EQ(outcome.errors,
            "error [option_unknown] --thread (the command line) is not an option; did you mean --threads?\n"
            "`stemma explain option_unknown` says more\n");
  EXPECT_THAT(stemma("srve").errors, StartsWith("error [command_unknown] srve is not a command"));
  EXPECT_EQ(stemma("srve").status, 2);
}

TEST_F(Program, AFailureEndsWithOne) {
  const Outcome outcome = stemma("inspect " + path("nothing.gguf"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, StartsWith("error [gguf_not_found] cannot open "));
}

TEST_F(Program, ExplainsWhatItPrints) {
  const Outcome failed = stemma("serve --port none -m x");
  const std::string printed = failed.errors.substr(0, failed.errors.find('\n'));
  const Outcome explained = stemma("explain '" + printed + "'");
  EXPECT_EQ(explained.status, 0);
  EXPECT_THAT(explained.output, StartsWith("option_bad_value\n"));
  EXPECT_EQ(stemma("explain option_bad_value").output, explained.output);
  EXPECT_EQ(stemma("explain nothing like this was ever printed").status, 1);
}

TEST_F(Program, ListsAndExportsAllErrors) {
  const std::string listed = stemma("explain").output;
  const auto exported = nlohmann::json::parse(stemma("explain --json").output);
  EXPECT_EQ(exported.size(), error_entries().size());
  for (const ErrorEntry& entry : error_entries()) EXPECT_THAT(listed, HasSubstr(std::string(entry.code)));
}

TEST_F(Program, MakesInspectsAndRunsAModel) {
  const std::string model = make_model();
  EXPECT_THAT(stemma("inspect " + model).output, HasSubstr("architecture    qwen35"));
  const std::string call = "run -m " + model + " -t 1 --cache-memory 64M -c 256 -n 8 --temp 0 -p 'Once upon a time'";
  const Outcome first = stemma(call);
  EXPECT_EQ(first.status, 0) << first.errors;
  EXPECT_THAT(first.output, Not(IsEmpty()));
  EXPECT_THAT(first.errors, HasSubstr("generated"));
  EXPECT_EQ(stemma(call + " --seed 1").output, first.output) << "greedy does not draw";
}

TEST_F(Program, TimesPromptsAndGenerationAtEveryDepth) {
  const std::string call =
      "bench -m " + make_model() + " -t 1 -p 8,0,40 -n 4 -d 0,21 --streams 1,3 -r 2 -b 16";
  const Outcome timed = stemma(call + " --json");
  ASSERT_EQ(timed.status, 0) << timed.errors;
  const auto report = nlohmann::json::parse(timed.output);
  std::vector<std::string> tests;
  for (const auto& test : report["tests"]) {
    const int depth = test["depth"];
    const int streams = test["streams"];
    tests.push_back(test["test"].get<std::string>() + " at " + std::to_string(depth) + " x " +
                    std::to_string(streams));
    EXPECT_EQ(test["seconds"].size(), 2u) << tests.back();
    EXPECT_GT(test["tokens_per_second"], 0) << tests.back();
  }
  EXPECT_THAT(tests, ElementsAre("pp8 at 0 x 1", "pp40 at 0 x 1", "tg4 at 0 x 1", "tg4 at 0 x 3",
                                 "pp8 at 21 x 1", "pp40 at 21 x 1", "tg4 at 21 x 1",
                                 "tg4 at 21 x 3"));
  // More streams read the weights no more often, but each its own state and what is before it.
  const double weights = report["weight_bytes_per_step"];
  EXPECT_LT(weights, report["weight_bytes"]) << "of the embeddings one row is read";
  const auto beside_weights = [&](std::size_t test) {
    return report["tests"][test]["bytes_per_step"].get<double>() - weights;
  };
  EXPECT_DOUBLE_EQ(beside_weights(3), 3 * beside_weights(2));
  EXPECT_GT(beside_weights(6), beside_weights(2));
  EXPECT_EQ(report["memory_bytes_per_second"].size(), 5u);

  const std::string table = stemma(call).output;
  EXPECT_THAT(table, HasSubstr("| pp40 | 21 | 1 |"));
  EXPECT_THAT(table, HasSubstr("| tg4 | 21 | 3 |"));
}

TEST_F(Program, ServesUntilASignalAsksItToEnd) {
  const std::string model = make_model();
  const std::string serve =
      command("serve -m " + model + " -t 1 --cache-memory 64M -c 256 --max-running-requests 4 --port 0");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", serve.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  pid_t ended = 0;
  while (contents(path("out")).find("Ctrl-C") == std::string::npos && ended == 0) {
    usleep(20000);
    ended = waitpid(child, &status, WNOHANG);
  }
  ASSERT_EQ(ended, 0) << contents(path("err"));
  EXPECT_THAT(contents(path("out")), HasSubstr("listening on http://127.0.0.1:"));
  kill(child, SIGTERM);
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << contents(path("err"));
}

}  // namespace
}  // namespace stemma
