#include "runtime/spawner/sandboxes/record.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/disk_full.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sys.h"

namespace atl::spawner {
namespace {

constexpr size_t kMaxRecord = 8192;

Status WriteNewFile(int directory, const std::string& name, const Record& record) {
  ATOLL_ASSIGN(const UniqueFd file,
               sys::OpenAt(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
  return sys::WriteAll(file.get(), wire::EncodeFields(record));
}

// Overwrites the record in its page. News of a sandbox never makes its record longer, and so small
// a write is not cut in two.
Status OverwriteFile(int directory, const std::string& name, const Record& record) {
  ATOLL_ASSIGN(const UniqueFd file, sys::OpenAt(directory, name, O_WRONLY | O_NOFOLLOW));
  return sys::WriteAll(file.get(), wire::EncodeFields(record));
}

}  // namespace

Status CreateRecord(int directory, const Record& record) {
  Status written = WriteNewFile(directory, record.sandbox.id, record);
  if (!written) ::unlinkat(directory, record.sandbox.id.c_str(), 0);
  return written;
}

Status ReplaceRecord(int directory, const Record& record) {
  // No fsync, because the file is on a tmpfs. The rename makes it whole or leaves it as it was.
  const std::string temporary = record.sandbox.id + ".new";
  if (Status written = WriteNewFile(directory, temporary, record); !written) {
    ::unlinkat(directory, temporary.c_str(), 0);
    if (!IsDiskFull(written.error())) return written;
    return OverwriteFile(directory, record.sandbox.id, record);
  }
  if (::renameat(directory, temporary.c_str(), directory, record.sandbox.id.c_str()) != 0) {
    return FailSys("rename record " + temporary);
  }
  return {};
}

Status RemoveRecord(int directory, const std::string& id) {
  if (::unlinkat(directory, id.c_str(), 0) != 0 && errno != ENOENT) {
    return FailSys("unlink record " + id);
  }
  return {};
}

Result<std::vector<Record>> ReadRecords(int directory) {
  ATOLL_ASSIGN(const std::vector<std::string> names, sys::ListDir(directory));
  std::vector<Record> records;
  for (const std::string& name : names) {
    const auto bytes = sys::ReadFileAt(directory, name, kMaxRecord);
    wire::Reader reader(bytes ? std::string_view(*bytes) : std::string_view());
    Record record;
    reader(record.sandbox, record.start_time);
    // The record of an older version ends before the fields that were appended later.
    if (!reader.complete()) reader(record.tier);
    wire::EndReading& end = record.end;
    if (!reader.complete()) {
      reader(record.link, end.read, end.ended_ms, end.meters, end.bytes_in, end.bytes_out);
      reader(end.disk_bytes);
    }
    if (!reader.complete()) reader(end.ended_boot_ms);
    if (!ValidSandboxId(name) || !reader.ok() || record.sandbox.id != name) {
      ::unlinkat(directory, name.c_str(), 0);
      continue;
    }
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace atl::spawner
