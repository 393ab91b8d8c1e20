// Every entry of the catalogue is provoked through the functions or the server that people meet it at: an entry that
// nothing can reach, or that nobody has shown how to reach, fails here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "cache/cache.h"
#include "compute/cpu/cpu_device.h"
#include "core/error_catalogue.h"
#include "engine/engine.h"
#include "memory/memory.h"
#include "models/gguf_file.h"
#include "models/model.h"
#include "models/synthetic.h"
#include "options/resolve.h"
#include "replay/driver.h"
#include "replay/trace_reader.h"
#include "server/test_client.h"
#include "support/gguf_bytes.h"
#include "support/test_models.h"
#include "text/chat_template.h"
#include "text/sampler.h"

namespace stemma {
namespace {

using nlohmann::json;
using test::GgufBytes;
using testing::Response;

// What a person sees: "[code] message".
template <class T>
std::string seen(const Result<T>& result) {
  return result ? "nothing went wrong" : result.error().to_string();
}

std::string seen(const Response& response) {
  const json error = response.json().at("error");
  return "[" + error.at("code").get<std::string>() + "] " + error.at("message").get<std::string>();
}

std::string file_of(const GgufBytes& bytes) {
  const std::string path = test::temporary_directory() + "/provoked.gguf";
  test::write_file(path, bytes.bytes());
  return path;
}

std::string opened(const GgufBytes& bytes) { return seen(GgufFile::open(file_of(bytes))); }

GgufBytes with_architecture(std::string_view name, std::uint64_t tensors = 0) {
  GgufBytes bytes;
  bytes.start(tensors, 1).string_key("general.architecture", name);
  return bytes;
}

std::string loaded(const std::string& path) {
  const auto device = make_cpu_device({.threads = 1});
  return seen(GgufFile::open(path).and_then(
      [&](const std::shared_ptr<const GgufFile>& file) { return load_model(file, *device); }));
}

// A tiny llama file with something in it changed.
class ChangedModel {
 public:
  ChangedModel() : bytes_(test::read_file(test::tiny_model("llama", "f32"))) {}

  ChangedModel& rename(const std::string& name, const std::string& other) {
    EXPECT_EQ(name.size(), other.size());
    bytes_.replace(string_at(name), name.size(), other);
    return *this;
  }
  // Of a key with a 32-bit value.
  ChangedModel& set(const std::string& key, std::uint32_t value) { return put(string_at(key) + key.size() + 4, value); }
  // Of a tensor with two dimensions.
  ChangedModel& set_type(const std::string& tensor, DType type) {
    return put(string_at(tensor) + tensor.size() + 4 + 16, static_cast<std::uint32_t>(type));
  }
  ChangedModel& fill(const std::string& tensor, float value) {
    const auto file = GgufFile::open(test::tiny_model("llama", "f32")).value();
    const GgufTensor& found = *file->find_tensor(tensor);
    const std::size_t at = bytes_.find(std::string_view(reinterpret_cast<const char*>(found.data), found.bytes));
    for (std::size_t i = 0; i < found.bytes; i += sizeof value) std::memcpy(&bytes_[at + i], &value, sizeof value);
    return *this;
  }

  std::string path() const { return file_of(GgufBytes().raw(bytes_)); }

 private:
  std::size_t string_at(const std::string& text) const {
    const std::size_t at = bytes_.find(GgufBytes().string(text).bytes());
    EXPECT_NE(at, std::string::npos) << text;
    return at + sizeof(std::uint64_t);
  }
  ChangedModel& put(std::size_t at, std::uint32_t value) {
    std::memcpy(&bytes_[at], &value, sizeof value);
    return *this;
  }

  std::string bytes_;
};

// An engine on a model file, and one request to it.
class SmallEngine {
 public:
  explicit SmallEngine(const std::string& path)
      : file_(GgufFile::open(path).value()),
        model_(load_model(file_, *device_).value()),
        tokenizer_(Tokenizer::load(*file_).value()) {}

  std::string create(const EngineConfig& config) const {
    return seen(Engine::create(config, *model_, *device_, *tokenizer_));
  }

  // The error that a request to it ends with.
  std::string generate() const {
    struct Sink : RequestSink {
      std::promise<GenerationResult> result;
      void on_token(const Sampled&) override {}
      void on_finish(const GenerationResult& finished) override { result.set_value(finished); }
    };
    const auto sink = std::make_shared<Sink>();
    const auto engine = Engine::create(small(), *model_, *device_, *tokenizer_).value();
    const auto submitted = engine->submit({.prompt = {1, 2, 3}}, sink);
    if (!submitted) return seen(submitted);
    const GenerationResult result = sink->result.get_future().get();
    return result.error ? result.error->to_string() : "nothing went wrong";
  }

