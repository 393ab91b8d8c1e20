#pragma once
// What resolution knows of the world: the machine and, once it has been opened, the model.

#include <cstddef>
#include <functional>
#include <optional>

#include "core/ids.h"
#include "engine/engine.h"

namespace stemma {

struct MachineFacts {
  int cores;                      // that this process may use
  std::size_t available_memory;   // bytes that can be had without swapping
};

struct ModelFacts {
  Depth context_length;  // trained
  // Whether the cache memory of a configuration holds one sequence of its context length (split_memory()). Pure.
  std::function<bool(const EngineConfig& config)> fits;
};

struct Facts {
  MachineFacts machine;
  std::optional<ModelFacts> model;
};

// Reads /proc and, inside a container, its control group's limits.
MachineFacts read_machine_facts();

}  // namespace stemma
