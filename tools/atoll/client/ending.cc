#include "tools/atoll/client/ending.h"

#include <signal.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/sandbox_list.h"

namespace atl::cli {

Status RemoveIfAsked(Api& api, const std::string& sandbox_id) {
  const std::string path = "/sandboxes/" + PercentEncode(sandbox_id);
  const auto sandbox = Fetch(api, path);
  if (!sandbox && sandbox.error().code() == Code::kNotFound) return {};
  if (!sandbox) return Fail(sandbox.error());
  const auto extensions = sandbox->value("extensions", nlohmann::json::object());
  if (TextOf(extensions, kRemoveAtEnd) != "true") return {};
  const auto deleted = api.Send("DELETE", path);
  if (deleted || deleted.error().code() == Code::kNotFound) return {};
  return Fail(deleted.error());
}

std::optional<int> ExitCodeIn(const nlohmann::json& sandbox) {
  const std::string message = TextOf(sandbox.value("status", nlohmann::json::object()), "message");
  constexpr std::string_view kCode = "exit code ";
  if (!message.starts_with(kCode)) return std::nullopt;
  int code = 0;
  const auto [end, error] =
      std::from_chars(message.data() + kCode.size(), message.data() + message.size(), code);
  return error == std::errc() ? std::optional(code) : std::nullopt;
}

std::optional<Exit> EndIn(const nlohmann::json& sandbox) {
  const auto status = sandbox.value("status", nlohmann::json::object());
  const std::string state = TextOf(status, "state");
  if (state != "Terminated" && state != "Failed") return std::nullopt;
  Exit exit{state == "Failed" ? kRunFailed : 0, TextOf(status, "message")};
  if (const auto code = ExitCodeIn(sandbox)) {
    exit.code = *code;
    // The message may continue, for example "; the sandbox was out of memory". Then it is the
    // reason.
    if (exit.reason == "exit code " + std::to_string(*code)) exit.reason.clear();
  }
  if (exit.reason.empty() && exit.code > 128 && exit.code <= 128 + SIGSYS) {
    exit.reason = "ended by " + SignalName(exit.code - 128) + ", as its exit code tells";
  }
  return exit;
}

Result<std::optional<Exit>> EndOf(Api& api, const std::string& sandbox_id) {
  ATOLL_ASSIGN(const auto sandbox, Fetch(api, "/sandboxes/" + PercentEncode(sandbox_id)));
  return EndIn(sandbox);
}

Result<std::optional<Exit>> EndOfSeen(Api& api, const std::string& sandbox_id) {
  auto exit = EndOf(api, sandbox_id);
  if (exit || exit.error().code() != Code::kNotFound) return exit;
  return Fail(WhyGone(api, sandbox_id));
}

}  // namespace atl::cli
