#include "core/error_catalogue.h"

namespace stemma {

namespace {
#include "core/error_entries.inc"
}  // namespace

std::span<const ErrorEntry> error_entries() { return kEntries; }

}  // namespace stemma
