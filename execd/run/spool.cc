#include "execd/run/spool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "execd/core/core.h"
#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

// Size of the piece that is returned to the disk at once. Returning 48 MiB kept a CPU in the kernel
// for 4.5 ms.
constexpr int64_t kPiece = 4 << 20;

// Opens a nameless file: by O_TMPFILE if the file system supports it (overlayfs since 6.3), else by
// a name that is removed at once.
Result<UniqueFd> NamelessFile(const std::string& directory) {
  const int flags = O_RDWR | O_APPEND;
  auto fd = sys::Open(directory, flags | O_TMPFILE, 0600);
  if (fd) return fd;
  const int error = fd.error().error_number();
  if (error != EOPNOTSUPP && error != EISDIR && error != EINVAL) return fd;
  const std::string name = directory + "/.execd-" + NewUuid(false);
  ATOLL_ASSIGN(UniqueFd file, sys::Open(name, flags | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  ::unlink(name.c_str());
  return file;
}

}  // namespace

Result<std::unique_ptr<Spool>> Spool::Open(EventLoop* loop, const char* tmpdir,
                                           UniqueFd* write_end) {
  auto file = NamelessFile(tmpdir && tmpdir[0] == '/' ? tmpdir : "/tmp");
  if (!file) file = NamelessFile("/");
  if (!file) {
    // The image is read-only and has no /tmp.
    UniqueFd memory(::memfd_create("execd-output", MFD_CLOEXEC));
    if (!memory) return FailSys("memfd_create");
    if (::fcntl(memory.get(), F_SETFL, O_APPEND) != 0) return FailSys("fcntl O_APPEND");
    file = std::move(memory);
  }
  ATOLL_ASSIGN(auto spool, To(loop, *std::move(file), write_end));
  spool->keep_ = kKeep;
  return spool;
}

Result<std::unique_ptr<Spool>> Spool::To(EventLoop* loop, UniqueFd file, UniqueFd* write_end) {
  std::unique_ptr<Spool> spool(new Spool(std::move(file)));
  ATOLL_ASSIGN(spool->pipe_,
               OutputPipe::Open(loop, write_end, [raw = spool.get()](std::string_view bytes) {
                 raw->Append(bytes);
               }));
  return spool;
}

Spool::~Spool() {
  OutputPipe::Abandon(std::move(pipe_));
}

void Spool::CutTo(int64_t size) {
  if (Size() > size) [[maybe_unused]]
    const int cut = ::ftruncate(file_.get(), size);
}

int64_t Spool::Size() const {
  struct stat info;
  return ::fstat(file_.get(), &info) == 0 ? info.st_size : 0;
}

Result<UniqueFd> Spool::Reopen() const {
  UniqueFd fd(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 3));
  if (!fd) return FailSys("fcntl F_DUPFD_CLOEXEC");
  return fd;
}

void Spool::Append(std::string_view bytes) {
  if (lost_ > 0) {
    const std::string gap =
        "\n[" + std::to_string(lost_) + " bytes of output are missing here: the disk was full]\n";
    if (::write(file_.get(), gap.data(), gap.size()) == static_cast<ssize_t>(gap.size())) {
      lost_ = 0;
    }
  }
  while (!bytes.empty()) {
    const ssize_t n =
        lost_ > 0 ? -1 : TEMP_FAILURE_RETRY(::write(file_.get(), bytes.data(), bytes.size()));
    if (n <= 0) break;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  lost_ += bytes.size();
  if (keep_ > 0) GiveBack();
}

void Spool::GiveBack() {
  // Some file systems do not support it; the log then stays whole.
  if (Size() - start_ >= keep_ + kPiece &&
      ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, start_, kPiece) == 0) {
    start_ += kPiece;
  }
}

}  // namespace atl::execd
