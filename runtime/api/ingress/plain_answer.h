// Answers of what stands in for upstream's egress sidecar, whose errors are text/plain. Internal to
// this folder.
#pragma once

#include <string>

#include "runtime/api/gate/call.h"
#include "runtime/base/result.h"

namespace atl::api {

void RespondText(const Call& call, int status, const std::string& text);
// 405; `methods` as in Allow.
void RespondAllowed(const Call& call, const char* methods);
void RespondJson(const Call& call, int status, std::string json);
// With the status that upstream's sidecar has for it.
void RespondError(const Call& call, const Error& error);

}  // namespace atl::api
