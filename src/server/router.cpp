#include "server/router.h"

namespace stemma {

void Router::add(std::string_view method, std::string path, Handler handler, Access access) {
  paths_[std::move(path)].insert_or_assign(std::string(method), Route{std::move(handler), access});
}

ApiResult<const Route*> Router::find(std::string_view method, std::string_view path) const {
  const auto methods = paths_.find(path);
  if (methods == paths_.end()) {
    return tl::unexpected<ApiError>(make_error(ErrorCode::http_not_found, {{"path", std::string(path)}}));
  }
  const auto route = methods->second.find(method == "HEAD" ? "GET" : method);
  if (route != methods->second.end()) return &route->second;
  std::string allowed;
  for (const auto& [name, unused] : methods->second) allowed += (allowed.empty() ? "" : ", ") + name;
  return tl::unexpected<ApiError>(make_error(
      ErrorCode::http_method_not_allowed,
      {{"method", std::string(method)}, {"path", std::string(path)}, {"allowed", allowed}}));
}

}  // namespace stemma
