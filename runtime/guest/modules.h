// The kernel's modules, which the initramfs brings along.
#pragma once

#include "runtime/base/result.h"

namespace atl::guest {

// Loads the modules of kModulesPath in their order. A module that is there already is no error.
Status LoadModules();

}  // namespace atl::guest
