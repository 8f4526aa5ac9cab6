// SQLite as Results: a connection, a prepared statement, a transaction. Built as a library of its
// own (sqlite_dep), so that the static programs never link it.
//
// A full disk does not stop a database that was open before: its log is allocated ahead, up to
// where it begins again, and KeepRoom has pages allocated in the file that nobody else can take.
// Nothing of it is ever given back to the file system, where a sandbox that writes without end
// would have it at once.
//
// A database belongs to this process alone while a connection is open (the VFS "unix-excl"): no
// file of shared memory has to be made or to grow, and no foreign reader can keep the log from
// beginning again. Another program gets "database is locked"; `sqlite3 'file:PATH?immutable=1'`
// shows what has been moved out of the log.
//
// Thread rule: a Db and everything made from it belong to one thread at a time; the owner may hand
// all of it to a pool thread for the length of one job. Opened without SQLite's own mutexes.
//
// Errors: SQLITE_CONSTRAINT is kAlreadyExists for unique and primary keys and kFailedPrecondition
// otherwise; BUSY and LOCKED are kUnavailable; FULL is kResourceExhausted with ENOSPC; READONLY and
// PERM are kPermissionDenied; CORRUPT, NOTADB and the rest are kInternal. The message holds the
// file, the statement and SQLite's words.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

struct sqlite3;
struct sqlite3_stmt;

namespace atl::sqlite {

// One prepared statement. Parameters are numbered from 1, columns from 0, as SQLite does.
class Stmt {
 public:
  Stmt(Stmt&&) = default;
  Stmt& operator=(Stmt&&) = default;

  // Values are copied. Binding a number that the statement does not have aborts: a bug, not input.
  Stmt& Bind(int index, int64_t value);
  Stmt& Bind(int index, std::string_view text);
  Stmt& Bind(int index, const char* text) { return Bind(index, std::string_view(text)); }
  Stmt& BindBlob(int index, std::string_view bytes);
  Stmt& BindNull(int index);

  // True: a row is there, read it with Column*. False: the statement is done.
  Result<bool> Step();
  // Step until done, then Reset: for statements whose rows do not matter. Keeps nothing bound.
  Status Run();

  int64_t ColumnInt(int column) const;
  // Text or blob; NULL is empty. Copied.
  std::string ColumnText(int column) const;
  bool ColumnIsNull(int column) const;

  // Ready for the next use; bindings are cleared.
  void Reset();

 private:
  friend class Db;
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit Stmt(sqlite3_stmt* statement) : statement_(statement) {}
  std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
};

struct Options {
  // The log is allocated up to this size when the database is opened, moved into the database by
  // the write that fills three quarters of it, and cut back to it. More than any transaction but
  // the largest takes.
  uint64_t log_bytes = 2 << 20;
  // true: FULL, a commit survives power loss (0.2 ms more). false: NORMAL, a commit survives the
  // death of this process at any moment, and the file stays consistent in any case.
  bool durable = false;
  // How long a statement waits for another process's lock before kUnavailable.
  int busy_timeout_ms = 5000;
};

class Db {
 public:
  // Opens or creates `path` (":memory:" for tests) with mode 0600: WAL, foreign keys on, defensive
  // mode, no extension loading. A file that is not a database is kInternal.
  static Result<Db> Open(const std::string& path, const Options& options = {});

  Db(Db&&) = default;
  Db& operator=(Db&&) = default;

  // One or more statements without parameters or results: schema, PRAGMA.
  Status Exec(const std::string& sql);
  // Exactly one statement.
  Result<Stmt> Prepare(std::string_view sql);

  // Free pages in the file, in bytes: what can still grow on a full disk.
  Result<int64_t> Room();
  // Makes room for `bytes` if there is less. kResourceExhausted: the file system has none. Not
  // within a transaction, and not while another connection moves the log. With enough of it, one
  // look at a page that is in memory.
  Status KeepRoom(int64_t bytes);

  // The whole database as the bytes of a file, as it stands now, its log included.
  Result<std::string> Serialize();

  int64_t LastInsertId() const;
  // Rows changed by the last INSERT, UPDATE or DELETE.
  int64_t Changes() const;

  // PRAGMA user_version: the number of the schema.
  Result<int64_t> UserVersion();
  Status SetUserVersion(int64_t version);

 private:
  friend class Transaction;
  struct Closer {
    void operator()(sqlite3* db) const;
  };
  explicit Db(sqlite3* db) : db_(db) {}
  Status AllocateLog();

  // In this order: statements are finalised before their connection.
  std::unique_ptr<sqlite3, Closer> db_;
  std::unique_ptr<sqlite3_stmt, Stmt::Finalizer> room_;
  UniqueFd log_;  // the write-ahead log; SQLite locks nothing in it, which closing would unlock
  uint64_t log_bytes_ = 0;
};

// A change of a schema. What a release has shipped stays as it is.
using SchemaStep = Status (*)(Db& db);

// Takes the steps that `db` lacks, in their order, each in one transaction with its number, which
// is PRAGMA user_version. kFailedPrecondition: `db` has more steps than there are; a newer release
// has written it, and nothing is changed.
Status Migrate(Db& db, std::span<const SchemaStep> steps);

// BEGIN IMMEDIATE … COMMIT; rolled back when it goes out of scope without Commit. The Db must
// outlive it and stay where it is.
class [[nodiscard]] Transaction {
 public:
  static Result<Transaction> Begin(Db& db);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  // After an error the transaction is rolled back.
  Status Commit();

 private:
  explicit Transaction(sqlite3* db) : db_(db) {}
  sqlite3* db_;  // null: nothing to roll back
};

}  // namespace atl::sqlite
