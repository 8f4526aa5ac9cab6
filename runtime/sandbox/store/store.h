// The durable records of the sandboxes: one SQLite file, WAL with synchronous=NORMAL. What has been
// written survives the death of the daemon at any moment; sandboxes do not outlive the host, so
// there is no fsync to pay for on the create path.
//
// On a full disk what makes the store grow is refused and everything else goes on, in room that the
// file has kept: new sandboxes are refused first, then larger labels and policies; deletions,
// pauses and renewals never.
//
// Thread rule: on the loop. A write is one row, some 15 µs; now and then a pool thread moves the
// log into the database.
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
  // Of every connection to it. 100 creates and deletes a second fill a tenth before the pool moves
  // it.
  static constexpr uint64_t kLogBytes = 32 << 20;
  // Free pages in the file while the disk has room, and what is left of them for whom: creates stop
  // at the second number, labels, policies and events at the third.
  static constexpr int64_t kRoom = 4 << 20;
  static constexpr int64_t kRoomForChanges = 2 << 20;
  static constexpr int64_t kRoomForEnds = 1 << 20;

  // `path` is created if absent (":memory:" for tests). A file of a newer Atoll is
  // kFailedPrecondition. `loop` lends its pool; without one, the log is moved by the writes.
  static Result<std::unique_ptr<Store>> Open(const std::string& path, Loop* loop = nullptr);
  // Of another connection to the file, before it adds a row. kResourceExhausted with ENOSPC: what
  // is left is for changes.
  static Status CheckRoom(sqlite::Db& db);

  Result<std::vector<Sandbox>> Load();
  // With the key of the request that made it, if it had one: both or none. kResourceExhausted with
  // ENOSPC: the disk is full.
  Status Insert(const Sandbox& sandbox, const std::optional<KeyRecord>& key = std::nullopt) {
    return Insert(std::span(&sandbox, 1), key);
  }
  // All or none.
  Status Insert(std::span<const Sandbox> sandboxes, const std::optional<KeyRecord>& key);
  // The whole record anew, with the key of the request that has claimed it: both or none. As
  // Insert.
  Status Reinsert(const Sandbox& sandbox, const std::optional<KeyRecord>& key);
  // Writes what moves. An unknown id is kNotFound.
  Status Update(const Sandbox& sandbox);
  // Writes the rest of the record: labels, policy and the like. An unknown id is kNotFound; as
  // Insert.
  Status UpdateSpec(const Sandbox& sandbox);
  // Both at once, with the key of the request that asked for it.
  Status Replace(const Sandbox& sandbox, const std::optional<KeyRecord>& key);
  // Oldest first.
  Result<std::vector<KeyRecord>> LoadKeys();
  // An unknown one is not an error.
  Status RemoveKey(const std::string& key);
  // An unknown id is not an error.
  Status Remove(const std::string& id);
  Status RemoveAll();

  // Whether all of that works now, tried by a write that changes nothing: its error says why not.
  // kResourceExhausted: the disk is full, and new sandboxes are or will be refused.
  Status Check();

  // For tables beside this one.
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
  // Fails if there is less than `least` and no more to be had.
  Status KeepRoom(int64_t least);
  void Wrote();

  // Statements are finalised before their connection.
  sqlite::Db db_;
  sqlite::Stmt insert_;
  sqlite::Stmt update_;
  sqlite::Stmt remove_;
  std::string path_;
  Loop* loop_ = nullptr;
  int writes_ = 0;  // since the last checkpoint was begun
  // Outlives us in the pool's hands.
  std::shared_ptr<bool> checkpointing_ = std::make_shared<bool>(false);
};

}  // namespace atl::sandbox
