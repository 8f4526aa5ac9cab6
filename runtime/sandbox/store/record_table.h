// One kind of record in the daemon's database, beside the sandboxes' own table: one row per record,
// with an id and a text (record_text.h). Commits survive power loss.
//
// A record has
//
//   static constexpr char kTable[]    the name of its table
//   static constexpr auto kId         the member that identifies it, a text
//   VisitFields(record, io)           the list of its fields; VisitHead has the fields of all kinds
//
// Thread rule: on the loop. A write is one row and an fsync; such records come and go rarely.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/sqlite.h"
#include "runtime/sandbox/store/record_text.h"

namespace atl::sandbox {

// The part of a table that does not depend on the record's type.
class RecordRows {
 public:
  static Result<RecordRows> Open(const std::string& path, const std::string& table);

  // Calls `each` with the id and the text of each record. Stops at its first error.
  Status Load(const std::function<Status(const std::string&, const std::string&)>& each);
  Status CheckRoom();
  Status Write(const std::string& id, const std::string& text);
  Status Remove(const std::string& id);

 private:
  RecordRows(sqlite::Db db, std::string table, sqlite::Stmt write, sqlite::Stmt remove)
      : db_(std::move(db)),
        table_(std::move(table)),
        write_(std::move(write)),
        remove_(std::move(remove)) {}

  // SQLite requires that statements are finalised before their connection.
  sqlite::Db db_;
  std::string table_;
  sqlite::Stmt write_;
  sqlite::Stmt remove_;
};

template <typename Record>
class RecordTable {
 public:
  // `path`: the path of the store (schema.h).
  static Result<std::unique_ptr<RecordTable>> Open(const std::string& path) {
    ATOLL_ASSIGN(RecordRows rows, RecordRows::Open(path, Record::kTable));
    return std::unique_ptr<RecordTable>(new RecordTable(std::move(rows)));
  }

  Result<std::vector<Record>> Load() {
    std::vector<Record> records;
    ATOLL_TRY(rows_.Load([&records](const std::string& id, const std::string& text) {
      Record& record = records.emplace_back();
      record.*Record::kId = id;
      return DecodeRecord(text, &record);
    }));
    return records;
  }
  // Inserts or replaces a record. kResourceExhausted with ENOSPC: the disk is full.
  Status Write(const Record& record) {
    ATOLL_TRY(rows_.CheckRoom());
    return Rewrite(record);
  }
  // Replaces a record by one of about the same size. Works on a full disk.
  Status Rewrite(const Record& record) {
    return rows_.Write(record.*Record::kId, EncodeRecord(record));
  }
  // Succeeds for an unknown id.
  Status Remove(const std::string& id) { return rows_.Remove(id); }

 private:
  explicit RecordTable(RecordRows rows) : rows_(std::move(rows)) {}

  RecordRows rows_;
};

}  // namespace atl::sandbox