  static EngineConfig small() {
    return {.max_sequences = 2, .context_length = 64, .cache_bytes = std::size_t{16} << 20};
  }

 private:
  std::unique_ptr<Device> device_ = make_cpu_device({.threads = 1});
  std::shared_ptr<const GgufFile> file_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

// The first line that the program prints when it is called so.
std::string program(const std::string& arguments) {
  const std::string errors = test::temporary_directory() + "/errors";
  const std::string command = "env -u STEMMA_MODEL " STEMMA_BINARY " " + arguments + " >/dev/null 2>" + errors;
  EXPECT_NE(std::system(command.c_str()), 0);
  std::ifstream file(errors);
  std::string line;
  std::getline(file, line);
  const std::string start = "error ";
  EXPECT_TRUE(line.starts_with(start)) << line;
  return line.substr(std::min(start.size(), line.size()));
}

std::string resolved(const std::vector<std::string>& arguments) {
  const Facts facts{.machine = {.cores = 1, .available_memory = 1 << 30}, .model = {}};
  return seen(parse_command_line(Command::serve, arguments).and_then([&](const AskedOptions& asked) {
    return resolve(asked, facts);
  }));
}

class EveryError : public testing::ServerTest, public ::testing::WithParamInterface<std::size_t> {
 protected:
  using Provocation = std::function<std::string()>;

  std::string answered(std::string_view path, std::string_view body) { return seen(client().post(path, body)); }
  std::string completion(std::string_view body) { return answered("/v1/completions", body); }

  std::string raw(std::string_view bytes) {
    auto one = client();
    one.send(bytes);
    return seen(one.receive());
  }

  std::string rendered(const std::string& source, const json& messages) {
    return seen(ChatTemplate::load(tokenizer(), source).and_then([&](const std::unique_ptr<ChatTemplate>& loaded) {
      return loaded->apply(messages, json::object());
    }));
  }

  std::string tokenizer_of(const GgufBytes& bytes) {
    return seen(GgufFile::open(file_of(bytes)).and_then([](const std::shared_ptr<const GgufFile>& file) {
      return Tokenizer::load(*file);
    }));
  }

  std::map<std::string_view, Provocation> cache_and_memory() {
    return {
        {"cache_bad_config", [] { return seen(Cache::create({.page_size = 0, .page_count = 1})); }},
        {"cache_unknown_policy",
         [] { return seen(Cache::create({.page_count = 1, .row_count = 1, .eviction = "magic"})); }},
        {"memory_budget_too_small",
         [] {
           const MemoryBudget budget{.bytes = 1000, .max_sequences = 4, .context_length = 4096, .state_share = -1};
           return seen(split_memory(budget, {.layers = {{.k_cols = 64, .v_cols = 64}}}, {}));
         }},
        {"out_of_memory",
         [] {
           const KvLayout layout{.layers = {{.k_cols = 1 << 16, .v_cols = 1 << 16}}};
           return seen(make_cpu_device({.threads = 1})->make_pages(layout, std::size_t{1} << 32));
         }},
    };
  }

  std::map<std::string_view, Provocation> files() {
    return {
        {"gguf_not_found", [] { return seen(GgufFile::open("no/such/file.gguf")); }},
        {"gguf_bad_magic", [] { return opened(GgufBytes().raw("PK\x03\x04 is a zip file")); }},
        {"gguf_big_endian", [] { return opened(GgufBytes().start(0, 0, 0x03000000)); }},
        {"gguf_unsupported_version", [] { return opened(GgufBytes().start(0, 0, 1)); }},
        {"gguf_truncated", [] { return opened(GgufBytes().start(7, 0)); }},
        {"gguf_bad_metadata", [] { return opened(GgufBytes().start(0, 1).u32_key("general.architecture", 1)); }},
        {"gguf_bad_tensor",
         [] { return opened(with_architecture("llama", 1).tensor("t", 0, 1, 0, 0).pad().zeros(32)); }},
        {"gguf_split_incomplete",
         [] {
           GgufBytes bytes;
           bytes.start(0, 3).string_key("general.architecture", "llama").u32_key("split.no", 0);
           return opened(bytes.u32_key("split.count", 2));
         }},
        {"file_write_failed",
         [] {
           return seen(write_synthetic_model({.architecture = "llama", .preset = "tiny", .type = "f32", .seed = 1,
                                              .vocabulary_path = test::small_vocabulary(),
                                              .output_path = "no/such/folder/model.gguf"}));
         }},
        {"make_model_bad_option",
         [] {
           return seen(write_synthetic_model({.architecture = "llama", .preset = "huge", .type = "f32", .seed = 1,
                                              .vocabulary_path = test::small_vocabulary(),
                                              .output_path = test::temporary_directory() + "/unwritten.gguf"}));
         }},
    };
  }

