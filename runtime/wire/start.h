// What execd and the daemon say to each other over the control socket (SOCK_STREAM), in frames
// (frame.h).
//
//   daemon ── StartMessage ──►  execd      once: this is the claim. Until then execd is parked
//   daemon ◄── StartReport ───  execd      kStarted or kFailed, once; if a hook comes first, after
//                                          its end
//
// The daemon may write the StartMessage before execd exists (a cold create), or much later (a warm
// pool). EOF on the control socket after the start means that the daemon is gone; execd goes on,
// and the next daemon finds it through the listening socket. Exit codes travel by process 1's own
// exit: execd exits with the entrypoint's code, 128 + signal if it was killed, 126 or 127 if it
// could not be started.
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

inline constexpr size_t kMaxStartFrame = 1 << 20;    // of a StartMessage
inline constexpr size_t kMaxReportFrame = 64 << 10;  // of a StartReport
inline constexpr size_t kMaxStartStrings = 65536;

// The descriptors that execd finds open when it starts; it sets close-on-exec on all of them first.
//
//
// The gate (a pipe): execd is started before it is known which image its root will be, and touches
// no path until one byte has come through here: then the root lies over the tree that it was
// started in, and with --enter-root=1 it goes there by itself ("/..", chroot(2)), for which it has
// CAP_SYS_CHROOT, if only up to then. End of file: its root will never come.
// With --enter-root=1 the pass comes first: kPassSize bytes, the number that the sandbox's filter
// wants to see in the sixth argument of clone3, which is for execd alone.
inline constexpr int kExecdGateFd = 3;
inline constexpr size_t kPassSize = 8;
inline constexpr int kExecdControlFd = 4;  // the control socket
inline constexpr int kExecdListenFd = 5;   // a listening AF_UNIX stream socket: the exec API
inline constexpr int kExecdCgroupFd = 6;   // directory of its cgroup v2 subtree, where it may mkdir
// From here up, hybrid hosts only: "tasks" files (write-only) of the v1 groups that commands belong
// to. A child writes "0" to each of them between clone and exec.
inline constexpr int kExecdFirstTasksFd = 7;
inline constexpr int kExecdMaxTasksFds = 4;
// Hybrid hosts only, all or none: files of its v1 groups, read-only, at kExecdAccountsFd and up.
inline constexpr int kExecdAccountsFd = kExecdFirstTasksFd + kExecdMaxTasksFds;
enum class ExecdAccount : uint8_t {
  kMemoryUsage,  // of commands, bytes
  kMemoryLimit,  // bytes
  kOomControl,   // "oom_kill N" among its lines
  kCpuQuota,     // microseconds in each 100 ms; -1: no limit
  kPidsEvents,   // "max N": forks that the limit of processes refused
  kOomEvents,    // no file: an eventfd, written before a process is killed for memory
  kCount,
};

// Its own oom_score_adj, writable: "0" when execd starts, the lowest that anybody in the sandbox
// can go back to. Process 1 and its entrypoint keep it, because the sandbox ends with either; execd
// has kOomScore while it clones a command, which is born with it. By name it cannot be written: the
// files of a process that nobody may trace are the host's.
inline constexpr int kExecdScoreFd = kExecdAccountsFd + static_cast<int>(ExecdAccount::kCount);

// oom_score_adj of commands: a third of the limit in favour of process 1 and the entrypoint, and no
// use to one that needs more than a command and that.
inline constexpr std::string_view kOomScore = "300";

// A program that execd runs beside the entrypoint, as the same user.
struct Hook {
  std::string name;  // for people: "preStart", or the client's
  std::string
      schedule;  // runtime/base/schedule.h; empty: once, and only then the entrypoint starts
  std::vector<std::string> argv;
  uint32_t timeout_seconds = 0;  // then all that it has started is killed

  bool operator==(const Hook&) const = default;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.name, self.schedule);
    io.List(self.argv, kMaxStartStrings);
    io(self.timeout_seconds);
  }
};
inline constexpr size_t kMaxHooks = 17;  // sixteen on a schedule, and the first

// A certificate authority of the sandbox's own, in whose name the host answers for some servers:
// what runs inside has to trust it, before anything does.
struct TrustedAuthority {
  std::string certificate;  // PEM: one block, with its last newline. Empty: there is none
  // The file name under which OpenSSL looks for it in a directory of certificates, its subject's
  // hash: "0a1b2c3d.0".
  std::string link;

  bool operator==(const TrustedAuthority&) const = default;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.certificate, self.link);
  }
};
inline constexpr size_t kMaxCertificate = 16 << 10;
// Both members are what they should be, or both are empty.
Status CheckForm(const TrustedAuthority& authority);

struct StartMessage {
  std::string sandbox_id;
  // The entrypoint; looked up in env's PATH inside the sandbox. Empty: there is none.
  std::vector<std::string> argv;
  std::vector<std::string> env;  // "NAME=value": the whole environment of the entrypoint
  std::string cwd;               // absolute; created if absent, as OCI runtimes do; empty means "/"
  // The image's User: "", "name", "uid", "name:group", "uid:gid", …: resolved with the sandbox's
  // own /etc/passwd and /etc/group. Empty means 0.
  std::string user;
  // What X-EXECD-ACCESS-TOKEN must hold; empty turns the check off.
  std::string access_token;
  std::vector<Hook> hooks;  // at most one without a schedule
  TrustedAuthority authority;
  // The image's VOLUMEs, which are created if absent, as by docker; absolute.
  std::vector<std::string> directories;
  // What a client's wish to stop the sandbox sends to the entrypoint; 0: SIGTERM.
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
  // With kFailed: what could not be done, for people ("exec /bin/nope: No such file or directory").
  // Written by a process inside the sandbox: hostile, show it but never parse it.
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
