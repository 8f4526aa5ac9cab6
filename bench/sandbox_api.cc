#include "bench/sandbox_api.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <string_view>

#include "bench/clock.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

constexpr size_t kMaxArchive = size_t{1} << 30;
constexpr int64_t kPoolPatienceUs = 20'000'000;

// Returns the value of a string member. A whole JSON parser would add to what is measured.
Result<std::string> Member(const std::string& json, const std::string& name) {
  const std::string key = "\"" + name + "\":\"";
  const size_t at = json.find(key);
  if (at == std::string::npos) return Fail(Code::kInternal, "no " + name + " in " + json);
  const size_t begin = at + key.size();
  return json.substr(begin, json.find('"', begin) - begin);
}

}  // namespace

Result<SandboxApi> SandboxApi::Connect(uint16_t port, const std::string& key) {
  ATOLL_ASSIGN(LeanClient client,
               LeanClient::Connect(port, "OPEN-SANDBOX-API-KEY: " + key + "\r\n"));
  return SandboxApi(std::move(client));
}

Result<Sandbox> SandboxApi::Create(const std::string& image, const std::string& limits,
                                   const std::string& members) {
  const std::string body = R"({"image":{"uri":")" + image +
                           R"("},"entrypoint":["sleep","100000"],"resourceLimits":)" + limits +
                           members + "}";
  ATOLL_ASSIGN(const std::string answer, client_.Call("POST", "/v1/sandboxes", body));
  Sandbox sandbox;
  ATOLL_ASSIGN(sandbox.id, Member(answer, "id"));
  return sandbox;
}

Result<Sandbox> SandboxApi::Claim(const std::string& pool, const std::string& limits) {
  const std::string body = R"({"entrypoint":["sleep","100000"],"extensions":{"poolRef":")" + pool +
                           R"("},"resourceLimits":)" + limits + "}";
  ATOLL_ASSIGN(const std::string answer, client_.Call("POST", "/v1/sandboxes", body));
  Sandbox sandbox;
  ATOLL_ASSIGN(sandbox.id, Member(answer, "id"));
  return sandbox;
}

Status SandboxApi::MakePool(const std::string& name, const std::string& image, int parked) {
  const std::string count = std::to_string(parked);
  ATOLL_TRY(client_.Call("POST", "/v1/pools",
                         R"({"name":")" + name + R"(","image":{"uri":")" + image +
                             R"("},"capacitySpec":{"bufferMin":)" + count + R"(,"bufferMax":)" +
                             count + R"(,"poolMin":0,"poolMax":1000}})"));
  return AwaitParked(name, parked);
}

Status SandboxApi::AwaitParked(const std::string& pool, int parked) {
  const int64_t deadline = NowMicros() + kPoolPatienceUs;
  const std::string name = R"(atoll_pool_sandboxes{pool=")" + pool + R"(",state="available"})";
  while (NowMicros() < deadline) {
    ATOLL_ASSIGN(auto metrics, Metrics());
    if (metrics[name] >= parked) return {};
    Rest(5);
  }
  return Fail(Code::kDeadlineExceeded, "pool " + pool + " does not fill up");
}

Status SandboxApi::FindExecd(Sandbox* sandbox) {
  const std::string path =
      "/v1/sandboxes/" + sandbox->id + "/endpoints/44772?use_server_proxy=true";
  ATOLL_ASSIGN(const std::string answer, client_.Call("GET", path));
  ATOLL_ASSIGN(const std::string endpoint, Member(answer, "endpoint"));
  ATOLL_ASSIGN(const std::string token, Member(answer, "X-EXECD-ACCESS-TOKEN"));
  const size_t slash = endpoint.find('/');
  if (slash == std::string::npos) return Fail(Code::kInternal, "endpoint " + endpoint);
  sandbox->execd_path = endpoint.substr(slash);
  sandbox->command_path = sandbox->execd_path + "/command";
  sandbox->command_headers = "X-EXECD-ACCESS-TOKEN: " + token + "\r\n";
  return {};
}

Result<CommandMicros> SandboxApi::Echo(const Sandbox& sandbox) {
  const int64_t start = NowMicros();
  ATOLL_TRY(client_.Send("POST", sandbox.command_path, sandbox.command_headers,
                         R"({"command":"echo hi"})"));
  // Accepts the text with and without its line end, because releases differ in that.
  ATOLL_TRY(client_.AwaitText(R"("text":"hi)"));
  const int64_t first = MicrosSince(start);
  ATOLL_ASSIGN(const LeanClient::Response response, client_.Finish());
  if (response.body.find("execution_complete") == std::string::npos) {
    return Fail(Code::kInternal, "echo hi did not complete: " + response.body);
  }
  return CommandMicros{first, MicrosSince(start)};
}

Status SandboxApi::Delete(const Sandbox& sandbox) {
  ATOLL_TRY(client_.Call("DELETE", "/v1/sandboxes/" + sandbox.id));
  return {};
}

Status SandboxApi::ImportImage(const std::string& name, const std::string& archive) {
  ATOLL_ASSIGN(const std::string bytes, sys::ReadFileAt(AT_FDCWD, archive, kMaxArchive));
  ATOLL_TRY(client_.Call("POST", "/v1/images?name=" + name, bytes));
  return {};
}

Result<std::map<std::string, double>> SandboxApi::Metrics() {
  ATOLL_ASSIGN(const std::string text, client_.Call("GET", "/v1/metrics"));
  std::map<std::string, double> metrics;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const size_t space = line.rfind(' ');
    if (line.empty() || line.front() == '#' || space == std::string_view::npos) continue;
    double value = 0;
    std::from_chars(line.data() + space + 1, line.data() + line.size(), value);
    metrics[std::string(line.substr(0, space))] = value;
  }
  return metrics;
}

Status SandboxApi::AwaitQuiet() {
  ::sync();
  const int64_t deadline = NowMicros() + kPoolPatienceUs;
  double before = -1;
  // The pool is full if it has ready slots, and as many as at the last check.
  while (NowMicros() < deadline) {
    ATOLL_ASSIGN(auto metrics, Metrics());
    const double ready = metrics[R"(atoll_slots{state="ready"})"];
    if (ready > 0 && ready == before) return {};
    before = ready;
    Rest(50);
  }
  return Fail(Code::kDeadlineExceeded, "the daemon's pool of network slots does not fill up");
}

Status SandboxApi::Shutdown() {
  ATOLL_TRY(client_.Call("POST", "/v1/shutdown?all=true"));
  return {};
}

}  // namespace atl::bench
