// System calls with Results. Every descriptor is close-on-exec from the start. An `int dirfd` may
// be AT_FDCWD. EINTR is retried where that is right.
//
// Thread rule: stateless.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::sys {

// Returns a path to the file of the caller's descriptor `fd`. It does not use /proc/self/fd, which
// is /proc/1/fd for execd: in a sandbox, the entrypoint's streams are mounted over that.
inline std::string FdPath(int fd) {
  return "/proc/thread-self/fd/" + std::to_string(fd);
}

Result<UniqueFd> Open(const std::string& path, int flags, mode_t mode = 0);
Result<UniqueFd> OpenAt(int dirfd, const std::string& path, int flags, mode_t mode = 0);
// openat2 with RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS: follows symbolic links as if `root` were
// "/". For names in a sandbox's own file system.
Result<UniqueFd> OpenInRoot(int root, const std::string& path, int flags, mode_t mode = 0);
// openat2 with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV:
// accepts no link anywhere in the path and no way out of `root`. For mount targets and our own
// state.
Result<UniqueFd> OpenBeneath(int root, const std::string& path, int flags, mode_t mode = 0);

// openat2 with RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS: follows symbolic links that stay beneath
// `root`, and crosses mounts. EXDEV: the path leads out.
Result<UniqueFd> OpenWithin(int root, const std::string& path, int flags, mode_t mode = 0);

// Reads to the end of file. kResourceExhausted: more than `limit` bytes.
Result<std::string> ReadAll(int fd, size_t limit);
Result<std::string> ReadFileAt(int dirfd, const std::string& path, size_t limit);
Status WriteAll(int fd, std::string_view bytes);
// Opens an existing file (no O_CREAT: kernel files) and writes with one write(2).
Status WriteFileAt(int dirfd, const std::string& path, std::string_view bytes);
// Creates or replaces a file of ours: temporary name, write, fsync, rename.
Status ReplaceFileAt(int dirfd, const std::string& name, std::string_view bytes, mode_t mode);

// Creates one directory. An existing one is not an error.
Status EnsureDirAt(int dirfd, const std::string& name, mode_t mode);
// Returns the names in a directory without "." and "..", unsorted.
Result<std::vector<std::string>> ListDir(int dirfd);
// Like ListDir, one name at a time, for directories that others fill. Stops when `each` returns
// false.
Status EachName(int dirfd, const std::function<bool(const char* name)>& each);
// Returns only the directories, without looking up other entries: a cgroup has twenty files, and
// looking them up takes longer than removing the group.
Result<std::vector<std::string>> ListSubdirectories(int dirfd);
// Deletes `name` in `dirfd` with everything in it, and nothing else. Follows no link, crosses no
// mount. Time is linear in the number of entries, whatever the shape; descriptors and memory do not
// grow with the tree (tree_removal.h). A missing name is not an error.
Status RemoveTree(int dirfd, const std::string& name);

// Returns a memfd with `bytes`, sealed against every change; executable if requested.
Result<UniqueFd> SealedMemfd(const char* name, std::string_view bytes, bool executable);

Result<UniqueFd> PidfdOpen(pid_t pid);
Status PidfdSignal(int pidfd, int signal);
// Returns field 22 of /proc/PID/stat, the start time in clock ticks since boot. Together with the
// pid it identifies a process uniquely.
Result<uint64_t> ProcessStartTime(pid_t pid);

struct SocketPair {
  UniqueFd a, b;
};
// AF_UNIX, close-on-exec, blocking. `type` is SOCK_STREAM or SOCK_SEQPACKET.
Result<SocketPair> UnixPair(int type);
struct Pipe {
  UniqueFd read, write;
};
Result<Pipe> MakePipe();

// Most descriptors of one message.
inline constexpr size_t kMaxFdsPerMessage = 16;
// Sends one message with descriptors on a SOCK_SEQPACKET socket. Blocks unless the socket is
// nonblocking.
Status SendMessage(int socket, std::string_view bytes, std::span<const int> fds = {});
// Returns true if SendMessage on a nonblocking socket failed only for now, and the message may be
// sent later.
bool HasNoRoom(const Error& error);
struct Message {
  std::string bytes;  // empty: the peer has closed
  std::vector<UniqueFd> fds;
};
// Receives one message. A message longer than `limit`, or with more than kMaxFdsPerMessage
// descriptors, is an error and is consumed. EAGAIN becomes kUnavailable with error_number() EAGAIN.
Result<Message> ReceiveMessage(int socket, size_t limit);

// Like ReceiveMessage, for a stream: receives at most `limit` bytes that are available, and the
// descriptors that came with them.
Result<Message> ReceivePiece(int socket, size_t limit);

// Uses getrandom(2), which never fails once the system is up.
std::string RandomBytes(size_t n);

}  // namespace atl::sys
