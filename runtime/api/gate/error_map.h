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
// Why there is no sandbox; `doing` is kCreate, kFork or kRollBack.
ApiError MapError(const sandbox::CreateError& error, Doing doing = Doing::kCreate);

}  // namespace atl::api
