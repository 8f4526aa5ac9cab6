#include "tools/atoll/client/command.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "runtime/base/json_text.h"
#include "runtime/base/sys.h"
#include "tools/atoll/client/event_stream.h"
#include "tools/atoll/client/interrupt.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

Status Print(std::string_view bytes, bool is_error) {
  return sys::WriteAll(is_error ? STDERR_FILENO : STDOUT_FILENO, bytes);
}

void Interrupt(Api& api, const ExecdWay& way, const std::string& command_id) {
  if (command_id.empty()) return;
  http::Client::Call call;
  call.method = "DELETE";
  call.target = way.base + "/command?id=" + PercentEncode(command_id);
  call.headers = way.headers;
  // Ignored, because the command may have ended by itself.
  [[maybe_unused]] const auto ignored = api.Send(std::move(call));
}

http::Client::Call CommandCall(const ExecdWay& way, const json& body) {
  http::Client::Call call;
  call.method = "POST";
  call.target = way.base + "/command?encoding=base64";
  call.headers = way.headers;
  call.headers.Set("Content-Type", "application/json");
  call.body = JsonText(body);
  return call;
}

Error CannotRun(const std::string& why) {
  return Error(Code::kFailedPrecondition, "cannot run the command: " + why);
}

// Adds the lines of a file, each NAME=VALUE or NAME.
Status AddEnvironmentFile(const std::string& path, std::vector<std::string>* settings) {
  constexpr size_t kMaxFile = 1 << 20;
  ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(AT_FDCWD, path, kMaxFile));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty() && line.front() != '#') settings->push_back(line);
  }
  return {};
}

}  // namespace

Result<Exit> Unstarted(const std::string& why) {
  if (auto exit = ExitOfUnstarted(why)) return *std::move(exit);
  return Fail(CannotRun(why));
}

json CommandBody(const Command& command) {
  json body = {{"argv", command.argv}};
  if (!command.env.empty()) body["envs"] = EnvironmentObject(command.env);
  if (!command.cwd.empty()) body["cwd"] = LiteralPath(command.cwd);
  if (command.user) {
    body["uid"] = command.user->uid;
    body["gid"] = command.user->gid;
  }
  return body;
}

Result<Exit> RunCommand(Api& api, const std::string& sandbox_id, const Command& command,
                        int cancel_fd) {
  ATOLL_ASSIGN(const ExecdWay way, FindExecd(api, sandbox_id));
  json body = CommandBody(command);
  if (command.background) body["background"] = true;
  http::Client::Call call = CommandCall(way, body);
  call.cancel_fd = cancel_fd;

  Status written;
  EventStream events([&written](std::string_view bytes, bool is_error) {
    written = Print(bytes, is_error);
    return written.has_value();
  });
  const auto response =
      api.Stream(std::move(call), [&events](std::string_view bytes) { return events.Feed(bytes); });
  if (CaughtSignal() != 0 || !written) {
    if (command.stop_on_interrupt) Interrupt(api, way, events.command_id());
    if (CaughtSignal() != 0) return Exit{128 + CaughtSignal(), {}};
    return ExitOfUnwritten(written.error());
  }
  if (!events.failure().empty()) return Unstarted(events.failure());
  if (command.background && !events.command_id().empty()) {
    std::puts(Printable(events.command_id()).c_str());
    return Exit{};
  }
  if (events.exit()) return *events.exit();
  // If the command has not started, the answer says what is wrong.
  if (!response && events.command_id().empty()) return Fail(response.error());
  return Fail(WhyGone(api, sandbox_id));
}

Result<std::vector<std::string>> ExpandEnvironment(const std::vector<std::string>& settings,
                                                   const std::vector<std::string>& files) {
  std::vector<std::string> all;
  for (const std::string& file : files) ATOLL_TRY(AddEnvironmentFile(file, &all));
  all.insert(all.end(), settings.begin(), settings.end());
  std::vector<std::string> env;
  for (const std::string& setting : all) {
    if (setting.empty() || setting.front() == '=') {
      return Fail(Code::kInvalidArgument, "--env " + setting + ": NAME=VALUE or NAME is expected");
    }
    if (setting.find('=') != std::string::npos) {
      env.push_back(setting);
    } else if (const char* value = std::getenv(setting.c_str())) {
      env.push_back(setting + "=" + value);
    }
  }
  return env;
}

json EnvironmentObject(const std::vector<std::string>& env) {
  json object = json::object();
  for (const std::string& entry : env) {
    const size_t equals = entry.find('=');
    object[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return object;
}

}  // namespace atl::cli
