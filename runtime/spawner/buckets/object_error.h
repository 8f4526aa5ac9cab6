// What s3fs has said before it gave up, as an error that the daemon can tell a client. Pure.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/wire/object_store.h"

namespace atl::spawner {

// `log` is a stranger's words in part. Nothing of `hidden` is in the error.
Error ObjectError(const std::string& log, const wire::ObjectStore& store, const std::string& bucket,
                  const wire::ObjectCredentials& hidden);

}  // namespace atl::spawner
