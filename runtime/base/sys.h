// System calls as Results. Every descriptor is close-on-exec from birth. An `int dirfd` may be
// AT_FDCWD. EINTR is retried where a retry is right. Thread rule: stateless.
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

// A path that leads to what the caller's descriptor `fd` is. Not below /proc/self/fd, which is
// /proc/1/fd for execd: in a sandbox the entrypoint's streams cover that.
inline std::string FdPath(int fd) {
  return "/proc/thread-self/fd/" + std::to_string(fd);
}

Result<UniqueFd> Open(const std::string& path, int flags, mode_t mode = 0);
Result<UniqueFd> OpenAt(int dirfd, const std::string& path, int flags, mode_t mode = 0);
// openat2 with RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS: symbolic links are followed, but as if
// `root` were "/". For names that belong to a sandbox's own file system.
Result<UniqueFd> OpenInRoot(int root, const std::string& path, int flags, mode_t mode = 0);
// openat2 with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV: no
// link anywhere in the path, no way out of `root`. For mount targets and for our own state.
Result<UniqueFd> OpenBeneath(int root, const std::string& path, int flags, mode_t mode = 0);

// openat2 with RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS: symbolic links are followed as long as they
// stay beneath `root`, mounts are crossed; EXDEV says that it would have led out.
Result<UniqueFd> OpenWithin(int root, const std::string& path, int flags, mode_t mode = 0);

// Reads to the end of file; more than `limit` bytes is kResourceExhausted.
Result<std::string> ReadAll(int fd, size_t limit);
Result<std::string> ReadFileAt(int dirfd, const std::string& path, size_t limit);
Status WriteAll(int fd, std::string_view bytes);
// Opens an existing file (no O_CREAT: kernel files) and writes in one write(2).
Status WriteFileAt(int dirfd, const std::string& path, std::string_view bytes);
// Creates or replaces a file of ours: temporary name, write, fsync, rename.
Status ReplaceFileAt(int dirfd, const std::string& name, std::string_view bytes, mode_t mode);

// Creates one directory; an existing one is not an error.
Status EnsureDirAt(int dirfd, const std::string& name, mode_t mode);
// Names in a directory without "." and "..", unsorted.
Result<std::vector<std::string>> ListDir(int dirfd);
// The same one by one, for directories that somebody else fills; ends early once `each` returns
// false.
Status EachName(int dirfd, const std::function<bool(const char* name)>& each);
// Of those the directories. No other is looked up: a cgroup has twenty files, and to look them up
// takes longer than to remove the group.
Result<std::vector<std::string>> ListSubdirectories(int dirfd);
// Deletes `name` beneath dirfd with everything in it, and touches nothing beside it. Follows no
// link, crosses no mount. Time is linear in the number of entries, whatever the shape; descriptors
// and memory do not grow with the tree (tree_removal.h).
// An absent name is not an error.
Status RemoveTree(int dirfd, const std::string& name);

// A memfd holding `bytes`, sealed against every change; executable if asked.
Result<UniqueFd> SealedMemfd(const char* name, std::string_view bytes, bool executable);

Result<UniqueFd> PidfdOpen(pid_t pid);
Status PidfdSignal(int pidfd, int signal);
// Field 22 of /proc/PID/stat, clock ticks since boot: with the pid it names a process for ever.
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

// At most this many descriptors travel with one message.
inline constexpr size_t kMaxFdsPerMessage = 16;
// One message on a SOCK_SEQPACKET socket, with descriptors. Blocking unless the socket is not.
Status SendMessage(int socket, std::string_view bytes, std::span<const int> fds = {});
// Of an error of SendMessage on a socket that does not block: the same message may go later.
bool HasNoRoom(const Error& error);
struct Message {
  std::string bytes;  // empty: the peer has closed
  std::vector<UniqueFd> fds;
};
// A message longer than `limit`, or with more than kMaxFdsPerMessage descriptors, is an error and
// is consumed. EAGAIN comes back as kUnavailable with error_number() EAGAIN.
Result<Message> ReceiveMessage(int socket, size_t limit);

// What a stream has at once, at most `limit` bytes, and the descriptors that came with it.
// Likewise.
Result<Message> ReceivePiece(int socket, size_t limit);

// From getrandom(2): never fails once the system is up.
std::string RandomBytes(size_t n);

}  // namespace atl::sys
