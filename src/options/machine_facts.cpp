// Linux tells through /proc and /sys; a container's limits count where they are lower than the machine's.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include "options/facts.h"

namespace stemma {

namespace {

constexpr const char* kControlGroup = "/sys/fs/cgroup/";

// The first number of a control group's file; nullopt for "max" and where there is none.
std::optional<double> control_group_number(const char* name) {
  std::ifstream file(std::string(kControlGroup) + name);
  double value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

std::optional<double> control_group_cores() {
  std::ifstream file(std::string(kControlGroup) + "cpu.max");
  double quota = 0;
  double period = 0;
  return file >> quota >> period && period > 0 ? std::optional(quota / period) : std::nullopt;
}

std::size_t free_memory_of_machine() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::size_t kibibytes = 0;
  std::string unit;
  while (file >> key >> kibibytes) {
    if (key == "MemAvailable:") return kibibytes * 1024;
    std::getline(file, unit);
  }
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 2;
}

}  // namespace

MachineFacts read_machine_facts() {
  int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (const auto limit = control_group_cores()) {
    cores = std::clamp(static_cast<int>(std::ceil(*limit)), 1, cores);
  }
  std::size_t memory = free_memory_of_machine();
  if (const auto limit = control_group_number("memory.max")) {
    const double left = *limit - control_group_number("memory.current").value_or(0);
    memory = std::min(memory, static_cast<std::size_t>(std::max(0.0, left)));
  }
  return {.cores = cores, .available_memory = memory};
}

}  // namespace stemma