  std::map<std::string_view, Provocation> models() {
    return {
        {"model_unsupported_architecture", [] { return loaded(file_of(with_architecture("invented"))); }},
        {"model_missing_key", [] { return loaded(file_of(with_architecture("llama"))); }},
        {"model_bad_key", [] { return loaded(ChangedModel().set("llama.attention.head_count", 0).path()); }},
        {"model_missing_tensor",
         [] { return loaded(ChangedModel().rename("blk.0.ffn_up.weight", "blk.0.ffn_xx.weight").path()); }},
        {"model_bad_tensor", [] { return loaded(ChangedModel().set("llama.feed_forward_length", 480).path()); }},
        {"model_unexpected_tensor",
         [] { return loaded(ChangedModel().rename("output.weight", "outxxx.weight").path()); }},
        {"weight_type_unsupported",
         [] {
           constexpr auto kI32 = static_cast<DType>(26);
           return loaded(ChangedModel().set_type("blk.0.ffn_up.weight", kI32).path());
         }},
        {"model_not_a_number",
         [] {
           const float nan = std::numeric_limits<float>::quiet_NaN();
           return SmallEngine(ChangedModel().fill("output_norm.weight", nan).path()).generate();
         }},
        {"engine_bad_config",
         [] {
           EngineConfig config = SmallEngine::small();
           config.step_tokens = 0;
           return SmallEngine(test::tiny_model("llama", "f32")).create(config);
         }},
    };
  }

  std::map<std::string_view, Provocation> text() {
    return {
        {"tokenizer_bad_metadata",
         [this] {
           GgufBytes bytes;
           bytes.start(0, 3).string_key("general.architecture", "llama").string_key("tokenizer.ggml.model", "gpt2");
           return tokenizer_of(bytes.string("tokenizer.ggml.tokens").u32(9).u32(8).u64(0));
         }},
        {"tokenizer_unsupported",
         [this] {
           GgufBytes bytes;
           bytes.start(0, 2).string_key("general.architecture", "llama");
           return tokenizer_of(bytes.string_key("tokenizer.ggml.model", "invented"));
         }},
        {"chat_template_invalid", [this] { return seen(ChatTemplate::load(tokenizer(), "{% if %}")); }},
        {"chat_template_failed",
         [this] { return rendered("{{ raise_exception('no') }}", {{{"role", "user"}, {"content", "x"}}}); }},
        {"chat_bad_messages", [this] { return rendered("", json::array()); }},
        {"sampling_bad_parameter", [this] { return seen(Sampler::create({.temperature = -1}, tokenizer())); }},
        {"sampling_bad_token",
         [this] { return seen(Sampler::create({.logit_bias = {{1 << 30, 1.0f}}}, tokenizer())); }},
    };
  }

  std::map<std::string_view, Provocation> options_and_commands() {
    return {
        {"option_unknown", [] { return resolved({"--thread", "4"}); }},
        {"option_missing_value", [] { return resolved({"--port"}); }},
        {"option_bad_value", [] { return resolved({"-m", "x", "--port", "http"}); }},
        {"option_required", [] { return resolved({}); }},
        {"option_unexpected_argument", [] { return resolved({"model.gguf"}); }},
        {"config_not_readable", [] { return program("serve --config no/such/file.json"); }},
        {"config_invalid",
         [] {
           AskedOptions asked = parse_command_line(Command::serve, {}).value();
           return seen(add_config(asked, "stemma.json", "{"));
         }},
        {"command_unknown", [] { return program("sing"); }},
        {"explain_unknown", [] { return program("explain no such error"); }},
        {"chat_template_not_readable",
         [] {
           return program("run --chat -p x -n 1 -c 64 --chat-template no/such/file.jinja -m " +
                          test::tiny_model("llama", "f32"));
         }},
    };
  }

  std::map<std::string_view, Provocation> replays() {
    const auto trace = [](const std::string& text) {
      std::istringstream stream(text);
      return seen(replay::read_trace(stream, "trace.jsonl"));
    };
    return {
        {"trace_not_readable", [] { return seen(replay::read_trace_file("no/such/trace.jsonl")); }},
        {"trace_unknown_format", [=] { return trace("[]"); }},
        {"trace_bad_line", [=] { return trace(R"({"timestamp": 0, "hash_ids": []})"); }},
        {"trace_empty", [=] { return trace(""); }},
        {"replay_unknown_model", [] { return seen(replay::find_model_preset("invented")); }},
        {"replay_bad_setting", [] { return seen(replay::find_service_profile("fast")); }},
    };
  }

