// What Lifecycle::Diff writes of a list, for who reads it.
#pragma once

#include "runtime/wire/diff.h"

namespace atl::sandbox {

using wire::DiffEntry;

}  // namespace atl::sandbox
