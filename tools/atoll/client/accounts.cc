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

using Fields = std::vector<std::string>;

// Searches an account file of the sandbox, such as /etc/passwd, for the line whose field number
// `field` is `value`. Returns the fields of that line.
Result<Fields> FindAccount(Api& api, const ExecdWay& way, const std::string& file, size_t field,
                           const std::string& value) {
  http::Client::Call call;
  call.target = way.base + "/files/download?path=" + PercentEncode(file);
  call.headers = way.headers;
  auto response = api.Send(std::move(call));
  if (!response) return Fail(std::move(response).error().Wrap(file + " of the sandbox"));
  std::string_view rest = response->body;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    Fields fields(1);
    for (const char c : line) {
      if (c == ':') {
        fields.emplace_back();
      } else {
        fields.back().push_back(c);
      }
    }
    if (field < fields.size() && fields[field] == value) return fields;
  }
  return Fail(Code::kNotFound, "the sandbox's " + file + " has no '" + value + "'");
}

// Returns the group of `uid` in passwd, or root's group if passwd has no such user, as docker does.
Result<uint32_t> GroupOf(Api& api, const ExecdWay& way, const std::string& uid) {
  const auto fields = FindAccount(api, way, "/etc/passwd", 2, uid);
  if (!fields && fields.error().code() == Code::kNotFound) return 0;
  if (!fields) return Fail(fields.error());
  return fields->size() < 4 ? 0 : ParseId((*fields)[3]).value_or(0);
}

}  // namespace

Result<UserIds> FindUser(Api& api, const std::string& sandbox_id, const std::string& given) {
  const size_t colon = given.find(':');
  const std::string user = given.substr(0, colon);
  const std::string group = colon == std::string::npos ? "" : given.substr(colon + 1);
  ATOLL_ASSIGN(const ExecdWay way, FindExecd(api, sandbox_id));
  auto uid = ParseId(user), gid = ParseId(group);
  if (!uid) {
    ATOLL_ASSIGN(const auto fields, FindAccount(api, way, "/etc/passwd", 0, user));
    if (fields.size() < 4) return Fail(Code::kInternal, "/etc/passwd of the sandbox is malformed");
    uid = ParseId(fields[2]);
    if (group.empty()) gid = ParseId(fields[3]);
  } else if (group.empty()) {
    ATOLL_ASSIGN(gid, GroupOf(api, way, std::to_string(*uid)));
  }
  if (!group.empty() && !gid) {
    ATOLL_ASSIGN(const auto fields, FindAccount(api, way, "/etc/group", 0, group));
    if (fields.size() < 3) return Fail(Code::kInternal, "/etc/group of the sandbox is malformed");
    gid = ParseId(fields[2]);
  }
  if (!uid || !gid) {
    return Fail(Code::kInternal,
                "/etc/passwd or /etc/group of the sandbox has an id that is not a number");
  }
  return UserIds{*uid, *gid};
}

}  // namespace atl::cli
