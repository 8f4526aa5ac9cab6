#include "tools/atoll/archives/archives.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/sys.h"
#include "tools/atoll/archives/copy_tar.h"
#include "tools/atoll/archives/object_store.h"
#include "tools/atoll/archives/place.h"
#include "tools/atoll/archives/progress.h"
#include "tools/atoll/client/interrupt.h"

namespace atl::cli {
namespace {

// Downloads the object to an unnamed file.
Result<UniqueFd> FetchObject(const ArchivePlace& place, int cancel_fd) {
  ATOLL_ASSIGN(const auto store, ObjectStore::Open(place.file, place.endpoint, cancel_fd));
  ATOLL_ASSIGN(UniqueFd file, TemporaryFile());
  std::optional<Progress> progress;
  ATOLL_TRY(store->Fetch(file.get(), [&](uint64_t done, uint64_t size) {
    if (!progress) progress.emplace("fetching " + place.file, size);
    progress->Update(done);
  }));
  return file;
}

Status ExportToFile(Api& api, const ArchiveOf& wanted, const std::string& file, int cancel_fd) {
  const size_t slash = file.rfind('/');
  const std::string place =
      slash == std::string::npos ? "." : file.substr(0, slash == 0 ? 1 : slash);
  ATOLL_ASSIGN(const UniqueFd directory, sys::Open(place, O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(PlacedFile placed,
               PlacedFile::Begin(directory.get(),
                                 slash == std::string::npos ? file : file.substr(slash + 1)));
  ATOLL_TRY(ReceiveArchive(api, wanted, cancel_fd, [&](std::string_view bytes) {
    return sys::WriteAll(placed.fd(), bytes);
  }));
  return placed.Finish();
}

// Copies a pipe to a file, because the request needs a length.
Result<UniqueFd> TakeInput() {
  if (isatty(STDIN_FILENO) != 0) {
    return Fail(Code::kInvalidArgument,
                "standard input is a terminal: name a file, or pipe an archive in");
  }
  ATOLL_ASSIGN(UniqueFd file, TemporaryFile());
  std::vector<char> buffer(1 << 20);
  for (;;) {
    const ssize_t n = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR && CaughtSignal() == 0) continue;
    if (n < 0) return FailSys("read standard input");
    if (n == 0) return file;
    ATOLL_TRY(sys::WriteAll(file.get(), {buffer.data(), static_cast<size_t>(n)}));
  }
}

}  // namespace

Option EndpointOption(ArchivePlace& place) {
  return {"--endpoint", "URL", "Of an s3:// store that is not Amazon's; else AWS_ENDPOINT_URL",
          &place.endpoint};
}

Status ReceiveArchive(Api& api, const ArchiveOf& wanted, int cancel_fd,
                      const std::function<Status(std::string_view)>& write) {
  http::Client::Call call;
  call.target = wanted.path + "?archive=" + PercentEncode(wanted.form);
  call.cancel_fd = cancel_fd;
  Progress progress("exporting " + wanted.what, 0);
  progress.Say("packing " + wanted.what + " …");
  uint64_t received = 0;
  Status wrote;
  ATOLL_TRY(api.Stream(std::move(call), [&](std::string_view bytes) {
    wrote = write(bytes);
    received += bytes.size();
    progress.Received(received);
    return wrote.has_value();
  }));
  return wrote;
}

Status ExportArchive(Api& api, const ArchiveOf& wanted, const ArchivePlace& place) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  if (IsObjectUrl(place.file)) {
    ATOLL_ASSIGN(const auto store, ObjectStore::Open(place.file, place.endpoint, cancel_fd));
    ATOLL_TRY(ReceiveArchive(api, wanted, cancel_fd,
                             [&](std::string_view bytes) { return store->Write(bytes); }));
    return store->Finish();
  }
  if (place.file != "-") return ExportToFile(api, wanted, place.file, cancel_fd);
  if (isatty(STDOUT_FILENO) != 0) {
    return Fail(Code::kInvalidArgument,
                "standard output is a terminal: name a file for the archive");
  }
  return ReceiveArchive(api, wanted, cancel_fd,
                        [](std::string_view bytes) { return sys::WriteAll(STDOUT_FILENO, bytes); });
}

Result<http::Response> SendArchive(const Settings& settings, const ArchivePlace& place,
                                   const std::string& target, const std::string& what) {
  const std::string& file = place.file;
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(UniqueFd archive, IsObjectUrl(file) ? FetchObject(place, cancel_fd)
                                 : file == "-"     ? TakeInput()
                                                   : sys::Open(file, O_RDONLY));
  struct stat status {};
  if (fstat(archive.get(), &status) != 0) return FailSys("fstat " + file);
  if (S_ISDIR(status.st_mode)) {
    if (faccessat(archive.get(), "index.json", R_OK, 0) != 0) {
      return Fail(Code::kInvalidArgument, file + " has no index.json, so it is not an OCI layout");
    }
    ATOLL_ASSIGN(archive, PackDirectory(file));
    if (fstat(archive.get(), &status) != 0) return FailSys("fstat the archive of " + file);
  }
  if (!S_ISREG(status.st_mode)) {
    return Fail(Code::kInvalidArgument,
                file + " is not a regular file; save the archive to one first");
  }
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  const auto size = static_cast<uint64_t>(status.st_size);
  Progress progress("importing " + what, size);
  http::Client::Call call;
  call.method = "POST";
  call.target = target;
  call.headers.Set("Content-Type", "application/x-tar");
  call.body_fd = archive.get();
  call.body_size = size;
  call.on_progress = [&progress, size](uint64_t sent) {
    progress.Update(sent);
    if (sent == size) progress.Say("unpacking …");
  };
  call.cancel_fd = cancel_fd;
  return api.Send(std::move(call));
}

}  // namespace atl::cli
