// The tables of atoll.db, and the way of a store from an older release to this one.
//
// Thread rule: a connection belongs to one thread at a time.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/base/sqlite.h"

namespace atl::sandbox {

// Opens the store at `path`, and creates it if absent (":memory:" for tests). Each step that the
// store lacks is one transaction: after an error the store is as it was before that step.
// kFailedPrecondition: a newer Atoll has written it. kInternal: a record is damaged; its id is in
// the message. kResourceExhausted: the disk has no room for the step; the release before works on.
Result<sqlite::Db> OpenRecords(const std::string& path, const sqlite::Options& options);

}  // namespace atl::sandbox
