#include "options/option_table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>

#include "cache/eviction_policy.h"
#include "core/log.h"
#include "options/rules.h"

namespace stemma {

namespace {

constexpr CommandSet kServe = only(Command::serve);
constexpr CommandSet kRun = only(Command::run);
constexpr CommandSet kServeAndRun = kServe | kRun;
constexpr CommandSet kInspect = only(Command::inspect);
constexpr CommandSet kMakeModel = only(Command::make_model);
constexpr CommandSet kExplain = only(Command::explain);
constexpr CommandSet kReplay = only(Command::replay);
constexpr CommandSet kPlan = only(Command::plan);
constexpr CommandSet kAll = kServeAndRun | kInspect | kMakeModel | kExplain | kReplay | kPlan;

constexpr double kMiB = 1024.0 * 1024;
constexpr double kTiB = kMiB * kMiB;
constexpr double kMaxTokens = 1 << 24;
constexpr double kMaxSeed = 4294967295.0;

constexpr std::array<CommandInfo, 7> kCommands = {{
    {Command::serve, "serve", "-m FILE [options]", "serve a model over the OpenAI API"},
    {Command::run, "run", "-m FILE -p TEXT [-n N] [options]", "complete one prompt and print the text"},
    {Command::inspect, "inspect", "FILE", "show what a GGUF file holds and what its cache will cost"},
    {Command::make_model, "make-model", "--arch NAME --preset NAME --type NAME --vocab FILE -o FILE",
     "write a model with random weights, for tests and benchmarks"},
    {Command::explain, "explain", "[CODE or MESSAGE] [--json]", "say what an error means and what to do about it"},
    {Command::replay, "replay", "TRACE... --model NAME --budget SIZES [options]",
     "run request traces through the cache and compare policies"},
    {Command::plan, "plan", "--model NAME [--memory SIZE] [--trace FILE]...",
     "say what a model's cache costs, and how to spend memory on it"},
}};

bool flag(const OptionValue& v) { return std::get<bool>(v); }
int integer(const OptionValue& v) { return static_cast<int>(std::get<std::int64_t>(v)); }
std::uint64_t natural(const OptionValue& v) { return static_cast<std::uint64_t>(std::get<std::int64_t>(v)); }
double number(const OptionValue& v) { return std::get<double>(v); }
float real(const OptionValue& v) { return static_cast<float>(std::get<double>(v)); }
const std::string& text(const OptionValue& v) { return std::get<std::string>(v); }

DType cache_type(const OptionValue& v) { return text(v) == "f32" ? DType::f32 : DType::f16; }

std::vector<Depth> depths(const OptionValue& v) {
  const auto& list = std::get<std::vector<std::int64_t>>(v);
  return {list.begin(), list.end()};
}

bool is_eviction_policy(std::string_view name) { return make_eviction_policy(name).has_value(); }

SchedulerStrategy strategy(const OptionValue& v) {
  for (const auto known : {SchedulerStrategy::no_buffer, SchedulerStrategy::extra_buffer,
                           SchedulerStrategy::extra_buffer_lazy}) {
    if (name_of(known) == text(v)) return known;
  }
  return SchedulerStrategy::automatic;
}

const OptionSpec kTable[] = {
    // --- Model -------------------------------------------------------------------------------------------------
    {.name = "model",
     .aliases = "-m --model-path",
     .commands = kServeAndRun,
     .group = "Model",
     .values = {ValueType::text},
     .placeholder = "FILE",
     .help = "the model, a GGUF file (of a split one, its first part)",
     .store = [](Options& o, const OptionValue& v) { o.model_path = text(v); },
     .required = true},
    {.name = "file",
     .commands = kInspect,
     .group = "Model",
     .values = {ValueType::text},
     .placeholder = "FILE",
     .help = "the GGUF file to look at",
     .store = [](Options& o, const OptionValue& v) { o.model_path = text(v); },
     .required = true,
     .positional = true},
    {.name = "alias",
     .aliases = "-a --served-model-name",
     .commands = kServe,
     .group = "Model",
     .values = {ValueType::text},
     .placeholder = "NAME",
     .help = "what /v1/models and answers call the model",
     .store = [](Options& o, const OptionValue& v) { o.server.model_alias = text(v); },
     .rule = choose_alias},
    {.name = "chat-template",
     .aliases = "--chat-template-file",
     .commands = kServeAndRun,
     .group = "Model",
     .values = {ValueType::text},
     .placeholder = "FILE",
     .help = "a Jinja chat template instead of the model's own: a file, or the template itself",
     .store = [](Options& o, const OptionValue& v) { o.chat_template = text(v); }},

    // --- Machine -----------------------------------------------------------------------------------------------
    {.name = "threads",
     .aliases = "-t",
     .commands = kServeAndRun,
     .group = "Machine",
     .values = {ValueType::integer, 1, 1024},
     .placeholder = "N",
     .help = "threads that compute",
     .store = [](Options& o, const OptionValue& v) { o.device.threads = o.engine.sampling_threads = integer(v); },
     .rule = choose_threads},

    // --- Cache -------------------------------------------------------------------------------------------------
    {.name = "cache-type-k",
     .aliases = "-ctk",
     .commands = kServeAndRun,
     .group = "Cache",
     .values = {.type = ValueType::choice, .choices = "f16 f32"},
     .placeholder = "TYPE",
     .default_text = "f16",
     .help = "how the attention's keys are kept",
     .store = [](Options& o, const OptionValue& v) { o.engine.k_type = cache_type(v); }},
    {.name = "cache-type-v",
     .aliases = "-ctv",
     .commands = kServeAndRun,
     .group = "Cache",
     .values = {.type = ValueType::choice, .choices = "f16 f32"},
     .placeholder = "TYPE",
     .default_text = "f16",
     .help = "how the attention's values are kept",
     .store = [](Options& o, const OptionValue& v) { o.engine.v_type = cache_type(v); }},
    {.name = "page-size",
     .commands = kServeAndRun,
     .group = "Cache",
     .values = {ValueType::integer, 1, 256},
     .placeholder = "TOKENS",
     .default_text = "16",
     .help = "tokens in a page of KV; reuse is exact to the token whatever it is",
     .store = [](Options& o, const OptionValue& v) { o.engine.page_size = integer(v); }},
    {.name = "cache-memory",
     .commands = kServeAndRun,
     .group = "Cache",
     .values = {ValueType::bytes, kMiB, 64 * kTiB},
     .placeholder = "SIZE",
     .help = "memory for KV pages and recurrent states together",
     .store = [](Options& o, const OptionValue& v) { o.engine.cache_bytes = natural(v); },
     .rule = choose_cache_memory},
    {.name = "state-share",
     .commands = kServe,
     .group = "Cache",
     .values = {ValueType::number, 0, 1},
     .placeholder = "SHARE",
     .help = "split the cache memory: so much of it is for recurrent states. Without it, pages and "
             "states share all of it and what is worth more stays",
     .store = [](Options& o, const OptionValue& v) { o.engine.state_share = number(v); }},
    {.name = "eviction-policy",
     .aliases = "--radix-eviction-policy",
     .commands = kServe,
     .group = "Cache",
     .values = {.type = ValueType::choice,
                .choices = "value lru lfu slru priority marconi seglen",
                .form = "marconi:ALPHA with ALPHA >= 0",
                .has_form = is_eviction_policy},
     .placeholder = "NAME",
     .default_text = "value",
     .help = "what goes first when the cache is full",
     .store = [](Options& o, const OptionValue& v) { o.engine.eviction = text(v); }},
    {.name = "mamba-scheduler-strategy",
     .aliases = "--mamba-radix-cache-strategy",
     .switches = "--enable-mamba-extra-buffer=extra_buffer",
     .commands = kServe,
     .group = "Cache",
     .values = {.type = ValueType::choice,
                .choices = "auto no_buffer extra_buffer extra_buffer_lazy"},
     .placeholder = "NAME",
     .default_text = "auto",
     .help = "when recurrent states are stored: only where a request ends (no_buffer), also on the "
             "way, in a row set aside for each request (extra_buffer) or taken by the step that "
             "needs it (extra_buffer_lazy, which is auto's choice). Each works with every page "
             "size, chunk size, schedule and device",
     .store = [](Options& o, const OptionValue& v) { o.engine.strategy = strategy(v); }},
    {.name = "snapshot-periodic-interval",
     .aliases = "--periodic-snapshot-interval",
     .commands = kServe,
     .group = "Cache",
     .values = {ValueType::integer, 0, kMaxTokens},
     .placeholder = "TOKENS",
     .default_text = "512",
     .help = "store the recurrent state every so many tokens of a prompt; 0 = never",
     .store = [](Options& o, const OptionValue& v) { o.engine.snapshot.periodic_interval = integer(v); }},
    {.name = "snapshot-idle-interval",
     .commands = kServe,
     .group = "Cache",
     .values = {ValueType::integer, 0, kMaxTokens},
     .placeholder = "TOKENS",
     .default_text = "64",
     .help = "the same while most of the states' memory is free; 0 = as the periodic interval",
     .store = [](Options& o, const OptionValue& v) { o.engine.snapshot.idle_interval = integer(v); }},
    {.name = "snapshot-generation-interval",
     .aliases = "--mamba-track-interval",
     .commands = kServe,
     .group = "Cache",
     .values = {ValueType::integer, 0, kMaxTokens},
     .placeholder = "TOKENS",
     .default_text = "256",
     .help = "store the state every so many tokens while an answer is generated; 0 = never",
     .store = [](Options& o, const OptionValue& v) { o.engine.snapshot.generation_interval = integer(v); }},
    {.name = "snapshot-ladder",
     .commands = kServe,
     .group = "Cache",
     .values = {ValueType::integer, 0, kMaxTokens},
     .placeholder = "TOKENS",
     .default_text = "1024",
     .help = "store the state of a prompt at this depth, twice, four times, ... this depth; 0 = never",
     .store = [](Options& o, const OptionValue& v) { o.engine.snapshot.ladder_start = integer(v); }},
    {.name = "snapshot-offsets-from-start",
     .aliases = "--additional-snapshot-offsets-from-start",
     .commands = kServe,
     .group = "Cache",
     .values = {ValueType::integers, 1, kMaxTokens},
     .placeholder = "TOKENS,...",
     .help = "store the state of each prompt at these depths",
     .store = [](Options& o, const OptionValue& v) { o.engine.snapshot.offsets_from_start = depths(v); }},
    {.name = "snapshot-offsets-from-end",
     .aliases = "--additional-snapshot-offsets-from-end",
     .commands = kServe,
     .group = "Cache",
     .values = {ValueType::integers, 0, kMaxTokens},
     .placeholder = "TOKENS,...",
     .help = "store the state of each prompt so many tokens before its end; 0 = at its end",
     .store = [](Options& o, const OptionValue& v) { o.engine.snapshot.offsets_from_end = depths(v); }},
    {.name = "snapshot-branch",
     .aliases = "--enable-branch-snapshot",
     .commands = kServe,
     .group = "Cache",
     .values = {ValueType::toggle},
     .placeholder = "on|off",
     .default_text = "on",
     .help = "store the state where a prompt leaves what is known",
     .store = [](Options& o, const OptionValue& v) { o.engine.snapshot.branch_snapshot = flag(v); }},
    {.name = "snapshot-message",
     .commands = kServe,
     .group = "Cache",
     .values = {ValueType::toggle},
     .placeholder = "on|off",
     .default_text = "on",
     .help = "store the state where a chat message ends",
     .store = [](Options& o, const OptionValue& v) { o.engine.snapshot.message_snapshot = flag(v); }},
    {.name = "snapshot-repeat",
     .commands = kServe,
     .group = "Cache",
     .values = {ValueType::toggle},
     .placeholder = "on|off",
     .default_text = "on",
     .help = "store the state before a prompt's last token, for an exact repeat",
     .store = [](Options& o, const OptionValue& v) { o.engine.snapshot.repeat_snapshot = flag(v); }},
    {.name = "snapshot-end",
     .commands = kServe,
     .group = "Cache",
     .values = {ValueType::toggle},
     .placeholder = "on|off",
     .default_text = "on",
     .help = "store the state where an answer ends, for the next turn",
     .store = [](Options& o, const OptionValue& v) { o.engine.snapshot.end_snapshot = flag(v); }},
    {.name = "snapshot-path-share",
     .commands = kServe,
     .group = "Cache",
     .values = {ValueType::number, 0.001, 1},
     .placeholder = "SHARE",
     .default_text = "0.5",
     .help = "of all state rows, how many one prompt's path may take by plan. SGLang's "
             "--mamba-max-states-per-path counts rows: N of them are a share of N / rows",
     .store = [](Options& o, const OptionValue& v) { o.engine.snapshot.path_share = number(v); }},

    // --- Scheduling --------------------------------------------------------------------------------------------
    {.name = "max-running-requests",
     .aliases = "-np --parallel",
     .commands = kServe,
     .group = "Scheduling",
     .values = {ValueType::integer, 1, 65536},
     .placeholder = "N",
     .default_text = "64",
     .help = "requests that run at once; the others wait",
     .store = [](Options& o, const OptionValue& v) { o.engine.max_sequences = integer(v); }},
    {.name = "ctx-size",
     .aliases = "-c --context-length",
     .commands = kServeAndRun,
     .group = "Scheduling",
     .values = {ValueType::integer, 1, kMaxTokens},
     .placeholder = "TOKENS",
     .help = "longest prompt and answer together",
     .store = [](Options& o, const OptionValue& v) { o.engine.context_length = integer(v); },
     .rule = choose_context_length},
    {.name = "chunked-prefill-size",
     .aliases = "-b --batch-size",
     .commands = kServeAndRun,
     .group = "Scheduling",
     .values = {ValueType::integer, 1, 65536},
     .placeholder = "TOKENS",
     .default_text = "512",
     .help = "tokens of one step, over all requests; smaller steps keep running answers smoother",
     .store = [](Options& o, const OptionValue& v) { o.engine.step_tokens = integer(v); }},
    {.name = "mixed-prefill-tokens",
     .commands = kServe,
     .group = "Scheduling",
     .values = {ValueType::integer, 1, 65536},
     .placeholder = "TOKENS",
     .default_text = "64",
     .help = "of a step's tokens, those for prompts while other requests generate: bounds the gaps in their answers",
     .store = [](Options& o, const OptionValue& v) { o.engine.mixed_prefill_tokens = integer(v); }},
    {.name = "max-waiting",
     .aliases = "--max-queued-requests",
     .commands = kServe,
     .group = "Scheduling",
     .values = {ValueType::integer, 0, 1e9},
     .placeholder = "N",
     .default_text = "4096",
     .help = "requests that may wait; more are refused",
     .store = [](Options& o, const OptionValue& v) { o.engine.max_waiting = natural(v); }},
    {.name = "max-prompt-length",
     .commands = kServe,
     .group = "Scheduling",
     .values = {ValueType::integer, 0, 1 << 30},
     .placeholder = "TOKENS",
     .default_text = "0",
     .help = "longest prompt; longer ones are refused. 0: what the context holds",
     .store = [](Options& o, const OptionValue& v) { o.engine.max_prompt_tokens = integer(v); }},
    {.name = "schedule-policy",
     .commands = kServe,
     .group = "Scheduling",
     .values = {.type = ValueType::choice, .choices = "fcfs lpm"},
     .placeholder = "NAME",
     .default_text = "fcfs",
     .help = "who is next: in order of arrival (fcfs) or with the longest cached prefix first (lpm)",
     .store =
         [](Options& o, const OptionValue& v) {
           o.engine.admission = text(v) == "lpm" ? AdmissionPolicy::longest_prefix : AdmissionPolicy::arrival;
         }},
    {.name = "watchdog-timeout",
     .aliases = "--soft-watchdog-timeout",
     .commands = kServe,
     .group = "Scheduling",
     .values = {ValueType::number, 0, 1e6},
     .placeholder = "SECONDS",
     .default_text = "300",
     .help = "a step that takes longer is reported in the log and by /health; 0 = never",
     .store = [](Options& o, const OptionValue& v) { o.engine.watchdog_seconds = number(v); }},

    // --- Server ------------------------------------------------------------------------------------------------
    {.name = "host",
     .commands = kServe,
     .group = "Server",
     .values = {ValueType::text},
     .placeholder = "ADDRESS",
     .default_text = "127.0.0.1",
     .help = "address to listen on; 0.0.0.0 = all of this machine's",
     .store = [](Options& o, const OptionValue& v) { o.server.host = text(v); }},
    {.name = "port",
     .commands = kServe,
     .group = "Server",
     .values = {ValueType::integer, 0, 65535},
     .placeholder = "N",
     .default_text = "8080",
     .help = "port to listen on; 0 = one that is free",
     .store = [](Options& o, const OptionValue& v) { o.server.port = static_cast<std::uint16_t>(integer(v)); }},
    {.name = "api-key",
     .commands = kServe,
     .group = "Server",
     .values = {ValueType::texts},
     .placeholder = "KEY",
     .help = "ask clients for a key; may be given several times",
     .store =
         [](Options& o, const OptionValue& v) { o.server.api_keys = std::get<std::vector<std::string>>(v); },
     .secret = true},
    {.name = "max-body-size",
     .commands = kServe,
     .group = "Server",
     .values = {ValueType::bytes, 1024, kTiB},
     .placeholder = "SIZE",
     .default_text = "32M",
     .help = "longest request body",
     .store = [](Options& o, const OptionValue& v) { o.server.max_body_bytes = natural(v); }},
    {.name = "threads-http",
     .commands = kServe,
     .group = "Server",
     .values = {ValueType::integer, 1, 256},
     .placeholder = "N",
     .default_text = "1",
     .help = "threads that read and write connections",
     .store = [](Options& o, const OptionValue& v) { o.server.io_threads = integer(v); }},
    {.name = "tokenizer-workers",
     .aliases = "--tokenizer-worker-num",
     .commands = kServe,
     .group = "Server",
     .values = {ValueType::integer, 1, 256},
     .placeholder = "N",
     .default_text = "1",
     .help = "threads that parse, render and tokenize requests",
     .store = [](Options& o, const OptionValue& v) { o.server.worker_threads = integer(v); }},
    {.name = "drain-timeout",
     .commands = kServe,
     .group = "Server",
     .values = {ValueType::number, 0, 86400},
     .placeholder = "SECONDS",
     .default_text = "30",
     .help = "how long requests under way may go on after Ctrl-C or SIGTERM; a second signal ends at once",
     .store = [](Options& o, const OptionValue& v) { o.drain_seconds = number(v); }},

    // --- Prompt and sampling (stemma run) ----------------------------------------------------------------------
    {.name = "prompt",
     .aliases = "-p",
     .commands = kRun,
     .group = "Prompt",
     .values = {ValueType::text},
     .placeholder = "TEXT",
     .help = "the text to continue",
     .store = [](Options& o, const OptionValue& v) { o.run.prompt = text(v); },
     .required = true},
    {.name = "chat",
     .commands = kRun,
     .group = "Prompt",
     .values = {ValueType::flag},
     .help = "the text is a user's message: put it into the chat template",
     .store = [](Options& o, const OptionValue& v) { o.run.chat = flag(v); }},
    {.name = "n-predict",
     .aliases = "-n --predict --max-tokens",
     .commands = kRun,
     .group = "Prompt",
     .values = {ValueType::integer, 0, kMaxTokens},
     .placeholder = "N",
     .default_text = "128",
     .help = "tokens to generate",
     .store = [](Options& o, const OptionValue& v) { o.run.tokens = integer(v); }},
    {.name = "temp",
     .aliases = "--temperature",
     .commands = kRun,
     .group = "Sampling",
     .values = {ValueType::number, 0, 100},
     .placeholder = "T",
     .default_text = "0.8",
     .help = "how freely to choose; 0 = always the likeliest token",
     .store = [](Options& o, const OptionValue& v) { o.run.sampling.temperature = real(v); }},
    {.name = "top-k",
     .commands = kRun,
     .group = "Sampling",
     .values = {ValueType::integer, 0, 1e9},
     .placeholder = "N",
     .default_text = "40",
     .help = "choose among the N likeliest tokens; 0 = all",
     .store = [](Options& o, const OptionValue& v) { o.run.sampling.top_k = integer(v); }},
    {.name = "top-p",
     .commands = kRun,
     .group = "Sampling",
     .values = {ValueType::number, 0, 1},
     .placeholder = "P",
     .default_text = "0.95",
     .help = "choose among the likeliest tokens that together have probability P; 1 = all",
     .store = [](Options& o, const OptionValue& v) { o.run.sampling.top_p = real(v); }},
    {.name = "min-p",
     .commands = kRun,
     .group = "Sampling",
     .values = {ValueType::number, 0, 1},
     .placeholder = "P",
     .default_text = "0.05",
     .help = "leave out tokens less likely than P times the likeliest; 0 = none",
     .store = [](Options& o, const OptionValue& v) { o.run.sampling.min_p = real(v); }},
    {.name = "repeat-penalty",
     .commands = kRun,
     .group = "Sampling",
     .values = {ValueType::number, 0.01, 100},
     .placeholder = "X",
     .default_text = "1",
     .help = "make tokens of the last --repeat-last-n less likely; 1 = off",
     .store = [](Options& o, const OptionValue& v) { o.run.sampling.repeat_penalty = real(v); }},
    {.name = "repeat-last-n",
     .commands = kRun,
     .group = "Sampling",
     .values = {ValueType::integer, -1, kMaxTokens},
     .placeholder = "N",
     .default_text = "64",
     .help = "window of the penalties; -1 = everything",
     .store = [](Options& o, const OptionValue& v) { o.run.sampling.repeat_last_n = integer(v); }},
    {.name = "frequency-penalty",
     .commands = kRun,
     .group = "Sampling",
     .values = {ValueType::number, -2, 2},
     .placeholder = "X",
     .default_text = "0",
     .help = "make tokens less likely by how often they occurred",
     .store = [](Options& o, const OptionValue& v) { o.run.sampling.frequency_penalty = real(v); }},
    {.name = "presence-penalty",
     .commands = kRun,
     .group = "Sampling",
     .values = {ValueType::number, -2, 2},
     .placeholder = "X",
     .default_text = "0",
     .help = "make tokens that occurred less likely",
     .store = [](Options& o, const OptionValue& v) { o.run.sampling.presence_penalty = real(v); }},
    {.name = "seed",
     .aliases = "-s",
     .commands = kRun,
     .group = "Sampling",
     .values = {ValueType::integer, 0, kMaxSeed},
     .placeholder = "N",
     .default_text = "0",
     .help = "same seed, same text",
     .store = [](Options& o, const OptionValue& v) { o.run.sampling.seed = natural(v); }},
    {.name = "ignore-eos",
     .commands = kRun,
     .group = "Sampling",
     .values = {ValueType::flag},
     .help = "go on after the end-of-text token",
     .store = [](Options& o, const OptionValue& v) { o.run.sampling.ignore_eos = flag(v); }},

    // --- Random models (stemma make-model) ---------------------------------------------------------------------
    {.name = "arch",
     .commands = kMakeModel,
     .group = "Model to write",
     .values = {.type = ValueType::choice, .choices = "qwen35 llama qwen3"},
     .placeholder = "NAME",
     .help = "architecture",
     .store = [](Options& o, const OptionValue& v) { o.make_model.architecture = text(v); },
     .required = true},
    {.name = "preset",
     .commands = kMakeModel,
     .group = "Model to write",
     .values = {.type = ValueType::choice, .choices = "tiny small 0.8b"},
     .placeholder = "NAME",
     .default_text = "tiny",
     .help = "size",
     .store = [](Options& o, const OptionValue& v) { o.make_model.preset = text(v); }},
    {.name = "type",
     .commands = kMakeModel,
     .group = "Model to write",
     .values = {.type = ValueType::choice, .choices = "f32 f16 bf16 q8_0 q4_0 q4_k"},
     .placeholder = "NAME",
     .default_text = "q8_0",
     .help = "element type of the matrices",
     .store = [](Options& o, const OptionValue& v) { o.make_model.type = text(v); }},
    {.name = "seed",
     .commands = kMakeModel,
     .group = "Model to write",
     .values = {ValueType::integer, 0, kMaxSeed},
     .placeholder = "N",
     .default_text = "0",
     .help = "same seed, same file",
     .store = [](Options& o, const OptionValue& v) { o.make_model.seed = natural(v); }},
    {.name = "vocab",
     .commands = kMakeModel,
     .group = "Model to write",
     .values = {ValueType::text},
     .placeholder = "FILE",
     .help = "a GGUF file whose tokenizer is copied",
     .store = [](Options& o, const OptionValue& v) { o.make_model.vocabulary_path = text(v); },
     .required = true},
    {.name = "output",
     .aliases = "-o",
     .commands = kMakeModel,
     .group = "Model to write",
     .values = {ValueType::text},
     .placeholder = "FILE",
     .help = "where the model goes",
     .store = [](Options& o, const OptionValue& v) { o.make_model.output_path = text(v); },
     .required = true},

    // --- Errors (stemma explain) -------------------------------------------------------------------------------
    {.name = "error",
     .commands = kExplain,
     .group = "Error",
     .values = {ValueType::texts},
     .placeholder = "CODE or MESSAGE",
     .help = "an error's code, or its message as it was printed; without it, all codes are listed",
     .store =
         [](Options& o, const OptionValue& v) {
           for (const std::string& word : std::get<std::vector<std::string>>(v)) {
             if (!o.explain.text.empty()) o.explain.text += ' ';
             o.explain.text += word;
           }
         },
     .positional = true},
    {.name = "json",
     .commands = kExplain,
     .group = "Error",
     .values = {ValueType::flag},
     .help = "print all errors as JSON",
     .store = [](Options& o, const OptionValue& v) { o.explain.json = flag(v); }},

    // --- Replay (stemma replay) --------------------------------------------------------------------------------
    {.name = "trace",
     .commands = kReplay,
     .group = "Trace",
     .values = {ValueType::texts},
     .placeholder = "TRACE",
     .help = "request traces: agent-coding, Mooncake, Bailian or Marconi JSON lines, Azure CSV",
     .store = [](Options& o, const OptionValue& v) { o.replay.traces = std::get<std::vector<std::string>>(v); },
     .required = true,
     .positional = true},
    {.name = "model",
     .aliases = "-m",
     .commands = kReplay,
     .group = "Trace",
     .values = {ValueType::text},
     .placeholder = "NAME",
     .help = "whose sizes count: a published model's name, or a GGUF file",
     .store = [](Options& o, const OptionValue& v) { o.replay.model = text(v); },
     .required = true},
    {.name = "sessions",
     .commands = kReplay,
     .group = "Trace",
     .values = {ValueType::integer, 0, kMaxTokens},
     .placeholder = "N",
     .default_text = "0",
     .help = "run every k-th session only, so that at most N are left; 0 = all",
     .store = [](Options& o, const OptionValue& v) { o.replay.sessions = integer(v); }},
    {.name = "unit",
     .commands = kReplay,
     .group = "Trace",
     .values = {ValueType::text},
     .placeholder = "SIZE",
     .default_text = "block",
     .help = "what counts as a token of the cache: block (the trace's), token, or a number of tokens",
     .store = [](Options& o, const OptionValue& v) { o.replay.unit = text(v); }},
    {.name = "budget",
     .commands = kReplay,
     .group = "Cache",
     .values = {ValueType::text},
     .placeholder = "SIZES",
     .help = "memory for pages and states, e.g. 8GiB; several with commas; auto = where lru reaches 35, 55, 75 and 90 % "
             "of the infinite cache",
     .store = [](Options& o, const OptionValue& v) { o.replay.budgets = text(v); },
     .required = true},
    {.name = "policy",
     .commands = kReplay,
     .group = "Cache",
     .values = {ValueType::text},
     .placeholder = "NAMES",
     .default_text = "value",
     .help = "what to compare, with commas: eviction policies of the cache; llama-server, vllm, sglang (models of theirs); "
             "offline (knows the future)",
     .store = [](Options& o, const OptionValue& v) { o.replay.systems = text(v); }},
    {.name = "codec",
     .commands = kReplay,
     .group = "Cache",
     .values = {.type = ValueType::choice, .choices = "f32 bf16 int8"},
     .placeholder = "NAME",
     .default_text = "f32",
     .help = "how states are stored",
     .store = [](Options& o, const OptionValue& v) { o.replay.codec = text(v); }},
    {.name = "state-share",
     .commands = kReplay,
     .group = "Cache",
     .values = {ValueType::number, 0, 1},
     .placeholder = "SHARE",
     .help = "part of the budget that goes to states; without it, one pool whose split the cache finds",
     .store = [](Options& o, const OptionValue& v) { o.replay.state_share = number(v); }},
    {.name = "orders",
     .commands = kReplay,
     .group = "Load",
     .values = {ValueType::integer, 1, 10000},
     .placeholder = "N",
     .default_text = "1",
     .help = "shuffled orders of the sessions, the same for every policy; 1 = the trace's own",
     .store = [](Options& o, const OptionValue& v) { o.replay.orders = integer(v); }},
    {.name = "seed",
     .commands = kReplay,
     .group = "Load",
     .values = {ValueType::integer, 0, kMaxSeed},
     .placeholder = "N",
     .default_text = "1",
     .help = "of the first order",
     .store = [](Options& o, const OptionValue& v) { o.replay.seed = natural(v); }},
    {.name = "concurrency",
     .aliases = "-np",
     .commands = kReplay,
     .group = "Load",
     .values = {ValueType::integer, 1, 65536},
     .placeholder = "N",
     .default_text = "32",
     .help = "requests that run at once, and sessions where the trace has think times",
     .store = [](Options& o, const OptionValue& v) { o.replay.concurrency = integer(v); }},
    {.name = "chunk",
     .commands = kReplay,
     .group = "Load",
     .values = {ValueType::integer, 1, kMaxTokens},
     .placeholder = "TOKENS",
     .default_text = "2048",
     .help = "tokens of a prompt that one step computes",
     .store = [](Options& o, const OptionValue& v) { o.replay.chunk = integer(v); }},
    {.name = "profile",
     .commands = kReplay,
     .group = "Load",
     .values = {ValueType::text},
     .placeholder = "NAME",
     .default_text = "gpu",
     .help = "how fast the machine is: gpu (80000:100), cpu (300:15), marconi (18500:50), or PREFILL:DECODE in tokens/s",
     .store = [](Options& o, const OptionValue& v) { o.replay.profile = text(v); }},
    {.name = "threads",
     .aliases = "-t",
     .commands = kReplay,
     .group = "Load",
     .values = {ValueType::integer, 1, 1024},
     .placeholder = "N",
     .default_text = "2",
     .help = "replays that run at a time",
     .store = [](Options& o, const OptionValue& v) { o.replay.threads = integer(v); }},
    {.name = "format",
     .commands = kReplay,
     .group = "Output",
     .values = {.type = ValueType::choice, .choices = "text json"},
     .placeholder = "NAME",
     .default_text = "text",
     .help = "tables, or everything as JSON",
     .store = [](Options& o, const OptionValue& v) { o.replay.format = text(v); }},
    {.name = "plot",
     .commands = kReplay,
     .group = "Output",
     .values = {ValueType::text},
     .placeholder = "FILE",
     .help = "write an SVG plot of hits against memory; one a trace",
     .store = [](Options& o, const OptionValue& v) { o.replay.plot = text(v); }},

    // --- Plan (stemma plan) ------------------------------------------------------------------------------------
    {.name = "model",
     .aliases = "-m",
     .commands = kPlan,
     .group = "Plan",
     .values = {ValueType::text},
     .placeholder = "NAME",
     .help = "whose sizes count: a published model's name, or a GGUF file",
     .store = [](Options& o, const OptionValue& v) { o.plan.model = text(v); },
     .required = true},
    {.name = "memory",
     .commands = kPlan,
     .group = "Plan",
     .values = {ValueType::bytes, kMiB, kTiB * 1024},
     .placeholder = "SIZE",
     .help = "memory for pages and states; with a trace and without it, one that makes the choice matter",
     .store = [](Options& o, const OptionValue& v) { o.plan.memory_bytes = natural(v); }},
    {.name = "trace",
     .commands = kPlan,
     .group = "Plan",
     .values = {ValueType::texts},
     .placeholder = "FILE",
     .help = "a request trace to find the best split, codec and snapshots for",
     .store = [](Options& o, const OptionValue& v) { o.plan.traces = std::get<std::vector<std::string>>(v); }},
    {.name = "policy",
     .commands = kPlan,
     .group = "Plan",
     .values = {ValueType::text},
     .placeholder = "NAME",
     .default_text = "value",
     .help = "the eviction policy that runs",
     .store = [](Options& o, const OptionValue& v) { o.plan.policy = text(v); }},
    {.name = "sessions",
     .commands = kPlan,
     .group = "Plan",
     .values = {ValueType::integer, 0, kMaxTokens},
     .placeholder = "N",
     .default_text = "0",
     .help = "run every k-th session only, so that at most N are left; 0 = all",
     .store = [](Options& o, const OptionValue& v) { o.plan.sessions = integer(v); }},
    {.name = "concurrency",
     .aliases = "-np",
     .commands = kPlan,
     .group = "Plan",
     .values = {ValueType::integer, 1, 65536},
     .placeholder = "N",
     .default_text = "32",
     .help = "requests that run at once, and sessions where the trace has think times",
     .store = [](Options& o, const OptionValue& v) { o.plan.concurrency = integer(v); }},
    {.name = "profile",
     .commands = kPlan,
     .group = "Plan",
     .values = {ValueType::text},
     .placeholder = "NAME",
     .default_text = "gpu",
     .help = "how fast the machine is: gpu, cpu, marconi, or PREFILL:DECODE in tokens/s",
     .store = [](Options& o, const OptionValue& v) { o.plan.profile = text(v); }},

    // --- General -----------------------------------------------------------------------------------------------
    {.name = "log-level",
     .commands = kServeAndRun,
     .group = "General",
     .values = {.type = ValueType::choice, .choices = kLogLevels},
     .placeholder = "LEVEL",
     .default_text = "info",
     .help = "how much to log",
     .store = [](Options& o, const OptionValue& v) { o.log_level = text(v); }},
    {.name = "config",
     .commands = kServeAndRun,
     .group = "General",
     .values = {ValueType::text},
     .placeholder = "FILE",
     .help = "read options from a JSON file: {\"threads\": 4, \"ctx-size\": 8192}; flags and environment go first"},
    {.name = "help",
     .aliases = "-h",
     .commands = kAll,
     .group = "General",
     .values = {ValueType::flag},
     .help = "show this help"},
};

// Number of single-character edits between two words.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

std::string_view without_dashes(std::string_view flag) {
  flag.remove_prefix(std::min(flag.find_first_not_of('-'), flag.size()));
  return flag;
}

}  // namespace

std::span<const CommandInfo> command_infos() { return kCommands; }

std::optional<Command> find_command(std::string_view name) {
  for (const CommandInfo& info : kCommands) {
    if (info.name == name) return info.command;
  }
  return std::nullopt;
}

std::span<const OptionSpec> option_table() { return kTable; }

const OptionSpec* find_option(Command command, std::string_view flag) {
  const std::string_view name = without_dashes(flag);
  for (const OptionSpec& spec : kTable) {
    if (!contains(spec.commands, command) || spec.positional) continue;
    if (spec.name == name) return &spec;
    for (const std::string_view alias : words(spec.aliases)) {
      if (without_dashes(alias) == name) return &spec;
    }
  }
  return nullptr;
}

std::optional<std::string> nearest_flag(Command command, std::string_view flag) {
  const std::string_view name = without_dashes(flag);
  std::optional<std::string> nearest;
  std::size_t best = std::max<std::size_t>(2, name.size() / 3) + 1;  // further away is another word
  const auto consider = [&](std::string_view candidate, std::string written) {
    std::size_t distance = edit_distance(name, candidate);
    if (name.size() >= 3 && candidate.starts_with(name)) distance = 1;
    if (distance < best) {
      best = distance;
      nearest = std::move(written);
    }
  };
  for (const OptionSpec& spec : kTable) {
    if (!contains(spec.commands, command) || spec.positional) continue;
    consider(spec.name, flag_name(spec));
    for (const std::string_view alias : words(spec.aliases)) {
      if (alias.starts_with("--")) consider(without_dashes(alias), std::string(alias));
    }
    for (const std::string_view pair : words(spec.switches)) {
      const std::string_view name_of_switch = pair.substr(0, pair.find('='));
      consider(without_dashes(name_of_switch), std::string(name_of_switch));
    }
  }
  return nearest;
}

std::string flag_name(const OptionSpec& spec) {
  return spec.positional ? std::string(spec.placeholder) : "--" + std::string(spec.name);
}

std::string environment_name(const OptionSpec& spec) {
  std::string name = "STEMMA_";
  for (const unsigned char c : spec.name) name += c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return name;
}

bool has_environment(const OptionSpec& spec) {
  return contains(spec.commands, Command::serve) && spec.values.type != ValueType::flag;
}

}  // namespace stemma
