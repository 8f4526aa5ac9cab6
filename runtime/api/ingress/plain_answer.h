// Answers of the API that replaces upstream's egress sidecar, whose errors are text/plain. Internal
// to this folder.
#pragma once

#include <string>

#include "runtime/api/gate/call.h"
#include "runtime/base/result.h"

namespace atl::api {

void RespondText(const Call& call, int status, const std::string& text);
// Answers 405; `methods` is the value of Allow.
void RespondAllowed(const Call& call, const char* methods);
void RespondJson(const Call& call, int status, std::string json);
// Answers with the status that upstream's sidecar uses for this error.
void RespondError(const Call& call, const Error& error);

}  // namespace atl::api
