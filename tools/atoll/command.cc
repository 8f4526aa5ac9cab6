#include "tools/atoll/command.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/sys.h"
#include "tools/atoll/event_stream.h"
#include "tools/atoll/interrupt.h"
#include "tools/atoll/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

constexpr const char* kExecdPort = "44772";

json EnvironmentObject(const std::vector<std::string>& env) {
  json object = json::object();
  for (const std::string& entry : env) {
    const size_t equals = entry.find('=');
    object[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return object;
}

// The way to execd through the server, and the token that it wants.
Result<http::Headers> ExecdHeaders(Api& api, const std::string& sandbox_id) {
  ATOLL_ASSIGN(const http::Response response,
               api.Send("GET", "/sandboxes/" + PercentEncode(sandbox_id) + "/endpoints/" +
                                   kExecdPort + "?use_server_proxy=true"));
  http::Headers headers;
  const auto endpoint = json::parse(response.body, nullptr, false);
  if (!endpoint.is_object()) return Fail(Code::kInternal, "the server's answer is not JSON");
  const json fields = endpoint.value("headers", json::object());
  for (const auto& [name, value] : fields.items()) {
    if (value.is_string()) headers.Set(name, value.get<std::string>());
  }
  return headers;
}

bool Print(std::string_view text, bool is_error) {
  return sys::WriteAll(is_error ? STDERR_FILENO : STDOUT_FILENO, text).has_value();
}

void Interrupt(Api& api, const std::string& proxy, const http::Headers& headers,
               const std::string& command_id) {
  if (command_id.empty()) return;
  http::Client::Call call;
  call.method = "DELETE";
  call.target = proxy + "/command?id=" + PercentEncode(command_id);
  call.headers = headers;
  // It may just have ended by itself.
  [[maybe_unused]] const auto ignored = api.Send(std::move(call));
}

}  // namespace

Result<int> RunCommand(Api& api, const std::string& sandbox_id, const Command& command,
                       int cancel_fd) {
  ATOLL_ASSIGN(const http::Headers headers, ExecdHeaders(api, sandbox_id));
  const std::string proxy = "/sandboxes/" + PercentEncode(sandbox_id) + "/proxy/" + kExecdPort;
  json body = {{"command", ShellCommand(command.argv)}};
  if (!command.cwd.empty()) body["cwd"] = command.cwd;
  if (!command.env.empty()) body["envs"] = EnvironmentObject(command.env);
  http::Client::Call call;
  call.method = "POST";
  call.target = proxy + "/command";
  call.headers = headers;
  call.headers.Set("Content-Type", "application/json");
  call.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  call.cancel_fd = cancel_fd;

  bool writable = true;
  EventStream events([&writable](std::string_view text, bool is_error) {
    writable = Print(text, is_error);
    return writable;
  });
  const auto response =
      api.Stream(std::move(call), [&events](std::string_view bytes) { return events.Feed(bytes); });
  if (CaughtSignal() != 0 || !writable) {
    if (command.stop_on_interrupt) Interrupt(api, proxy, headers, events.command_id());
    // Nobody reads our output any more: as if SIGPIPE had ended us.
    return 128 + (CaughtSignal() != 0 ? CaughtSignal() : SIGPIPE);
  }
  if (!response) return Fail(response.error());
  if (!events.failure().empty()) {
    return Fail(Code::kFailedPrecondition, "cannot run the command: " + events.failure());
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
