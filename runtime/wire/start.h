// The protocol between execd and daemon on the control socket (SOCK_STREAM), in frames (frame.h).
//
//   daemon ── StartMessage ──►  execd      once: the claim. Until then execd is parked
//   daemon ◄── StartReport ───  execd      kStarted or kFailed, once; if there is a preStart hook,
//                                          after it has ended
//
// The daemon may write the StartMessage before execd exists (a cold create), or much later (a warm
// pool). EOF on the control socket after the start means that the daemon is gone. execd continues,
// and the next daemon finds it through the listening socket. The exit code of the entrypoint is
// execd's own exit code: 128 + signal if it was killed, 126 or 127 if it could not be started.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/frame.h"

namespace atl::wire {

inline constexpr size_t kMaxStartFrame = 1 << 20;    // limit of a StartMessage
inline constexpr size_t kMaxReportFrame = 64 << 10;  // limit of a StartReport
inline constexpr size_t kMaxStartStrings = 65536;

// Descriptors that are open when execd starts. It sets close-on-exec on all of them first.
//
// The gate is a pipe. execd is started before its image is known, and uses no path until one byte
// has arrived through the gate. At that moment its root covers the tree in which it was started.
// With --enter-root=1 it enters the root itself ("/..", chroot(2)), for which it has CAP_SYS_CHROOT
// until then. End of file means that the root will never come.
//
// With --enter-root=1 the pass arrives first: kPassSize bytes, the number that the sandbox's filter
// requires in the sixth argument of clone3, which only execd may use.
inline constexpr int kExecdGateFd = 3;
inline constexpr size_t kPassSize = 8;
inline constexpr int kExecdControlFd = 4;  // the control socket
// The same number in a virtual machine: a stream socket to the machine's process 1, which makes
// isolated sessions (session.h). The control socket there is a connection of vsock.
inline constexpr int kExecdSessionsFd = kExecdControlFd;
inline constexpr int kExecdListenFd = 5;  // a listening AF_UNIX stream socket: the exec API
// directory of its cgroup v2 subtree, in which it may make directories
inline constexpr int kExecdCgroupFd = 6;
// The first of the "tasks" files (write-only) of the v1 groups of commands; only on hybrid hosts. A
// child writes "0" to each of them between clone and exec.
inline constexpr int kExecdFirstTasksFd = 7;
inline constexpr int kExecdMaxTasksFds = 4;
// The first of the read-only files of its v1 groups; only on hybrid hosts, all or none.
inline constexpr int kExecdAccountsFd = kExecdFirstTasksFd + kExecdMaxTasksFds;
enum class ExecdAccount : uint8_t {
  kMemoryUsage,  // memory of commands, bytes
  kMemoryLimit,  // bytes
  kOomControl,   // has a line "oom_kill N"
  kCpuQuota,     // microseconds in each 100 ms; -1: no limit
  kPidsEvents,   // "max N": forks refused by the limit of processes
  kOomEvents,    // an eventfd, signalled before a process is killed for memory
  kCount,
};

// Its own oom_score_adj, writable. It is "0" when execd starts, the lowest value that anybody in
// the sandbox can return to. Process 1 and its entrypoint keep it, because the sandbox ends with
// either of them. execd has kOomScore while it clones a command, which inherits it. A descriptor is
// needed, because the files in /proc of a process that cannot be traced belong to the host.
inline constexpr int kExecdScoreFd = kExecdAccountsFd + static_cast<int>(ExecdAccount::kCount);

// oom_score_adj of commands. It favours process 1 and the entrypoint by a third of the limit; an
// entrypoint that uses more than a command and that third is still killed first.
inline constexpr std::string_view kOomScore = "300";

// A program that execd runs beside the entrypoint, as the same user.
struct Hook {
  std::string name;  // shown to users: "preStart", or the client's name
  // runtime/base/schedule.h; empty: runs once, and the entrypoint starts only afterwards
  std::string schedule;
  std::vector<std::string> argv;
  uint32_t timeout_seconds = 0;  // after this time everything that it has started is killed

  bool operator==(const Hook&) const = default;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.name, self.schedule);
    io.List(self.argv, kMaxStartStrings);
    io(self.timeout_seconds);
  }
};
inline constexpr size_t kMaxHooks = 17;  // sixteen with a schedule, and the first one

// A certificate authority of the sandbox, with which the host impersonates some servers. Programs
// in the sandbox must trust it from the start.
struct TrustedAuthority {
  std::string certificate;  // PEM: one block with its last newline; empty: none
  // The file name by which OpenSSL finds it in a directory of certificates, from the hash of its
  // subject: "0a1b2c3d.0".
  std::string link;

  bool operator==(const TrustedAuthority&) const = default;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.certificate, self.link);
  }
};
inline constexpr size_t kMaxCertificate = 16 << 10;
// Checks that both members are well-formed, or both are empty.
Status CheckForm(const TrustedAuthority& authority);

struct StartMessage {
  std::string sandbox_id;
  // The entrypoint. Looked up in env's PATH within the sandbox. Empty: none.
  std::vector<std::string> argv;
  std::vector<std::string> env;  // "NAME=value": the whole environment of the entrypoint
  std::string cwd;               // absolute; created if absent, as OCI runtimes do; empty means "/"
  // The image's User: "", "name", "uid", "name:group", "uid:gid", …. Resolved with the sandbox's
  // own /etc/passwd and /etc/group. Empty means 0.
  std::string user;
  // The required value of X-EXECD-ACCESS-TOKEN. Empty turns the check off.
  std::string access_token;
  std::vector<Hook> hooks;  // only one may have no schedule
  TrustedAuthority authority;
  // The image's VOLUMEs, absolute paths. Created if absent, as docker does.
  std::vector<std::string> directories;
  // The signal for the entrypoint when a client stops the sandbox. 0: SIGTERM.
  uint32_t stop_signal = 0;

  std::string Encode() const { return EncodeFields(*this); }
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.sandbox_id);
    io.List(self.argv, kMaxStartStrings);
    io.List(self.env, kMaxStartStrings);
    io(self.cwd, self.user, self.access_token);
    io.List(self.hooks, kMaxHooks);
    io(self.authority);
    io.List(self.directories, kMaxStartStrings);
    io(self.stop_signal);
  }
};
Result<StartMessage> DecodeStartMessage(std::string_view bytes);

struct StartReport {
  enum class Kind : uint8_t { kStarted = 1, kFailed = 2 };
  Kind kind = Kind::kStarted;
  // The reason of kFailed, for users ("exec /bin/nope: No such file or directory"). Written by a
  // process in the sandbox, so it is hostile: show it, but never parse it.
  std::string message;

  std::string Encode() const { return EncodeFields(*this); }
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io.Enum(self.kind, Kind::kStarted, Kind::kFailed);
    io(self.message);
  }
};
Result<StartReport> DecodeStartReport(std::string_view bytes);

}  // namespace atl::wire
