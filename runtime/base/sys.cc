#include "runtime/base/sys.h"

#include <dirent.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "runtime/base/cleanup.h"

#ifndef MFD_EXEC  // Linux 6.3, newer than Debian 12's headers
#define MFD_EXEC 0x0010U
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace atl::sys {
namespace {

Result<UniqueFd> OpenAt2(int dirfd, const std::string& path, int flags, mode_t mode,
                         uint64_t resolve) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags) | O_CLOEXEC;
  how.mode = mode;
  how.resolve = resolve;
  for (int attempt = 0;; ++attempt) {
    const long fd = ::syscall(SYS_openat2, dirfd, path.c_str(), &how, sizeof how);
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    // EAGAIN: a rename raced with the resolution of "..", and openat2(2) asks for a retry. The
    // limit keeps a sandbox that renames in a loop from holding us here.
    if (errno == EINTR || (errno == EAGAIN && attempt < 16)) continue;
    return FailSys("openat2 " + path);
  }
}

struct DirCloser {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

}  // namespace

Result<UniqueFd> Open(const std::string& path, int flags, mode_t mode) {
  return OpenAt(AT_FDCWD, path, flags, mode);
}

Result<UniqueFd> OpenAt(int dirfd, const std::string& path, int flags, mode_t mode) {
  const int fd =
      static_cast<int>(TEMP_FAILURE_RETRY(::openat(dirfd, path.c_str(), flags | O_CLOEXEC, mode)));
  if (fd < 0) return FailSys("open " + path);
  return UniqueFd(fd);
}

