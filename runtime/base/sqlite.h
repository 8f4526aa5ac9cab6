// SQLite with Results: a connection, a prepared statement, a transaction. A separate library
// (sqlite_dep), so that the static programs never link it.
//
// An open database keeps working on a full disk. Its log is allocated ahead up to the size at which
// it starts over, and KeepRoom allocates free pages in the file that nobody else can take. None of
// this is ever returned to the file system, where a sandbox that writes without end would take it
// at once.
//
// While a connection is open, the database belongs to this process alone (the VFS "unix-excl").
// Therefore no shared-memory file has to be created or grown, and no foreign reader can keep the
// log from starting over. Other programs get "database is locked". `sqlite3
// 'file:PATH?immutable=1'` shows what has been moved out of the log.
//
// Thread rule: a Db and everything made from it belong to one thread at a time. The owner may hand
// all of it to a pool thread for one job. Opened without SQLite's own mutexes.
//
// Errors: SQLITE_CONSTRAINT is kAlreadyExists for unique and primary keys, otherwise
// kFailedPrecondition; BUSY and LOCKED are kUnavailable; FULL is kResourceExhausted with ENOSPC;
// READONLY and PERM are kPermissionDenied; CORRUPT, NOTADB and the rest are kInternal. The message
// has the file, the statement and SQLite's message.
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

// A prepared statement. Parameters are numbered from 1, columns from 0, as in SQLite.
class Stmt {
 public:
  Stmt(Stmt&&) = default;
  Stmt& operator=(Stmt&&) = default;

  // Values are copied. Binding a number that the statement does not have is a bug and aborts.
  Stmt& Bind(int index, int64_t value);
  Stmt& Bind(int index, std::string_view text);
  Stmt& Bind(int index, const char* text) { return Bind(index, std::string_view(text)); }
  Stmt& BindBlob(int index, std::string_view bytes);
  Stmt& BindNull(int index);

  // Returns true if there is a row, to be read with Column*, and false if the statement is done.
  Result<bool> Step();
  // Steps until done, then resets and clears the bindings. For statements whose rows do not matter.
  Status Run();

  int64_t ColumnInt(int column) const;
  // Returns text or blob, copied. NULL becomes empty.
  std::string ColumnText(int column) const;
  bool ColumnIsNull(int column) const;

  // Prepares for the next use and clears the bindings.
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
  // The log is allocated up to this size when the database is opened. The write that fills three
  // quarters of it moves it into the database, and it is cut back to this size. Larger than almost
  // any transaction.
  uint64_t log_bytes = 2 << 20;
  // true: FULL, a commit survives power loss (0.2 ms more). false: NORMAL, a commit survives the
  // death of this process at any moment. The file stays consistent in either case.
  bool durable = false;
  // How long a statement waits for another process's lock before kUnavailable.
  int busy_timeout_ms = 5000;
};

class Db {
 public:
  // Opens or creates `path` (":memory:" for tests) with mode 0600: WAL, foreign keys on, defensive
  // mode, no extension loading. kInternal: not a database.
  static Result<Db> Open(const std::string& path, const Options& options = {});

  Db(Db&&) = default;
  Db& operator=(Db&&) = default;

  // Runs one or more statements without parameters or results: schema, PRAGMA.
  Status Exec(const std::string& sql);
  // Prepares exactly one statement.
  Result<Stmt> Prepare(std::string_view sql);

  // Returns the free pages in the file, in bytes: how much the content can still grow on a full
  // disk.
  Result<int64_t> Room();
  // Makes sure that the file has free pages for `bytes`. kResourceExhausted: the file system is
  // full. Must not be called within a transaction, or while another connection moves the log. If
  // there is enough room, it only looks at one cached page.
  Status KeepRoom(int64_t bytes);

  // Returns the whole current database, including its log, as the bytes of a file.
  Result<std::string> Serialize();

  int64_t LastInsertId() const;
  // Number of rows changed by the last INSERT, UPDATE or DELETE.
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

  // The order matters: statements must be finalised before their connection.
  std::unique_ptr<sqlite3, Closer> db_;
  std::unique_ptr<sqlite3_stmt, Stmt::Finalizer> room_;
  UniqueFd log_;  // the write-ahead log; SQLite holds no locks on it that closing would release
  uint64_t log_bytes_ = 0;
};

// A change of a schema. A step that a release has shipped must never be changed.
using SchemaStep = Status (*)(Db& db);

// Takes the steps that `db` lacks, in order. Each runs in one transaction with its number, which is
// stored as PRAGMA user_version. kFailedPrecondition: a newer release has written `db`, which has
// more steps than are known; nothing is changed.
Status Migrate(Db& db, std::span<const SchemaStep> steps);

// BEGIN IMMEDIATE … COMMIT. Rolled back when it goes out of scope without Commit. The Db must
// outlive it and must not be moved.
class [[nodiscard]] Transaction {
 public:
  static Result<Transaction> Begin(Db& db);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  // If it fails, the transaction is rolled back.
  Status Commit();

 private:
  explicit Transaction(sqlite3* db) : db_(db) {}
  sqlite3* db_;  // null: nothing to roll back
};

}  // namespace atl::sqlite
