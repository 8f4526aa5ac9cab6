// The durable records of the sandboxes: one SQLite file, WAL with synchronous=NORMAL. A committed
// write survives the death of the daemon at any moment. Sandboxes do not outlive the host, so the
// create path needs no fsync.
//
// The file reserves free pages for a full disk. On a full disk the store refuses what makes it
// grow: first new sandboxes, then larger labels and policies. Deletions, pauses and renewals always
// work.
//
// Thread rule: on the loop. A write is one row, some 15 µs. Now and then a pool thread checkpoints
// the WAL into the database.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/sqlite.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/store/idempotency.h"

namespace atl::sandbox {

class Store {
 public:
  // WAL limit of every connection. 100 creates and deletes a second fill a tenth of it before the
  // pool runs a checkpoint.
  static constexpr uint64_t kLogBytes = 32 << 20;
  // Free bytes in the file. The store keeps kRoom free while the disk has room. Creates stop below
  // kRoomForChanges; labels, policies and events stop below kRoomForEnds.
  static constexpr int64_t kRoom = 4 << 20;
  static constexpr int64_t kRoomForChanges = 2 << 20;
  static constexpr int64_t kRoomForEnds = 1 << 20;

  // Opens or creates the file at `path` (":memory:" for tests). kFailedPrecondition: a newer Atoll
  // has written the file. `loop` lends its pool for checkpoints; without a loop, writes run them.
  static Result<std::unique_ptr<Store>> Open(const std::string& path, Loop* loop = nullptr);
  // Checks the room before another connection to the file adds a row. kResourceExhausted with
  // ENOSPC: the remaining room is for changes.
  static Status CheckRoom(sqlite::Db& db);

  Result<std::vector<Sandbox>> Load();
  // Returns true if there is a record of that id: a client has been told of the sandbox, or it is
  // in stock.
  Result<bool> Has(const std::string& id);
  // Gives all sandboxes of clients without an owner to the tenant, in one transaction. Returns how
  // many. Call before Load.
  Result<size_t> Adopt(const std::string& tenant);
  // Inserts a record and the key of its request, if any, in one transaction. kResourceExhausted
  // with ENOSPC: the disk is full.
  Status Insert(const Sandbox& sandbox, const std::optional<KeyRecord>& key = std::nullopt) {
    return Insert(std::span(&sandbox, 1), key);
  }
  // Inserts all records or none.
  Status Insert(std::span<const Sandbox> sandboxes, const std::optional<KeyRecord>& key);
  // Rewrites the whole record and inserts the key of the request that claimed it, in one
  // transaction. Errors: see Insert.
  Status Reinsert(const Sandbox& sandbox, const std::optional<KeyRecord>& key);
  // Writes the fields that a transition changes. kNotFound: the id is unknown.
  Status Update(const Sandbox& sandbox);
  // Writes the other fields: labels, policy and the like. kNotFound: the id is unknown. Other
  // errors: see Insert.
  Status UpdateSpec(const Sandbox& sandbox);
  // Writes all fields and the key of the request, in one transaction.
  Status Replace(const Sandbox& sandbox, const std::optional<KeyRecord>& key);
  // Returns the keys, oldest first.
  Result<std::vector<KeyRecord>> LoadKeys();
  // Succeeds for an unknown key.
  Status RemoveKey(const std::string& tenant, const std::string& key);
  // Succeeds for an unknown id.
  Status Remove(const std::string& id);
  Status RemoveAll();

  // Tests by a write that changes nothing whether the store works. kResourceExhausted: the disk is
  // full, so the store refuses new sandboxes, or soon will.
  Status Check();

  // The connection, for tables beside the sandboxes' own.
  sqlite::Db& db() { return db_; }

 private:
  Store(sqlite::Db db, sqlite::Stmt insert, sqlite::Stmt update, sqlite::Stmt remove)
      : db_(std::move(db)),
        insert_(std::move(insert)),
        update_(std::move(update)),
        remove_(std::move(remove)) {}

  Status InsertRow(const Sandbox& sandbox);
  Status InsertKey(const KeyRecord& key);
  Status WriteSpec(const Sandbox& sandbox);
  // Fails if the file has less than `least` free bytes and cannot grow.
  Status KeepRoom(int64_t least);
  void Wrote();

  // SQLite requires that statements are finalised before their connection.
  sqlite::Db db_;
  sqlite::Stmt insert_;
  sqlite::Stmt update_;
  sqlite::Stmt remove_;
  std::string path_;
  Loop* loop_ = nullptr;
  int writes_ = 0;  // since the last checkpoint began
  // The pool's job holds a reference, which may outlive this object.
  std::shared_ptr<bool> checkpointing_ = std::make_shared<bool>(false);
};

}  // namespace atl::sandbox
