#include "tools/atoll/command.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/sys.h"
#include "tools/atoll/event_stream.h"
#include "tools/atoll/interrupt.h"
#include "tools/atoll/sandbox_list.h"
#include "tools/atoll/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

json EnvironmentObject(const std::vector<std::string>& env) {
  json object = json::object();
  for (const std::string& entry : env) {
    const size_t equals = entry.find('=');
    object[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return object;
}

bool Print(std::string_view bytes, bool is_error) {
  return sys::WriteAll(is_error ? STDERR_FILENO : STDOUT_FILENO, bytes).has_value();
}

void Interrupt(Api& api, const ExecdWay& way, const std::string& command_id) {
  if (command_id.empty()) return;
  http::Client::Call call;
  call.method = "DELETE";
  call.target = way.base + "/command?id=" + PercentEncode(command_id);
  call.headers = way.headers;
  // It may just have ended by itself.
  [[maybe_unused]] const auto ignored = api.Send(std::move(call));
}

}  // namespace

Result<int> RunCommand(Api& api, const std::string& sandbox_id, const Command& command,
                       int cancel_fd) {
  ATOLL_ASSIGN(const ExecdWay way, FindExecd(api, sandbox_id));
  json body = {{"command", ShellCommand(command.argv)}};
  if (!command.cwd.empty()) body["cwd"] = command.cwd;
  if (!command.env.empty()) body["envs"] = EnvironmentObject(command.env);
  if (command.user) {
    body["uid"] = command.user->uid;
    body["gid"] = command.user->gid;
  }
  if (command.background) body["background"] = true;
  http::Client::Call call;
  call.method = "POST";
  call.target = way.base + "/command?encoding=base64";
  call.headers = way.headers;
  call.headers.Set("Content-Type", "application/json");
  call.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  call.cancel_fd = cancel_fd;

  bool writable = true;
  EventStream events([&writable](std::string_view bytes, bool is_error) {
    writable = Print(bytes, is_error);
    return writable;
  });
  const auto response =
      api.Stream(std::move(call), [&events](std::string_view bytes) { return events.Feed(bytes); });
  if (CaughtSignal() != 0 || !writable) {
    if (command.stop_on_interrupt) Interrupt(api, way, events.command_id());
    // Nobody reads our output any more: as if SIGPIPE had ended us.
    return 128 + (CaughtSignal() != 0 ? CaughtSignal() : SIGPIPE);
  }
  if (!response) return Fail(response.error());
  if (!events.failure().empty()) {
    return Fail(Code::kFailedPrecondition, "cannot run the command: " + events.failure());
  }
  if (command.background && !events.command_id().empty()) {
    std::puts(Printable(events.command_id()).c_str());
    return 0;
  }
  if (!events.exit_code()) {
    return Fail(Code::kUnavailable, "the sandbox ended before the command did");
  }
  return *events.exit_code() & 0xff;
}

Result<std::vector<std::string>> ExpandEnvironment(const std::vector<std::string>& settings) {
  std::vector<std::string> env;
  for (const std::string& setting : settings) {
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

std::string EnvironmentJson(const std::vector<std::string>& env) {
  return EnvironmentObject(env).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace atl::cli
