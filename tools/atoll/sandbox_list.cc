#include "tools/atoll/sandbox_list.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/sandbox_id.h"

namespace atl::cli {
namespace {

using nlohmann::json;

constexpr const char* kExecdPort = "44772";

}  // namespace

Result<std::vector<SandboxEntry>> FetchSandboxes(Api& api, const std::string& query) {
  std::vector<SandboxEntry> all;
  for (int page = 1;; ++page) {
    ATOLL_ASSIGN(const http::Response response,
                 api.Send("GET", "/sandboxes?pageSize=200&page=" + std::to_string(page) + query));
    const auto list = json::parse(response.body, nullptr, false);
    if (!list.is_object()) return Fail(Code::kInternal, "the server's answer is not JSON");
    for (const auto& item : list.value("items", json::array())) {
      all.push_back({item.value("id", ""), item.value("metadata", json::object()).value("name", ""),
                     item.value("image", json::object()).value("uri", ""),
                     item.value("status", json::object()).value("state", ""),
                     item.value("createdAt", "").substr(0, 19),
                     item.value("expiresAt", "never").substr(0, 19), item.dump()});
    }
    if (!list.value("pagination", json::object()).value("hasNextPage", false)) return all;
  }
}

Result<std::string> ResolveId(Api& api, const std::string& given) {
  if (ValidSandboxId(given)) return given;
  ATOLL_ASSIGN(const auto all, FetchSandboxes(api, ""));
  std::string found;
  for (const SandboxEntry& sandbox : all) {
    const bool named = sandbox.name == given;
    if (given.empty() || (!named && !sandbox.id.starts_with(given))) continue;
    if (!found.empty()) {
      return Fail(Code::kInvalidArgument, "'" + given + "' could be " + found + " or " +
                                              sandbox.id + "; give more of the id");
    }
    found = sandbox.id;
  }
  if (!found.empty()) return found;
  return Fail(Code::kNotFound, "no sandbox '" + given + "'; see: atoll ls");
}

Result<ExecdWay> FindExecd(Api& api, const std::string& sandbox_id) {
  const std::string sandbox = "/sandboxes/" + PercentEncode(sandbox_id);
  ATOLL_ASSIGN(const http::Response response,
               api.Send("GET", sandbox + "/endpoints/" + kExecdPort + "?use_server_proxy=true"));
  const auto endpoint = json::parse(response.body, nullptr, false);
  if (!endpoint.is_object()) return Fail(Code::kInternal, "the server's answer is not JSON");
  ExecdWay way{sandbox + "/proxy/" + kExecdPort, {}};
  const json fields = endpoint.value("headers", json::object());
  for (const auto& [name, value] : fields.items()) {
    if (value.is_string()) way.headers.Set(name, value.get<std::string>());
  }
  return way;
}

}  // namespace atl::cli
