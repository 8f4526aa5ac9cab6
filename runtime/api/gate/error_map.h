// Maps an Error to an HTTP answer; nothing else does. The status follows from the Error's code. The
// code string follows from the operation, because "not found" names an image in one operation and a
// sandbox in another.
#pragma once

#include "runtime/api/gate/api_error.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/state/attempt.h"

namespace atl::api {

enum class Doing {
  kCreate,  // a sandbox
  kFind,    // a sandbox by its id
  kDelete,  // a sandbox
  kRenew,   // a sandbox's deadline
  kPause,
  kResume,
  kPatchMetadata,
  kProxy,        // a request into a sandbox
  kReadBody,     // the body of any request
  kImportImage,  // upload included
  kFindImage,
  kTagImage,
  kRemoveImage,
  kReadImage,  // export the stored image
  kVolume,     // named volumes, on their own routes
  kTakeSnapshot,
  kRestore,  // create from a snapshot
  kRemoveSnapshot,
  kExportSnapshot,
  kImportSnapshot,  // upload included
  kFork,
  kRollBack,
  kDiff,
  kBackup,
  kUsage,
  kPool,
  kTemplate,
  kShutdown,
  kKey,  // make, rotate or revoke an API key
  kReadAudit,
};
inline constexpr int kDoings = 30;

ApiError MapError(const Error& error, Doing doing);
// Changes the status to one that the API names for POST /sandboxes; code and message stay. Released
// SDKs read code and message of the named statuses alone: another one reaches their user as
// "HTTP 404", without a reason. A malformed body is not mapped here: it stays 422, as upstream's
// server answers it.
ApiError NamedForCreate(ApiError error);
// Maps the reason why a sandbox was not made. `doing` is kCreate, kFork or kRollBack; the answer to
// kCreate has passed NamedForCreate.
ApiError MapError(const sandbox::CreateError& error, Doing doing = Doing::kCreate);

}  // namespace atl::api
