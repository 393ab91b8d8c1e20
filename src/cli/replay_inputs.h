#pragma once
// What `stemma replay` and `stemma plan` read from their options.

#include <string>
#include <vector>

#include "core/result.h"
#include "replay/model_costs.h"
#include "replay/trace.h"

namespace stemma {

// "a,b" -> a, b; empty parts are left out.
std::vector<std::string> split_at_commas(const std::string& list);

// "4GiB,8GiB" in bytes. Errors: `option_bad_value`.
Result<std::vector<double>> read_budgets(const std::string& option, const std::string& list);

// A preset by its name, or the sizes of the GGUF file of that path. Errors: `replay_unknown_model`,
// those of GgufFile::open and load_model.
Result<replay::ModelCosts> read_model_costs(const std::string& name_or_path);

// A trace, or every k-th session of it if `sessions` is not 0. Errors: those of read_trace_file.
Result<replay::Trace> read_trace(const std::string& path, int sessions);

}  // namespace stemma
