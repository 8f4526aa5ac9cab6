// Ids of sandboxes that were, so that a way into one of them can say that it is gone and not that
// it never was. The newest hundred thousand; an id is never used again.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/sqlite.h"

namespace atl::sandbox {

class GoneIds {
 public:
  static constexpr int64_t kKept = 100'000;

  // In the store's `db`, which outlives us. From now on whoever removes a record there, by whatever
  // statement, leaves its id behind in the same transaction.
  static Result<std::unique_ptr<GoneIds>> Open(sqlite::Db& db, int64_t kept = kKept);

  // One look at an index.
  Result<bool> Contains(const std::string& id);

 private:
  explicit GoneIds(sqlite::Stmt find) : find_(std::move(find)) {}

  sqlite::Stmt find_;
};

}  // namespace atl::sandbox
