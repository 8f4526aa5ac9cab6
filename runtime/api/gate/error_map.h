// The one place where an Error becomes an HTTP answer. The status follows from the Error's code,
// and the code string from what was being done: a thing that is not found is an image in one place
// and a sandbox in another.
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
  kProxy,        // reaching into a sandbox
  kReadBody,     // of any request
  kImportImage,  // upload included
  kFindImage,
  kTagImage,
  kRemoveImage,
  kReadImage,  // all that is stored of it
  kVolume,     // named ones, by their own routes
  kTakeSnapshot,
  kRestore,  // a create from a snapshot
  kRemoveSnapshot,
  kExportSnapshot,
  kImportSnapshot,  // upload included
  kFork,
  kRollBack,
  kDiff,
  kBackup,
  kPool,
  kTemplate,
  kShutdown,
};
inline constexpr int kDoings = 27;

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
