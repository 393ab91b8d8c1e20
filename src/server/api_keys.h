#pragma once
// Who may use the API.

#include <string>
#include <string_view>
#include <vector>

namespace stemma {

// Constant after construction.
class ApiKeys {
 public:
  explicit ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  // Whether the headers `Authorization` ("Bearer KEY") or `X-Api-Key` carry one of the keys, or none is needed. Takes the
  // same time whatever part of a key is right.
  bool allow(std::string_view authorization, std::string_view x_api_key) const;

 private:
  std::vector<std::string> keys_;
};

}  // namespace stemma
