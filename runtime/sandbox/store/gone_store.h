// The store of what is gone: the ids and owners of removed sandboxes, and the records of those that
// the history keeps.
//
// An id is remembered so that the proxy can answer that a sandbox is gone, and not that it never
// existed. Ids are never reused. The newest hundred thousand ids are remembered, and every id with
// a record.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/sqlite.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

// An entry of the history.
struct GoneSandbox {
  int64_t gone_ms = 0;
  int64_t number = 0;  // tells sandboxes that have gone in one millisecond apart; larger: later
  Sandbox sandbox;     // without secrets (Remains)
  std::string log;     // name of its log (LogStore); empty: it printed nothing
  uint64_t bytes = 0;  // size of the record, of the log and of the recordings
};

// Returns the part of a sandbox's record that may outlive the sandbox: no values of variables, no
// arguments of its entrypoint, no extensions, no tokens, keys or credentials. The state and its
// cause are those of the sandbox's end.
Sandbox Remains(const Sandbox& sandbox);

class GoneStore {
 public:
  static constexpr int64_t kKept = 100'000;

  // Adds a trigger to the store's `db`, which outlives this object. From now on any statement that
  // removes a record stores the record's id in the same transaction.
  static Result<std::unique_ptr<GoneStore>> Open(sqlite::Db& db, int64_t kept = kKept);

  // Returns the tenant that the sandbox belonged to; nothing for an unknown id. Costs one look-up
  // in an index.
  Result<std::optional<std::string>> OwnerOf(const std::string& id);

  // Keeps the remains of a sandbox. Call in the transaction that removes its record. Returns the
  // size of the stored record and of its recordings, which is `recordings`.
  Result<uint64_t> Keep(const Sandbox& remains, int64_t gone_ms, const std::string& log,
                        uint64_t recordings = 0);
  // Adds the size of the log, once it is complete. Returns false if there is no such record.
  Result<bool> AddBytes(const std::string& id, uint64_t bytes);
  // Removes the record. The id stays remembered.
  Status Drop(const std::string& id);

  // Returns nothing if no record of that id is kept.
  Result<std::optional<GoneSandbox>> Find(const std::string& id);

  struct Query {
    std::optional<std::string> tenant;  // none: all tenants
    int64_t since_ms = 0;
    int64_t until_ms = INT64_MAX;  // exclusive
    // Only what went before this sandbox; 0: no such limit.
    int64_t before_ms = 0;
    int64_t before_number = 0;
  };
  // Calls `visit` for each record, latest first, until it returns false. Skips records that a newer
  // release has written.
  Status Visit(const Query& query, const std::function<bool(GoneSandbox gone)>& visit);

  // The share of a tenant in the history.
  struct Share {
    std::string tenant;
    uint64_t entries = 0;
    uint64_t bytes = 0;
  };
  Result<std::vector<Share>> Shares();
  // A kept record without its text.
  struct Entry {
    std::string id;
    std::string tenant;
    std::string log;
    int64_t gone_ms = 0;
    uint64_t bytes = 0;
    bool measured = false;  // `bytes` contains the size of the log
  };
  // Returns the tenant's record that is kept longest; without a tenant, that of all.
  Result<std::optional<Entry>> Oldest(const std::optional<std::string>& tenant);
  // Returns all entries that have a log.
  Result<std::vector<Entry>> WithLogs();

 private:
  GoneStore(sqlite::Db& db, int64_t kept, sqlite::Stmt owner, sqlite::Stmt forget,
            sqlite::Stmt keep)
      : db_(db),
        kept_(kept),
        owner_(std::move(owner)),
        forget_(std::move(forget)),
        keep_(std::move(keep)) {}

  sqlite::Db& db_;
  const int64_t kept_;  // number of ids without records
  sqlite::Stmt owner_, forget_, keep_;
};

}  // namespace atl::sandbox
