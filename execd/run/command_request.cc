#include "execd/run/command_request.h"

#include "execd/http/request_json.h"

namespace atl::execd {

Result<Variables> EnvsMember(const JsonValue& root) {
  Variables variables;
  const JsonValue envs = root.Find("envs");
  if (!envs.present() || envs.is(JsonType::kNull)) return variables;
  if (!envs.is(JsonType::kObject)) return Fail(Code::kInvalidArgument, "envs: must be an object");
  for (JsonValue member = envs.first(); member.present(); member = member.next()) {
    const std::string_view name = member.name();
    const bool null = member.is(JsonType::kNull);
    if (name.empty() || name.find('=') != std::string_view::npos ||
        name.find('\0') != std::string_view::npos) {
      return Fail(Code::kInvalidArgument,
                  "envs: '" + std::string(name) + "' is not a variable's name");
    }
    if ((!null && !member.is(JsonType::kString)) ||
        member.text().find('\0') != std::string_view::npos) {
      return Fail(Code::kInvalidArgument,
                  "envs: the value of " + std::string(name) + " must be a string without NUL");
    }
    variables.emplace_back(name, member.text());
  }
  return variables;
}

Result<std::vector<std::string>> ArgvMember(const JsonValue& root) {
  std::vector<std::string> words;
  const JsonValue argv = root.Find("argv");
  if (!argv.present()) return words;
  if (!argv.is(JsonType::kArray)) return Fail(Code::kInvalidArgument, "argv: must be a list");
  for (JsonValue item = argv.first(); item.present(); item = item.next()) {
    if (!item.is(JsonType::kString) || item.text().find('\0') != std::string_view::npos) {
      return Fail(Code::kInvalidArgument,
                  "argv[" + std::to_string(words.size()) + "]: must be a string without NUL");
    }
    words.emplace_back(item.text());
  }
  if (words.empty() || words[0].empty()) {
    return Fail(Code::kInvalidArgument, "argv: needs a program as its first item");
  }
  return words;
}

Result<std::optional<RequestIds>> IdsMember(const JsonValue& root) {
  ATOLL_ASSIGN(const int64_t uid, IntegerMember(root, "uid", 0, 0xFFFFFFFELL, -1));
  ATOLL_ASSIGN(const int64_t gid, IntegerMember(root, "gid", 0, 0xFFFFFFFELL, -1));
  if (uid < 0 && gid >= 0) return Fail(Code::kInvalidArgument, "gid: needs a uid");
  if (uid < 0) return std::nullopt;
  RequestIds ids{static_cast<uid_t>(uid), std::nullopt};
  if (gid >= 0) ids.gid = static_cast<gid_t>(gid);
  return ids;
}

Result<CommandRequest> ParseCommandRequest(std::string body) {
  ATOLL_ASSIGN(const JsonDocument document, ParseObject(std::move(body), false));
  const JsonValue root = document.root();
  CommandRequest request;
  // Exactly one of `command` and `argv` must be present; null counts as absent.
  if (root.Find("command").present() == root.Find("argv").present()) {
    return Fail(Code::kInvalidArgument, "send one of command and argv");
  }
  ATOLL_ASSIGN(request.argv, ArgvMember(root));
  ATOLL_ASSIGN(request.command, TextMember(root, "command"));
  if (request.argv.empty() && request.command.empty()) {
    return Fail(Code::kInvalidArgument, "command: is empty");
  }
  ATOLL_ASSIGN(request.cwd, TextMember(root, "cwd"));
  const JsonValue background = root.Find("background");
  if (background.present() && !background.is(JsonType::kNull) && !background.is(JsonType::kBool)) {
    return Fail(Code::kInvalidArgument, "background: must be true or false");
  }
  request.background = background.boolean();
  // The limit is a thousand years, which fits in microseconds and also serves as "no limit".
  ATOLL_ASSIGN(request.timeout_ms, IntegerMember(root, "timeout", 0, int64_t{31536000000000}, 0));
  ATOLL_ASSIGN(request.ids, IdsMember(root));
  ATOLL_ASSIGN(request.envs, EnvsMember(root));
  return request;
}

}  // namespace atl::execd
