// Remembers ids of removed sandboxes, and their owners, so that the proxy can answer that a sandbox
// is gone, and not that it never existed. Keeps the newest hundred thousand. Ids are never reused.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/sqlite.h"

namespace atl::sandbox {

class GoneIds {
 public:
  static constexpr int64_t kKept = 100'000;

  // Adds a trigger to the store's `db`, which outlives this object. From now on any statement that
  // removes a record stores the record's id in the same transaction.
  static Result<std::unique_ptr<GoneIds>> Open(sqlite::Db& db, int64_t kept = kKept);

  // Returns the tenant that the sandbox belonged to; nothing for an unknown id. Costs one look-up
  // in an index.
  Result<std::optional<std::string>> OwnerOf(const std::string& id);

 private:
  explicit GoneIds(sqlite::Stmt find) : find_(std::move(find)) {}

  sqlite::Stmt find_;
};

}  // namespace atl::sandbox
