// Makes OpenSSL overwrite the memory that it frees (runtime/base/wiping_memory.h).
#pragma once

#include "runtime/base/result.h"

namespace atl::http {

// Call before any other call of OpenSSL.
Status WipeTlsMemory();

}  // namespace atl::http
