// Turns the last words of an s3fs that gave up into an error that the daemon can tell a client.
// Pure.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/wire/object_store.h"

namespace atl::spawner {

// `log` is partly a stranger's text. The error contains nothing of `hidden`.
Error ObjectError(const std::string& log, const wire::ObjectStore& store, const std::string& bucket,
                  const wire::ObjectCredentials& hidden);

}  // namespace atl::spawner
