#pragma once
// The lines of a trace file, and checked access to what is in them. Whatever a line holds, the
// answer is a value or an error that names the file, the line and the reason.

#include <cstdint>
#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace stemma::replay {

class TraceLines {
 public:
  // `input` must outlive this.
  TraceLines(std::istream& input, std::string file) : input_(input), file_(std::move(file)) {}

  // The next line that is not blank; nullopt at the end. Valid until the next call.
  std::optional<std::string_view> next();
  // The line that next() will give.
  std::optional<std::string_view> peek();

  const std::string& file() const { return file_; }
  // `trace_bad_line` for the line that next() gave last.
  tl::unexpected<Error> bad(std::string_view reason) const;

  // The next line as a JSON object; nullopt at the end. Errors: `trace_bad_line`.
  Result<std::optional<nlohmann::json>> next_object();

  // A field of an object, within bounds. Errors: `trace_bad_line`.
  Result<std::int64_t> integer(const nlohmann::json& object, const char* field, std::int64_t min,
                               std::int64_t max) const;
  Result<double> number(const nlohmann::json& object, const char* field, double min,
                        double max) const;
  Result<double> number_or(const nlohmann::json& object, const char* field, double otherwise) const;
  Result<const nlohmann::json*> array(const nlohmann::json& object, const char* field) const;
  // An array of integers of at most 64 bits.
  Result<std::vector<std::uint64_t>> ids(const nlohmann::json& object, const char* field) const;

 private:
  std::istream& input_;
  std::string file_;
  std::string line_;
  bool peeked_ = false;
  std::size_t number_ = 0;  // of line_, from 1
};

}  // namespace stemma::replay
