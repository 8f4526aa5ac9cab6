#include "runtime/base/sqlite.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <utility>

#include "runtime/base/disk_full.h"
#include "runtime/base/sys.h"

namespace atl::sqlite {
namespace {

// Most characters of a statement in an error: enough to recognise it.
constexpr size_t kMaxQuoted = 120;
constexpr int64_t kPageSize = 4096;
// The unit in which a database grows, and to a multiple of which SQLite truncates it when it moves
// the log. A step passes through the log and takes 0.2 ms.
constexpr int kStep = 256 << 10;

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

// SQLITE_FULL stands for ENOSPC of a write, for which SQLite stores no errno.
int NumberOf(sqlite3* db) {
  if ((sqlite3_extended_errcode(db) & 0xff) == SQLITE_FULL) return ENOSPC;
  return sqlite3_system_errno(db);
}

tl::unexpected<Error> FailSqlite(sqlite3* db, std::string_view sql) {
  const char* file = sqlite3_db_filename(db, "main");
  std::string message = "sqlite ";
  message.append(file != nullptr && *file != '\0' ? file : ":memory:");
  if (!sql.empty()) message.append(" '").append(sql.substr(0, kMaxQuoted)).append("'");
  message.append(": ").append(sqlite3_errmsg(db));
  Error error(CodeOf(sqlite3_extended_errcode(db)), std::move(message), NumberOf(db));
  if (!IsDiskFull(error)) return Fail(std::move(error));
  return Fail(Error(Code::kResourceExhausted, error.message(), error.error_number()));
}

// Does not open an existing file: closing any descriptor of it would release the locks that another
// connection of this process holds (fcntl(2)), and a foreign program could then remove the log.
Status CreateFile(const std::string& path) {
  const auto created = sys::Open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (created || created.error().code() == Code::kAlreadyExists) return {};
  return Fail(created.error());
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
  // column_blob must come before column_bytes, to avoid a conversion in between.
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
  // Unless the limit is removed, the last connection would truncate the log, and on a full disk the
  // next start could not allocate it again.
  sqlite3_exec(db, "PRAGMA journal_size_limit=-1", nullptr, nullptr, nullptr);
  // v2 closes when the last statement is gone, whatever the order of destruction.
  sqlite3_close_v2(db);
}

Result<Db> Db::Open(const std::string& path, const Options& options) {
  const bool in_memory = path == ":memory:";
  // SQLite would create the file with 0644 & ~umask. The log gets the mode of the file.
  if (!in_memory) ATOLL_TRY(CreateFile(path));
  sqlite3* raw = nullptr;
  const int rc = sqlite3_open_v2(
      path.c_str(), &raw,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      in_memory ? nullptr : "unix-excl");
  if (raw == nullptr) return Fail(Code::kResourceExhausted, "sqlite3_open " + path);
  Db db(raw);
  if (rc != SQLITE_OK) return FailSqlite(raw, {});
  sqlite3_busy_timeout(raw, options.busy_timeout_ms);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  int step = kStep;
  int persist = 1;
  sqlite3_file_control(raw, nullptr, SQLITE_FCNTL_CHUNK_SIZE, &step);
  sqlite3_file_control(raw, nullptr, SQLITE_FCNTL_PERSIST_WAL, &persist);
  ATOLL_TRY(db.Exec("PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY;"));
  ATOLL_TRY(db.Exec(options.durable ? "PRAGMA synchronous=FULL;" : "PRAGMA synchronous=NORMAL;"));
  const uint64_t frames = options.log_bytes / 4 * 3 / kPageSize;
  ATOLL_TRY(db.Exec("PRAGMA wal_autocheckpoint=" + std::to_string(frames) +
                    "; PRAGMA journal_size_limit=" + std::to_string(options.log_bytes)));
  if (in_memory) return db;
  // The first read creates the log.
  ATOLL_TRY(db.UserVersion());
  ATOLL_ASSIGN(db.log_, sys::Open(path + "-wal", O_RDWR | O_NOFOLLOW));
  db.log_bytes_ = options.log_bytes;
  // Ignored on a full disk: the log may still be allocated from before, and KeepRoom reports the
  // problem.
  [[maybe_unused]] const Status allocated = db.AllocateLog();
  return db;
}

Result<std::string> Db::Serialize() {
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, decltype(&sqlite3_free)> bytes(
      sqlite3_serialize(db_.get(), "main", &size, 0), &sqlite3_free);
  if (bytes == nullptr) return FailSqlite(db_.get(), "serialize");
  return std::string(reinterpret_cast<const char*>(bytes.get()), static_cast<size_t>(size));
}

Status Db::AllocateLog() {
  struct stat info {};
  if (!log_) return {};
  if (::fstat(log_.get(), &info) != 0) return FailSys("fstat log of the database");
  if (static_cast<uint64_t>(info.st_blocks) * 512 >= log_bytes_) return {};
  struct statvfs room {};
  if (::fstatvfs(log_.get(), &room) != 0) return FailSys("fstatvfs log of the database");
  // If there is too little space, ext4 would still take it, to no use.
  if (uint64_t{room.f_bavail} * room.f_frsize < 2 * log_bytes_) {
    return Fail(SysError("too little room for the log of the database", ENOSPC));
  }
  // File systems that cannot allocate ahead are accepted.
  if (::fallocate(log_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(log_bytes_)) == 0 ||
      errno == EOPNOTSUPP) {
    return {};
  }
  return FailSys("fallocate log of the database");
}

Result<int64_t> Db::Room() {
  if (!room_) {
    ATOLL_ASSIGN(Stmt made, Prepare("PRAGMA freelist_count"));
    room_ = std::move(made.statement_);
  }
  if (sqlite3_step(room_.get()) != SQLITE_ROW) {
    auto failure = FailSqlite(db_.get(), "PRAGMA freelist_count");
    sqlite3_reset(room_.get());
    return failure;
  }
  const int64_t pages = sqlite3_column_int64(room_.get(), 0);
  sqlite3_reset(room_.get());
  return pages * kPageSize;
}

Status Db::KeepRoom(int64_t bytes) {
  ATOLL_ASSIGN(const int64_t room, Room());
  if (room >= bytes) return {};
  ATOLL_TRY(AllocateLog());
  // Rounded up, so that the next growth is far away: all of the room passes through the log.
  const int64_t wanted = bytes + bytes / 2;
  // First grows the file, which has no effect if it fails. Then the pages are written, and find
  // their place in the file allocated when they are moved out of the log.
  ATOLL_ASSIGN(Stmt count, Prepare("PRAGMA page_count"));
  ATOLL_ASSIGN(const bool row, count.Step());
  const int64_t pages = row ? count.ColumnInt(0) : 0;
  count.Reset();
  int64_t size = pages * kPageSize + wanted - room + kStep;
  const int rc = sqlite3_file_control(db_.get(), nullptr, SQLITE_FCNTL_SIZE_HINT, &size);
  if (rc != SQLITE_OK && rc != SQLITE_NOTFOUND) {  // not found: in memory
    const char* file = sqlite3_db_filename(db_.get(), "main");
    return Fail(Error(Code::kResourceExhausted,
                      std::string("cannot allocate room in ") + (file != nullptr ? file : ""),
                      ENOSPC));
  }
  ATOLL_ASSIGN(Transaction transaction, Transaction::Begin(*this));
  // Uses up the free pages, then new ones. Afterwards all of them are free.
  ATOLL_TRY(Exec("CREATE TABLE room(bytes); INSERT INTO room VALUES(zeroblob(" +
                 std::to_string(wanted) + ")); DROP TABLE room"));
  return transaction.Commit();
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

Status Migrate(Db& db, std::span<const SchemaStep> steps) {
  ATOLL_ASSIGN(const int64_t version, db.UserVersion());
  const auto known = static_cast<int64_t>(steps.size());
  if (version < 0 || version > known) {
    return Fail(Code::kFailedPrecondition, "a newer Atoll has written it (schema " +
                                               std::to_string(version) + "; this one knows " +
                                               std::to_string(known) +
                                               "): start that one, or restore a backup of before");
  }
  if (version == known) return {};
  // A step may write all records anew. On a full disk its commit would end in the log, which could
  // never be moved into the file.
  ATOLL_ASSIGN(Stmt count, db.Prepare("PRAGMA page_count"));
  ATOLL_ASSIGN(const bool row, count.Step());
  const int64_t size = row ? count.ColumnInt(0) * kPageSize : 0;
  count.Reset();
  ATOLL_ASSIGN(const int64_t room, db.Room());
  ATOLL_TRY(db.KeepRoom(size - room));
  for (int64_t done = version; done < known; ++done) {
    ATOLL_ASSIGN(Transaction transaction, Transaction::Begin(db));
    ATOLL_TRY(steps[static_cast<size_t>(done)](db));
    ATOLL_TRY(db.SetUserVersion(done + 1));
    ATOLL_TRY(transaction.Commit());
  }
  return {};
}

Result<Transaction> Transaction::Begin(Db& db) {
  // IMMEDIATE takes the write lock now. A deferred transaction can fail with BUSY later.
  ATOLL_TRY(db.Exec("BEGIN IMMEDIATE"));
  return Transaction(db.db_.get());
}

Transaction::Transaction(Transaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}

Transaction::~Transaction() {
  // Fails only if SQLite has already rolled back by itself (disk full, I/O error), which is the
  // desired result.
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