Result<UniqueFd> OpenInRoot(int root, const std::string& path, int flags, mode_t mode) {
  return OpenAt2(root, path, flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

Result<UniqueFd> OpenBeneath(int root, const std::string& path, int flags, mode_t mode) {
  return OpenAt2(root, path, flags, mode,
                 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);
}

Result<UniqueFd> OpenWithin(int root, const std::string& path, int flags, mode_t mode) {
  return OpenAt2(root, path, flags, mode, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
}

Result<std::string> ReadAll(int fd, size_t limit) {
  std::string bytes;
  char chunk[16384];
  for (;;) {
    const ssize_t n = TEMP_FAILURE_RETRY(::read(fd, chunk, sizeof chunk));
    if (n < 0) return FailSys("read");
    if (n == 0) return bytes;
    if (bytes.size() + static_cast<size_t>(n) > limit) {
      return Fail(Code::kResourceExhausted,
                  "read: more than the " + std::to_string(limit) + " bytes allowed here");
    }
    bytes.append(chunk, static_cast<size_t>(n));
  }
}

Result<std::string> ReadFileAt(int dirfd, const std::string& path, size_t limit) {
  ATOLL_ASSIGN(const UniqueFd fd, OpenAt(dirfd, path, O_RDONLY));
  auto bytes = ReadAll(fd.get(), limit);
  if (!bytes) return Fail(std::move(bytes).error().Wrap(path));
  return bytes;
}

Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = TEMP_FAILURE_RETRY(::write(fd, bytes.data(), bytes.size()));
    if (n < 0) return FailSys("write");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Status WriteFileAt(int dirfd, const std::string& path, std::string_view bytes) {
  ATOLL_ASSIGN(const UniqueFd fd, OpenAt(dirfd, path, O_WRONLY));
  const ssize_t n = TEMP_FAILURE_RETRY(::write(fd.get(), bytes.data(), bytes.size()));
  if (n < 0) return FailSys("write '" + std::string(bytes) + "' to " + path);
  // A full file system writes a part, and reports the error only to the next call.
  if (static_cast<size_t>(n) != bytes.size()) return Fail(SysError("write to " + path, ENOSPC));
  return {};
}

Status ReplaceFileAt(int dirfd, const std::string& name, std::string_view bytes, mode_t mode) {
  const std::string temporary = name + ".new";
  Cleanup remove([&] { ::unlinkat(dirfd, temporary.c_str(), 0); });
  {
    // Removes any existing file, so that the new one is certainly created here.
    ::unlinkat(dirfd, temporary.c_str(), 0);
    ATOLL_ASSIGN(const UniqueFd fd, OpenAt(dirfd, temporary, O_WRONLY | O_CREAT | O_EXCL, mode));
    if (::fchmod(fd.get(), mode) != 0) return FailSys("fchmod " + temporary);
    ATOLL_TRY(WriteAll(fd.get(), bytes));
    if (::fsync(fd.get()) != 0) return FailSys("fsync " + temporary);
  }
  if (::renameat(dirfd, temporary.c_str(), dirfd, name.c_str()) != 0) {
    return FailSys("rename " + temporary + " to " + name);
  }
  remove.Release();
  return {};
}

Status EnsureDirAt(int dirfd, const std::string& name, mode_t mode) {
  if (::mkdirat(dirfd, name.c_str(), mode) != 0 && errno != EEXIST) {
    return FailSys("mkdir " + name);
  }
  return {};
}

namespace {

Status EachEntry(int dirfd, const std::function<bool(const dirent& entry)>& each) {
  // Opened again, so that the caller's offset does not move.
  ATOLL_ASSIGN(UniqueFd fd, OpenAt(dirfd, ".", O_RDONLY | O_DIRECTORY));
  std::unique_ptr<DIR, DirCloser> dir(::fdopendir(fd.get()));
  if (!dir) return FailSys("fdopendir");
  [[maybe_unused]] const int owned_by_dir = fd.release();
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());  // NOLINT(concurrency-mt-unsafe): own DIR
    if (!entry) return errno == 0 ? Status() : FailSys("readdir");
    const std::string_view name(entry->d_name);
    if (name != "." && name != ".." && !each(*entry)) return {};
  }
}

}  // namespace

Status EachName(int dirfd, const std::function<bool(const char* name)>& each) {
  return EachEntry(dirfd, [&](const dirent& entry) { return each(entry.d_name); });
}

Result<std::vector<std::string>> ListDir(int dirfd) {
  std::vector<std::string> names;
  ATOLL_TRY(EachName(dirfd, [&](const char* name) {
    names.emplace_back(name);
    return true;
  }));
  return names;
}

Result<std::vector<std::string>> ListSubdirectories(int dirfd) {
  std::vector<std::string> names;
  ATOLL_TRY(EachEntry(dirfd, [&](const dirent& entry) {
    struct stat info {};
    // Some file systems do not report the type of an entry.
    if (entry.d_type == DT_DIR ||
        (entry.d_type == DT_UNKNOWN &&
         ::fstatat(dirfd, entry.d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(info.st_mode))) {
      names.emplace_back(entry.d_name);
    }
    return true;
  }));
  return names;
}

Result<UniqueFd> SealedMemfd(const char* name, std::string_view bytes, bool executable) {
  const unsigned base = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int fd = ::memfd_create(name, base | (executable ? MFD_EXEC : MFD_NOEXEC_SEAL));
  // Before 6.3 the flags are unknown, and every memfd is executable.
  if (fd < 0 && errno == EINVAL) fd = ::memfd_create(name, base);
  if (fd < 0) return FailSys("memfd_create");
  UniqueFd memfd(fd);
  ATOLL_TRY(WriteAll(memfd.get(), bytes));
  if (::lseek(memfd.get(), 0, SEEK_SET) != 0) return FailSys("lseek memfd");
  // EBUSY: the kernel itself holds a page for a moment (migration, reclaim) and cannot tell this
  // from a process that may still write (memfd_wait_for_pins gives up after 150 ms).
  constexpr int kSealAttempts = 50;
  constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  for (int attempt = 1; ::fcntl(memfd.get(), F_ADD_SEALS, kSeals) != 0; ++attempt) {
    if (errno != EBUSY || attempt == kSealAttempts) return FailSys("fcntl F_ADD_SEALS");
    ::poll(nullptr, 0, 10);
  }
  return memfd;
}

Result<UniqueFd> PidfdOpen(pid_t pid) {
  const long fd = ::syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) return FailSys("pidfd_open " + std::to_string(pid));
  return UniqueFd(static_cast<int>(fd));
}

Status PidfdSignal(int pidfd, int signal) {
  if (::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) != 0) {
    return FailSys("pidfd_send_signal");
  }
  return {};
}

