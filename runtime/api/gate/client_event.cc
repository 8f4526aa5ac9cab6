#include "runtime/api/gate/client_event.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/api/gate/json.h"
#include "runtime/api/gate/validation.h"
#include "runtime/base/json_text.h"
#include "runtime/http/ascii.h"

namespace atl::api {
namespace {

bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}

}  // namespace

Parsed<ClientEvent> ParseClientEvent(const std::string& text) {
  auto parsed = ParseBody(text);
  if (!parsed) return Refuse(std::move(parsed).error());
  Problems problems;
  const Field body(*parsed, Location{"body"}, &problems);
  if (!body.IsRequiredObject()) return Refuse(problems.ToResponse());
  for (const char* name : {"eventType", "createDurationMs", "success"}) {
    if (const Field field = body.At(name); !field.present()) field.Missing();
  }
  std::string kind, ignored;
  if (body.At("eventType").String(&kind) && kind != "sandbox.create") {
    body.At("eventType")
        .Complain("literal_error", "Input should be 'sandbox.create'",
                  JsonText({{"expected", "'sandbox.create'"}}));
  }
  ClientEvent event;
  if (body.At("createDurationMs").Integer(&event.duration_ms) && event.duration_ms < 0) {
    body.At("createDurationMs")
        .Complain("greater_than_equal", "Input should be greater than or equal to 0",
                  JsonText({{"ge", 0}}));
  }
  body.At("success").Bool(&event.success);
  for (const char* name : {"sandboxId", "image"}) body.At(name).String(&ignored);
  if (!problems.empty()) return Refuse(problems.ToResponse());
  return event;
}

ClientSdk SdkOf(std::string_view user_agent) {
  constexpr std::string_view kBefore = "opensandbox-", kBehind = "-sdk/";
  constexpr size_t kLongestLanguage = 32, kLongestVersion = 64;
  std::string lower(user_agent);
  for (char& c : lower) c = http::ToLower(c);
  for (size_t at = lower.find(kBefore); at != std::string::npos; at = lower.find(kBefore, at)) {
    at += kBefore.size();
    size_t end = at;
    while (end < lower.size() && (http::IsDigit(lower[end]) || IsLower(lower[end]))) ++end;
    if (end == at || !std::string_view(lower).substr(end).starts_with(kBehind)) continue;
    const std::string_view rest = user_agent.substr(end + kBehind.size());
    const std::string_view version = rest.substr(0, rest.find_first_of(" \t"));
    const bool sound =
        end - at <= kLongestLanguage && !version.empty() && version.size() <= kLongestVersion &&
        std::all_of(version.begin(), version.end(), [](char c) { return c > ' ' && c <= '~'; });
    if (!sound) return {};
    return {lower.substr(at, end - at), std::string(version)};
  }
  return {};
}

}  // namespace atl::api
