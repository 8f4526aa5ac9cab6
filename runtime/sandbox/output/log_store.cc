#include "runtime/sandbox/output/log_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/sandbox_id.h"
#include "runtime/base/sys.h"

namespace atl::sandbox {
namespace {

constexpr char kLog[] = "log";
constexpr char kOlderLog[] = "log.1";
// The largest possible limit, because a lowered limit leaves larger files behind.
constexpr size_t kMaxRead = 1 << 30;

Status BadId(const std::string& id) {
  return Fail(Code::kInvalidArgument, "'" + id.substr(0, 64) + "' is not a sandbox id");
}

Result<UniqueFd> OpenDirectory(int parent, const std::string& name) {
  return sys::OpenAt(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

// Opens the present file, with room for `size` more bytes.
Result<UniqueFd> OpenForAppend(int directory, uint64_t max_file, size_t size, uint64_t* present) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW;
  ATOLL_ASSIGN(UniqueFd file, sys::OpenAt(directory, kLog, kFlags, 0600));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return FailSys("fstat log");
  *present = static_cast<uint64_t>(info.st_size);
  if (*present == 0 || *present + size <= max_file) return file;
  if (::renameat(directory, kLog, directory, kOlderLog) != 0) return FailSys("rename log");
  *present = 0;
  return sys::OpenAt(directory, kLog, kFlags, 0600);
}

}  // namespace

Result<std::string> ReadLogFile(int fd) {
  ATOLL_ASSIGN(std::string bytes, sys::ReadAll(fd, kMaxRead));
  size_t whole = 0;
  wire::OutputFrames frames;
  frames.Append(bytes);
  for (;;) {
    const auto frame = frames.Next();
    if (!frame || !*frame) break;
    whole = bytes.size() - frames.pending();
  }
  bytes.resize(whole);
  return bytes;
}

Result<std::unique_ptr<LogStore>> LogStore::Open(const std::string& directory, uint64_t max_bytes) {
  ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, directory, 0700));
  ATOLL_ASSIGN(UniqueFd fd, OpenDirectory(AT_FDCWD, directory));
  if (::fchmod(fd.get(), 0700) != 0) return FailSys("fchmod " + directory);
  return std::unique_ptr<LogStore>(
      new LogStore(std::move(fd), std::clamp(max_bytes, kMinBytes, uint64_t{kMaxRead}) / 2));
}

Status LogStore::Append(const std::string& id, std::string_view frames) const {
  if (!ValidSandboxId(id)) return BadId(id);
  auto directory = OpenDirectory(directory_.get(), id);
  if (!directory && directory.error().code() == Code::kNotFound) {
    ATOLL_TRY(sys::EnsureDirAt(directory_.get(), id, 0700));
    directory = OpenDirectory(directory_.get(), id);
  }
  if (!directory) return Fail(std::move(directory).error());
  uint64_t present = 0;
  ATOLL_ASSIGN(const UniqueFd file,
               OpenForAppend(directory->get(), max_file_, frames.size(), &present));
  Status written = sys::WriteAll(file.get(), frames);
  if (written) return written;
  // A part of the frames may have been written.
  if (::ftruncate(file.get(), static_cast<off_t>(present)) != 0) return FailSys("ftruncate log");
  return written;
}

Result<LogStore::End> LogStore::FindEnd(const std::string& id) const {
  End end;
  if (!ValidSandboxId(id)) return Fail(std::move(BadId(id)).error());
  auto directory = OpenDirectory(directory_.get(), id);
  if (!directory) {
    if (directory.error().code() == Code::kNotFound) return end;
    return Fail(std::move(directory).error());
  }
  for (const char* name : {kOlderLog, kLog}) {
    auto file = sys::OpenAt(directory->get(), name, O_RDWR | O_NOFOLLOW);
    if (!file && file.error().code() == Code::kNotFound) continue;
    if (!file) return Fail(std::move(file).error());
    ATOLL_ASSIGN(const std::string bytes, ReadLogFile(file->get()));
    if (::ftruncate(file->get(), static_cast<off_t>(bytes.size())) != 0) {
      return FailSys("ftruncate log");
    }
    wire::OutputFrames frames;
    frames.Append(bytes);
    for (;;) {
      ATOLL_ASSIGN(const std::optional<wire::OutputFrame> frame, frames.Next());
      if (!frame) break;
      end = {frame->end(), frame->time_us};
    }
  }
  return end;
}

LogStore::Files LogStore::OpenFiles(const std::string& id) const {
  Files files;
  if (!ValidSandboxId(id)) return files;
  const auto directory = OpenDirectory(directory_.get(), id);
  if (!directory) return files;
  // Opens the newer file first. If a rename happens in between, the reader gets one file twice, and
  // notices that by the offsets. In the other order it would miss a file.
  auto newer = sys::OpenAt(directory->get(), kLog, O_RDONLY | O_NOFOLLOW);
  auto older = sys::OpenAt(directory->get(), kOlderLog, O_RDONLY | O_NOFOLLOW);
  if (older) files.push_back(std::move(*older));
  if (newer) files.push_back(std::move(*newer));
  return files;
}

uint64_t LogStore::SizeOf(const std::string& id) const {
  uint64_t size = 0;
  for (const UniqueFd& file : OpenFiles(id)) {
    struct stat info {};
    if (::fstat(file.get(), &info) == 0) size += static_cast<uint64_t>(info.st_size);
  }
  return size;
}

Status LogStore::Remove(const std::string& id) const {
  if (!ValidSandboxId(id)) return BadId(id);
  return sys::RemoveTree(directory_.get(), id);
}

Result<std::vector<std::string>> LogStore::List() const {
  ATOLL_ASSIGN(std::vector<std::string> names, sys::ListDir(directory_.get()));
  std::vector<std::string> ids;
  for (std::string& name : names) {
    if (ValidSandboxId(name)) {
      ids.push_back(std::move(name));
    } else {
      ATOLL_TRY(sys::RemoveTree(directory_.get(), name));
    }
  }
  return ids;
}

}  // namespace atl::sandbox
