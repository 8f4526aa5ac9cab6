// Isolated sessions. execd asks the daemon for them over
//
//   GET kSessionRoute                   sent by the daemon to execd's listening socket, with
//                                       kInternalHeader: 101, and from then on, one at a time,
//   execd  ── SessionRequest ──►        daemon      in frames (frame.h)
//   execd  ◄── SessionReply ───         daemon
//
// and the spawner makes them. The two sockets of a MakeSession travel with its first byte,
// `control` first; execd has the other ends:
//
//   control      like a sandbox's control socket (start.h), at the same number in the session's
//                execd: a StartMessage in; SessionUppers, if there are any, a StartReport and then
//                SessionNotes out. When it is closed, the session ends
//   connections  instead of a listening socket: each byte carries a descriptor, a connection of
//                the exec API
//
// execd numbers its sessions, so that it can end one whose creation got no answer. Both requests
// are written in the sandbox, so they are hostile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::wire {

inline constexpr std::string_view kSessionRoute = "/.atoll/sessions";

// Most sessions of one sandbox at a time. They are numbered from 1.
inline constexpr uint32_t kMaxSessions = 16;
inline constexpr size_t kMaxSessionMounts = 32;
// Most overlays among these mounts.
inline constexpr size_t kMaxSessionOverlays = 16;
inline constexpr size_t kMaxSessionPath = 1024;
inline constexpr size_t kMaxSessionRequest = 96 << 10;
inline constexpr size_t kMaxSessionReply = 8 << 10;

struct SessionMount {
  enum class Kind : uint8_t {
    kWritable = 1,  // the sandbox's own directory or file
    kReadOnly,
    kOverlay,  // an overlay on the sandbox's directory; changes stay in the session, on disk
    kScratch,  // like kOverlay, in memory
  };
  Kind kind = Kind::kReadOnly;
  std::string source;  // absolute and clean paths, as the sandbox sees them
  std::string target;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io.Enum(self.kind, Kind::kWritable, Kind::kScratch);
    io(self.source, self.target);
  }
};

struct SessionSpec {
  uint32_t number = 0;
  bool shared_network = true;  // false: only loopback
  bool shared_tmp = false;     // true: /tmp is the sandbox's
  std::vector<SessionMount> mounts;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.number, self.shared_network, self.shared_tmp);
    io.List(self.mounts, kMaxSessionMounts);
  }
};
// Checks that numbers and paths are within their bounds, paths absolute and clean, and targets
// unique.
Status CheckForm(const SessionSpec& spec);

// The limits of a session, within those of its sandbox. 0: the sandbox's limit.
struct SessionTerms {
  uint64_t memory_bytes = 0;
  uint64_t pids = 0;
  uint64_t cpu_millis = 0;  // 1000 = one CPU

  bool limited() const { return memory_bytes != 0 || pids != 0 || cpu_millis != 0; }
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.memory_bytes, self.pids, self.cpu_millis);
  }
};
// Checks each limit against the bounds of a sandbox's own limits.
Status CheckForm(const SessionTerms& terms);

// The user of a session with its own user namespace: its ids within the session, and those in the
// sandbox, to which all of its files belong.
struct SessionUser {
  uint32_t uid = 0, gid = 0;
  uint32_t sandbox_uid = 0, sandbox_gid = 0;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.uid, self.gid, self.sandbox_uid, self.sandbox_gid);
  }
};
// Checks the ids. The highest number is refused, because it means "unchanged" to the kernel.
Status CheckForm(const SessionUser& user);

struct SessionRequest {
  // The request of older releases, which know neither SessionTerms nor SessionUppers.
  struct MakePlain {
    static constexpr uint8_t kType = 1;
    SessionSpec spec;
    UniqueFd control;
    UniqueFd connections;
    template <typename Self, typename Io>
    static void Fields(Self& self, Io& io) {
      io(self.spec, self.control, self.connections);
    }
  };
  struct Make {
    static constexpr uint8_t kType = 3;
    SessionSpec spec;
    SessionTerms terms;
    UniqueFd control;
    UniqueFd connections;
    template <typename Self, typename Io>
    static void Fields(Self& self, Io& io) {
      io(self.spec, self.terms, self.control, self.connections);
    }
  };
  // A session with its own user namespace.
  struct MakeMapped {
    static constexpr uint8_t kType = 4;
    SessionSpec spec;
    SessionTerms terms;
    SessionUser user;
    UniqueFd control;
    UniqueFd connections;
    template <typename Self, typename Io>
    static void Fields(Self& self, Io& io) {
      io(self.spec, self.terms, self.user, self.control, self.connections);
    }
  };
  // Ends a session and removes everything of it. An unknown session is not an error.
  struct End {
    static constexpr uint8_t kType = 2;
    uint32_t number = 0;
    template <typename Self, typename Io>
    static void Fields(Self& self, Io& io) {
      io(self.number);
    }
  };
  // Forgets what is cached of the sandbox's files. In a virtual machine these are remote to the
  // guest's kernel: an overlay on a file that a commit has replaced answers ESTALE until then.
  struct Forget {
    static constexpr uint8_t kType = 5;
  };
  std::variant<Make, End, MakePlain, MakeMapped, Forget> what;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.what);
  }
};

struct SessionReply {
  bool done = false;
  // Set if not done. kResourceExhausted means that the store is full, and nothing else; an errno
  // would be a field that the execd of an earlier release does not expect.
  Code code = Code::kInternal;
  std::string message;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.done);
    io.Enum(self.code, Code::kInvalidArgument, Code::kInternal);
    io(self.message);
  }
};

// Returns execd's answer to a request with this outcome.
SessionReply ReplyOf(const Status& outcome);

// The upper directories of the session's overlays on disk (kOverlay), in the order of the request:
// directories that are readable and not writable. Sent by the maker of the session before anything
// runs in it.
struct SessionUppers {
  std::vector<UniqueFd> directories;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io.List(self.directories, kMaxSessionOverlays);
  }
};

// Sent by a session's execd to the sandbox's execd whenever a run begins or ends.
struct SessionNote {
  uint32_t running = 0;     // number of runs, in the background or waited for
  bool ended = false;       // the session's shell has exited, and nothing runs any more
  int64_t last_run_ms = 0;  // since the Unix epoch; 0: there was none

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.running, self.ended, self.last_run_ms);
  }
};

}  // namespace atl::wire