Result<uint64_t> ProcessStartTime(pid_t pid) {
  ATOLL_ASSIGN(const std::string stat,
               ReadFileAt(AT_FDCWD, "/proc/" + std::to_string(pid) + "/stat", 4096));
  // The second field is the program's name in parentheses and may contain anything, even ") 1 2".
  size_t at = stat.rfind(')');
  if (at == std::string::npos) return Fail(Code::kInternal, "/proc/PID/stat: no ')'");
  for (int field = 2; field < 22; ++field) {
    at = stat.find(' ', at + 1);
    if (at == std::string::npos) return Fail(Code::kInternal, "/proc/PID/stat: too short");
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(stat.data() + at + 1, stat.data() + stat.size(), value);
  if (error != std::errc()) return Fail(Code::kInternal, "/proc/PID/stat: no start time");
  return value;
}

Result<SocketPair> UnixPair(int type) {
  int fds[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) != 0) return FailSys("socketpair");
  return SocketPair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Result<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return FailSys("pipe2");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

namespace {

// The kernel reports ECONNRESET once, to whichever call comes first, if the other end has closed
// with unread data of ours. A repeated call gets what the other end had sent, or EPIPE.
template <typename Call>
ssize_t PastReset(const Call& call) {
  const ssize_t n = TEMP_FAILURE_RETRY(call());
  if (n >= 0 || errno != ECONNRESET) return n;
  return TEMP_FAILURE_RETRY(call());
}

}  // namespace

Status SendMessage(int socket, std::string_view bytes, std::span<const int> fds) {
  ATOLL_CHECK(fds.size() <= kMaxFdsPerMessage);
  iovec iov{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &iov;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFdsPerMessage)];
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* cmsg = CMSG_FIRSTHDR(&header);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(cmsg), fds.data(), fds.size_bytes());
  }
  const ssize_t n = PastReset([&] { return ::sendmsg(socket, &header, MSG_NOSIGNAL); });
  if (n < 0) return FailSys("sendmsg");
  // A nonblocking stream writes as much as it has room for. A partial message is an error.
  if (static_cast<size_t>(n) != bytes.size()) return Fail(SysError("sendmsg", EMSGSIZE));
  return {};
}

bool HasNoRoom(const Error& error) {
  const int number = error.error_number();
  // ETOOMANYREFS: too many descriptors are in flight in sockets.
  return number == EAGAIN || number == ENOBUFS || number == ENOMEM || number == ETOOMANYREFS;
}

namespace {

Result<Message> Receive(int socket, size_t size, size_t limit) {
  Message message;
  message.bytes.resize(size);
  iovec iov{message.bytes.data(), message.bytes.size()};
  msghdr header{};
  header.msg_iov = &iov;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFdsPerMessage)];
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t n = PastReset([&] { return ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC); });
  if (n < 0) return FailSys("recvmsg");
  message.bytes.resize(static_cast<size_t>(n));
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      message.fds.emplace_back(fd);
    }
  }
  if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
    return Fail(Code::kResourceExhausted,
                "recvmsg: message over " + std::to_string(limit) + " bytes or too many fds");
  }
  return message;
}

}  // namespace

Result<Message> ReceiveMessage(int socket, size_t limit) {
  // The size is read first, because a buffer of `limit` bytes for every message would cost more
  // than the message.
  const ssize_t size = PastReset([&] { return ::recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC); });
  if (size < 0) return FailSys("recv");
  return Receive(socket, std::min(limit, static_cast<size_t>(size)), limit);
}

Result<Message> ReceivePiece(int socket, size_t limit) {
  return Receive(socket, limit, limit);
}

std::string RandomBytes(size_t n) {
  std::string bytes(n, '\0');
  size_t done = 0;
  while (done < n) {
    const ssize_t got = ::getrandom(bytes.data() + done, n - done, 0);
    ATOLL_CHECK(got > 0 || errno == EINTR);
    if (got > 0) done += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace atl::sys
