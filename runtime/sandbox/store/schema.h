// The tables of atoll.db, and the migration of a store from an older release.
//
// Thread rule: a connection belongs to one thread at a time.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/base/sqlite.h"

namespace atl::sandbox {

// Opens the store at `path`, and creates it if absent (":memory:" for tests). Runs each missing
// migration step in a transaction of its own: after an error the store is as it was before that
// step. kFailedPrecondition: a newer Atoll has written the store. kInternal: a record is damaged;
// the message has its id. kResourceExhausted: the disk has no room for the step; the older release
// still works.
Result<sqlite::Db> OpenRecords(const std::string& path, const sqlite::Options& options);

}  // namespace atl::sandbox
