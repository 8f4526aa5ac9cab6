// One line of the list that Copies::Diff writes.
#pragma once

#include "runtime/wire/diff.h"

namespace atl::sandbox {

using wire::DiffEntry;

}  // namespace atl::sandbox
