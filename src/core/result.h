#pragma once
// Errors as values. Everything that can fail after start-up returns a Result; exceptions of libraries are caught
// where the library is called.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "core/error_codes.h"  // generated from src/core/errors/*.json
#include "tl/expected.hpp"

namespace stemma {

// What went wrong, in words for the person who meets it. The code names an entry of the error catalogue
// (`stemma explain CODE`), the message is that entry's pattern with its fields filled in.
class Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // "[code] message", as logs and the command line print it.
  std::string to_string() const;

 private:
  ErrorCode code_;
  std::string message_;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

// Fills the `{field}`s of the catalogue's pattern for `code`. A field that the pattern names and `fields` lacks
// stays as written; a checked build asserts that there is none. O(length).
Error make_error(ErrorCode code,
                 std::initializer_list<std::pair<std::string_view, std::string>> fields = {});

// The same, ready to return from a function that returns any Result.
tl::unexpected<Error> fail(ErrorCode code,
                           std::initializer_list<std::pair<std::string_view, std::string>> fields = {});

}  // namespace stemma

#define STEMMA_CONCAT_INNER(a, b) a##b
#define STEMMA_CONCAT(a, b) STEMMA_CONCAT_INNER(a, b)

// STEMMA_TRY(auto x, f()); declares x from f()'s value, or returns f()'s error from this function.
#define STEMMA_TRY(declaration, expression) \
  STEMMA_TRY_INNER(STEMMA_CONCAT(stemma_result_, __LINE__), declaration, expression)
#define STEMMA_TRY_INNER(result, declaration, expression)                \
  auto result = (expression);                                            \
  if (!result) return tl::unexpected<::stemma::Error>(std::move(result).error()); \
  declaration = std::move(result).value()

// STEMMA_CHECK(f()); returns f()'s error from this function; f() has no value.
#define STEMMA_CHECK(expression)                                                                  \
  do {                                                                                            \
    if (auto stemma_status = (expression); !stemma_status)                                        \
      return tl::unexpected<::stemma::Error>(std::move(stemma_status).error());                   \
  } while (false)
