// Fuzzes JSON bodies in execd: the reader, the requests for commands and isolated sessions, the
// writer. A string that was read and written must read the same again. Invalid UTF-8 is the
// exception: it becomes U+FFFD once.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "execd/files/glob.h"
#include "execd/http/json.h"
#include "execd/isolated/request.h"
#include "execd/run/command_request.h"
#include "runtime/http/query.h"

namespace {

using atl::execd::JsonDocument;
using atl::execd::JsonType;
using atl::execd::JsonValue;

void CheckString(std::string_view text) {
  std::string once, twice;
  atl::execd::AppendJsonString(&once, text);
  const auto again = JsonDocument::Parse(once);
  if (!again) __builtin_trap();
  atl::execd::AppendJsonString(&twice, again->root().text());
  const auto third = JsonDocument::Parse(twice);
  if (!third || third->root().text() != again->root().text()) __builtin_trap();
}

size_t Walk(const JsonValue& value, int depth) {
  if (depth > JsonDocument::kMaxDepth) __builtin_trap();
  if (value.is(JsonType::kString)) CheckString(value.text());
  size_t count = 1;
  for (JsonValue child = value.first(); child.present(); child = child.next()) {
    if (value.is(JsonType::kObject)) CheckString(child.name());
    count += Walk(child, depth + 1);
  }
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (const auto document = JsonDocument::Parse(bytes)) Walk(document->root(), 0);
  const auto request = atl::execd::ParseCommandRequest(bytes);
  if (request) {
    if (request->command.empty() == request->argv.empty()) __builtin_trap();
    if (!request->argv.empty() && request->argv[0].empty()) __builtin_trap();
    if (request->timeout_ms < 0) __builtin_trap();
    if (request->command.find('\0') != std::string::npos) __builtin_trap();
  }
  if (const auto session = atl::execd::ParseIsolatedRequest(bytes)) {
    if (session->overlays.empty() || session->overlays.size() > 16) __builtin_trap();
    if (session->overlays.size() + session->extra_writable.size() + session->binds.size() > 32) {
      __builtin_trap();
    }
    std::string told = "{\"status\":\"active\"";
    atl::execd::AppendIsolatedParameters(&told, *session);
    if (!JsonDocument::Parse(told + "}")) __builtin_trap();
  }
  if (const auto run = atl::execd::ParseIsolatedRun(bytes)) {
    if (run->code.empty() || run->timeout_seconds < 0) __builtin_trap();
  }
  CheckString(bytes);
  const auto pairs = atl::http::ParseQuery(bytes);
  if (pairs.size() > bytes.size()) __builtin_trap();
  const size_t half = bytes.size() / 2;
  if (const auto glob = atl::execd::Glob::Parse(bytes.substr(0, half))) {
    [[maybe_unused]] const bool matches = glob->Matches(bytes.substr(half));
  }
  return 0;
}
