#include "tools/atoll/client/accounts.h"

#include <charconv>
#include <optional>

#include "tools/atoll/client/sandbox_list.h"

namespace atl::cli {
namespace {

std::optional<uint32_t> ParseId(std::string_view text) {
  uint32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return id;
}

// The fields of NAME's line in a file such as /etc/passwd of the sandbox.
Result<std::vector<std::string>> FindAccount(Api& api, const ExecdWay& way, const std::string& file,
                                             const std::string& name) {
  http::Client::Call call;
  call.target = way.base + "/files/download?path=" + PercentEncode(file);
  call.headers = way.headers;
  auto response = api.Send(std::move(call));
  if (!response) return Fail(std::move(response).error().Wrap(file + " of the sandbox"));
  std::string_view rest = response->body;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (!line.starts_with(name + ":")) continue;
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == ':') {
        fields.emplace_back();
      } else {
        fields.back().push_back(c);
      }
    }
    return fields;
  }
  return Fail(Code::kNotFound, "the sandbox's " + file + " has no '" + name + "'");
}

}  // namespace

Result<UserIds> FindUser(Api& api, const std::string& sandbox_id, const std::string& given) {
  const size_t colon = given.find(':');
  const std::string user = given.substr(0, colon);
  const std::string group = colon == std::string::npos ? "" : given.substr(colon + 1);
  ATOLL_ASSIGN(const ExecdWay way, FindExecd(api, sandbox_id));
  auto uid = ParseId(user), gid = ParseId(group);
  if (!uid) {
    ATOLL_ASSIGN(const auto fields, FindAccount(api, way, "/etc/passwd", user));
    if (fields.size() < 4) return Fail(Code::kInternal, "/etc/passwd of the sandbox is malformed");
    uid = ParseId(fields[2]);
    if (group.empty()) gid = ParseId(fields[3]);
  }
  if (!group.empty() && !gid) {
    ATOLL_ASSIGN(const auto fields, FindAccount(api, way, "/etc/group", group));
    if (fields.size() < 3) return Fail(Code::kInternal, "/etc/group of the sandbox is malformed");
    gid = ParseId(fields[2]);
  }
  if (!uid || (!gid && !group.empty())) {
    return Fail(Code::kInternal, "the sandbox's accounts have ids that are no numbers");
  }
  return UserIds{*uid, gid.value_or(*uid)};
}

}  // namespace atl::cli
