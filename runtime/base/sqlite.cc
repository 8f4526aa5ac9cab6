#include "runtime/base/sqlite.h"

#include <fcntl.h>
#include <sqlite3.h>

#include <utility>

#include "runtime/base/sys.h"

namespace atl::sqlite {
namespace {

// Text of a statement in an error: enough to recognise it.
constexpr size_t kMaxQuoted = 120;

Code CodeOf(int extended) {
  switch (extended) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
      return Code::kAlreadyExists;
    default:
      break;
  }
  switch (extended & 0xff) {
    case SQLITE_CONSTRAINT:
      return Code::kFailedPrecondition;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Code::kUnavailable;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      return Code::kResourceExhausted;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return Code::kPermissionDenied;
    case SQLITE_CANTOPEN:
      return Code::kNotFound;
    default:
      return Code::kInternal;
  }
}

tl::unexpected<Error> FailSqlite(sqlite3* db, std::string_view sql) {
  const char* file = sqlite3_db_filename(db, "main");
  std::string message = "sqlite ";
  message.append(file != nullptr && *file != '\0' ? file : ":memory:");
  if (!sql.empty()) message.append(" '").append(sql.substr(0, kMaxQuoted)).append("'");
  message.append(": ").append(sqlite3_errmsg(db));
  return Fail(
      Error(CodeOf(sqlite3_extended_errcode(db)), std::move(message), sqlite3_system_errno(db)));
}

}  // namespace

void Stmt::Finalizer::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Stmt& Stmt::Bind(int index, int64_t value) {
  ATOLL_CHECK(sqlite3_bind_int64(statement_.get(), index, value) == SQLITE_OK);
  return *this;
}

Stmt& Stmt::Bind(int index, std::string_view text) {
  // A null data() would bind NULL instead of an empty text.
  ATOLL_CHECK(sqlite3_bind_text64(statement_.get(), index, text.empty() ? "" : text.data(),
                                  text.size(), SQLITE_TRANSIENT, SQLITE_UTF8) == SQLITE_OK);
  return *this;
}

Stmt& Stmt::BindBlob(int index, std::string_view bytes) {
  ATOLL_CHECK(sqlite3_bind_blob64(statement_.get(), index, bytes.empty() ? "" : bytes.data(),
                                  bytes.size(), SQLITE_TRANSIENT) == SQLITE_OK);
  return *this;
}

Stmt& Stmt::BindNull(int index) {
  ATOLL_CHECK(sqlite3_bind_null(statement_.get(), index) == SQLITE_OK);
  return *this;
}

Result<bool> Stmt::Step() {
  const int rc = sqlite3_step(statement_.get());
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  auto failure = FailSqlite(sqlite3_db_handle(statement_.get()), sqlite3_sql(statement_.get()));
  // A failed statement would otherwise keep its read transaction open.
  sqlite3_reset(statement_.get());
  return failure;
}

Status Stmt::Run() {
  for (;;) {
    auto row = Step();
    if (!row) {
      Reset();
      return Fail(std::move(row).error());
    }
    if (!*row) break;
  }
  Reset();
  return {};
}

int64_t Stmt::ColumnInt(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string Stmt::ColumnText(int column) const {
  // column_blob before column_bytes: the order that forces no conversion in between.
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (data == nullptr || size <= 0) return {};
  return std::string(static_cast<const char*>(data), static_cast<size_t>(size));
}

bool Stmt::ColumnIsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

void Stmt::Reset() {
  // The result repeats the error of the last step, which Step has reported.
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

void Db::Closer::operator()(sqlite3* db) const {
  // v2: closes when the last statement is gone, whatever the order of destruction.
  sqlite3_close_v2(db);
}

Result<Db> Db::Open(const std::string& path, const Options& options) {
  if (path != ":memory:") {
    // SQLite would create the file, its -wal and its -shm with 0644 & ~umask; the latter two take
    // the mode of the first.
    ATOLL_ASSIGN(const UniqueFd created, sys::Open(path, O_RDWR | O_CREAT, 0600));
  }
  sqlite3* raw = nullptr;
  const int rc = sqlite3_open_v2(
      path.c_str(), &raw,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      nullptr);
  if (raw == nullptr) return Fail(Code::kResourceExhausted, "sqlite3_open " + path);
  Db db(raw);
  if (rc != SQLITE_OK) return FailSqlite(raw, {});
  sqlite3_busy_timeout(raw, options.busy_timeout_ms);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  ATOLL_TRY(db.Exec("PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON;"));
  ATOLL_TRY(db.Exec(options.durable ? "PRAGMA synchronous=FULL;" : "PRAGMA synchronous=NORMAL;"));
  return db;
}

Status Db::Exec(const std::string& sql) {
  if (sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return FailSqlite(db_.get(), sql);
  }
  return {};
}

Result<Stmt> Db::Prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const char* rest = nullptr;
  if (sqlite3_prepare_v3(db_.get(), sql.data(), static_cast<int>(sql.size()),
                         SQLITE_PREPARE_PERSISTENT, &raw, &rest) != SQLITE_OK) {
    return FailSqlite(db_.get(), sql);
  }
  Stmt stmt(raw);
  if (raw == nullptr || rest != sql.data() + sql.size()) {
    return Fail(Code::kInvalidArgument, "sqlite: not one statement: '" + std::string(sql) + "'");
  }
  return stmt;
}

int64_t Db::LastInsertId() const {
  return sqlite3_last_insert_rowid(db_.get());
}

int64_t Db::Changes() const {
  return sqlite3_changes64(db_.get());
}

Result<int64_t> Db::UserVersion() {
  ATOLL_ASSIGN(Stmt stmt, Prepare("PRAGMA user_version"));
  ATOLL_ASSIGN(const bool row, stmt.Step());
  return row ? stmt.ColumnInt(0) : 0;
}

Status Db::SetUserVersion(int64_t version) {
  return Exec("PRAGMA user_version=" + std::to_string(version));
}

Result<Transaction> Transaction::Begin(Db& db) {
  // IMMEDIATE takes the write lock now: a deferred one can fail with BUSY in the middle.
  ATOLL_TRY(db.Exec("BEGIN IMMEDIATE"));
  return Transaction(db.db_.get());
}

Transaction::Transaction(Transaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}

Transaction::~Transaction() {
  // Fails only if SQLite has rolled back by itself (disk full, I/O error), which is what we want.
  if (db_ != nullptr) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

Status Transaction::Commit() {
  ATOLL_CHECK(db_ != nullptr);
  if (sqlite3_exec(db_, "COMMIT", nullptr, nullptr, nullptr) != SQLITE_OK) {
    auto failure = FailSqlite(db_, "COMMIT");
    sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
    db_ = nullptr;
    return failure;
  }
  db_ = nullptr;
  return {};
}

}  // namespace atl::sqlite
