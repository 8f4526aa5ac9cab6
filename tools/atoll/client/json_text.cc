#include "tools/atoll/client/json_text.h"

#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"

namespace atl::cli {

using nlohmann::json;

Result<json> ObjectOf(const http::Response& response) {
  json object = JsonOrNull(response.body);
  if (!object.is_object()) return Fail(Code::kInternal, "the server's answer is not JSON");
  return object;
}

Result<json> Fetch(Api& api, const std::string& target) {
  ATOLL_ASSIGN(const http::Response response, api.Send("GET", target));
  return ObjectOf(response);
}

Result<json> FetchPages(Api& api, const std::string& route, const std::string& query) {
  json items = json::array();
  for (int page = 1;; ++page) {
    ATOLL_ASSIGN(const json list,
                 Fetch(api, route + "?pageSize=200&page=" + std::to_string(page) + query));
    for (const json& item : list.value("items", json::array())) items.push_back(item);
    if (!list.value("pagination", json::object()).value("hasNextPage", false)) return items;
  }
}

std::string TextOf(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return {};
  return found->is_string() ? found->get<std::string>() : JsonText(*found);
}

std::string TimeOf(const json& object, const char* name) {
  const std::string text = TextOf(object, name);
  return text.empty() ? "" : text.substr(0, 19) + "Z";
}

}  // namespace atl::cli
