#pragma once
// Which handler answers which method and path.

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>

#include "server/api_error.h"

namespace stemma {

class Connection;

// Answers the connection's current request. Runs on the connection's strand; an error that it throws becomes
// `server_internal_error`.
using Handler = std::function<boost::asio::awaitable<void>(Connection&)>;

enum class Access { open, needs_key };

struct Route {
  Handler handler;
  Access access;
};

// Filled before the server starts, constant afterwards.
class Router {
 public:
  // A GET route answers HEAD too.
  void add(std::string_view method, std::string path, Handler handler, Access access = Access::needs_key);

  // Errors: `http_not_found`, `http_method_not_allowed`. O(log routes).
  ApiResult<const Route*> find(std::string_view method, std::string_view path) const;

 private:
  using Methods = std::map<std::string, Route, std::less<>>;
  std::map<std::string, Methods, std::less<>> paths_;
};

}  // namespace stemma