  std::map<std::string_view, Provocation> requests() {
    return {
        {"request_prompt_empty", [this] { return completion(R"({"prompt": ""})"); }},
        {"request_prompt_too_long",
         [this] { return completion(json{{"prompt", std::vector<int>(5000, 1)}}.dump()); }},
        {"request_token_out_of_range", [this] { return completion(R"({"prompt": [-1]})"); }},
        {"request_queue_full",
         [this] {
           engine().limit(1);
           engine().pause(true);
           return completion(R"({"prompt": "x", "n": 2})");
         }},
        {"request_bad_json", [this] { return completion("{"); }},
        {"request_json_too_deep",
         [this] { return completion("{\"prompt\": " + std::string(100, '[') + std::string(100, ']') + "}"); }},
        {"request_missing_field", [this] { return completion("{}"); }},
        {"request_bad_field", [this] { return completion(R"({"prompt": 5})"); }},
        {"request_unknown_field", [this] { return completion(R"({"prompt": "x", "promt": "x"})"); }},
        {"request_unsupported", [this] { return completion(R"({"prompt": "x", "echo": true})"); }},
    };
  }

  std::map<std::string_view, Provocation> server_and_http() {
    return {
        {"server_cannot_listen",
         [this] {
           const std::uint16_t taken = server().port();
           const ModelInfo model{};
           return seen(Server::start({.port = taken}, {engine(), tokenizer(), *own_template(), model, json::object()}));
         }},
        {"engine_step_stuck",
         [this] {
           engine().stick(StuckStep{.load = {.number = 1, .sequences = 2, .tokens = 300}, .seconds = 4.5});
           return seen(client().get("/health"));
         }},
        {"server_internal_error",
         [this] {
           engine().throw_on_submit(true);
           return completion(R"({"prompt": "x"})");
         }},
        {"server_shutting_down",
         [this] {
           // The connection stays because it has begun a request when the server is told to end.
           auto begun = client();
           begun.send("GET /health HTTP/1.1\r\n\r\nPOST /v1/completions HTTP/1.1\r\nContent-Le");
           begun.receive();
           server().drain(0);
           begun.send("ngth: 2\r\n\r\n{}");
           return seen(begun.receive());
         }},
        {"http_bad_request", [this] { return raw("GET\r\n\r\n"); }},
        {"http_headers_too_large",
         [this] { return raw("GET /health HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n"); }},
        {"http_timeout",
         [this] {
           ServerConfig config;
           config.limits.header_seconds = 0.01;
           start(config);
           return raw("GET /health HTTP/1.1\r\n");
         }},
        {"http_body_too_large",
         [this] {
           ServerConfig config;
           config.max_body_bytes = 10;
           start(config);
           return completion(R"({"prompt": "longer than ten bytes"})");
         }},
        {"http_unauthorized",
         [this] {
           ServerConfig config;
           config.api_keys = {"secret"};
           start(config);
           return completion(R"({"prompt": "x"})");
         }},
        {"http_not_found", [this] { return seen(client().get("/v1/nothing")); }},
        {"http_method_not_allowed", [this] { return seen(client().get("/v1/completions")); }},
    };
  }

  std::unique_ptr<ChatTemplate> own_template() { return ChatTemplate::load(tokenizer()).value(); }
};

TEST_P(EveryError, IsProvoked) {
  const std::string code(error_entries()[GetParam()].code);
  Provocation provoke;
  for (auto provocations : {cache_and_memory(), files(), models(), text(), options_and_commands(), replays(), requests(),
                            server_and_http()}) {
    if (const auto found = provocations.find(code); found != provocations.end()) provoke = found->second;
  }
  ASSERT_TRUE(provoke) << "no test shows how to reach " << code;
  const std::string line = provoke();
  EXPECT_THAT(line, ::testing::StartsWith("[" + code + "] "));
  const std::string pattern(error_entries()[GetParam()].message);
  const std::regex field(R"(\{\w+\})");
  for (std::sregex_iterator at(pattern.begin(), pattern.end(), field); at != std::sregex_iterator(); ++at) {
    EXPECT_EQ(line.find(at->str()), std::string::npos) << "a field was not filled in: " << line;
  }
  EXPECT_EQ(find_error(line), static_cast<ErrorCode>(GetParam())) << line;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EveryError, ::testing::Range(std::size_t{0}, error_entries().size()),
                         [](const auto& entry) { return std::string(error_entries()[entry.param].code); });

}  // namespace
}  // namespace stemma
