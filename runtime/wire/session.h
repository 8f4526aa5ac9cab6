// Isolated sessions: what a sandbox's execd asks the daemon for, over
//
//   GET kSessionRoute                   the daemon, on execd's listening socket, with
//                                       kInternalHeader: 101, and from then on, one at a time,
//   execd  ── SessionRequest ──►        daemon      in frames (frame.h)
//   execd  ◄── SessionReply ───         daemon
//
// and what the spawner makes of it. The two sockets of a MakeSession travel with its first byte,
// `control` first; execd has the other ends:
//
//   control      the session's execd finds it where a sandbox's has its own (start.h): a
//                StartMessage in; SessionUppers, if there are, a StartReport and then SessionNotes
//                out. Its end is the session's
//   connections  in place of a listening socket: each byte brings a descriptor, a connection of the
//                exec API
//
// execd numbers its sessions, so that one of which nobody knows whether it came to be can be ended.
// Both requests are hostile: written inside the sandbox.
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

// Of one sandbox at once; they are numbered from 1.
inline constexpr uint32_t kMaxSessions = 16;
inline constexpr size_t kMaxSessionMounts = 32;
// Of those, overlays.
inline constexpr size_t kMaxSessionOverlays = 16;
inline constexpr size_t kMaxSessionPath = 1024;
inline constexpr size_t kMaxSessionRequest = 96 << 10;
inline constexpr size_t kMaxSessionReply = 8 << 10;

struct SessionMount {
  enum class Kind : uint8_t {
    kWritable = 1,  // the sandbox's own directory or file
    kReadOnly,
    kOverlay,  // the sandbox's directory below, what is written stays in the session, on disk
    kScratch,  // the same, in memory
  };
  Kind kind = Kind::kReadOnly;
  std::string source;  // both absolute and clean, as the sandbox sees them
  std::string target;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io.Enum(self.kind, Kind::kWritable, Kind::kScratch);
    io(self.source, self.target);
  }
};

struct SessionSpec {
  uint32_t number = 0;
  bool shared_network = true;  // false: loopback alone
  bool shared_tmp = false;     // /tmp is the sandbox's
  std::vector<SessionMount> mounts;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.number, self.shared_network, self.shared_tmp);
    io.List(self.mounts, kMaxSessionMounts);
  }
};
// Numbers and paths within their bounds, paths absolute and clean, no two mounts on one target.
Status CheckForm(const SessionSpec& spec);

// What a session may use of what its sandbox may; 0: no less.
struct SessionTerms {
  uint64_t memory_bytes = 0;
  uint64_t pids = 0;
  uint64_t cpu_millis = 0;  // 1000 = one core

  bool limited() const { return memory_bytes != 0 || pids != 0 || cpu_millis != 0; }
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.memory_bytes, self.pids, self.cpu_millis);
  }
};
// Each within the bounds of a sandbox's own limits.
Status CheckForm(const SessionTerms& terms);

// Of a session with a user namespace of its own: whom it is to itself, and whom to its sandbox,
// which is all that its files belong to.
struct SessionUser {
  uint32_t uid = 0, gid = 0;
  uint32_t sandbox_uid = 0, sandbox_gid = 0;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.uid, self.gid, self.sandbox_uid, self.sandbox_gid);
  }
};
// Ids, and not the last number, which says "as it is".
Status CheckForm(const SessionUser& user);

struct SessionRequest {
  // By sandboxes of releases before there were terms, which know nothing of SessionUppers either.
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
  // In a user namespace of its own.
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
  // Everything of it goes. One that there is not is no error.
  struct End {
    static constexpr uint8_t kType = 2;
    uint32_t number = 0;
    template <typename Self, typename Io>
    static void Fields(Self& self, Io& io) {
      io(self.number);
    }
  };
  std::variant<Make, End, MakePlain, MakeMapped> what;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.what);
  }
};

struct SessionReply {
  bool done = false;
  // If not done. kResourceExhausted says that the store is full, and nothing else: an errno would
  // be a field that the execd of an earlier release does not expect.
  Code code = Code::kInternal;
  std::string message;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.done);
    io.Enum(self.code, Code::kInvalidArgument, Code::kInternal);
    io(self.message);
  }
};

// What the session writes to its overlays on disk (kOverlay), in the order asked for: directories
// that can be read and not written to. From who makes the session, before anything runs in it.
struct SessionUppers {
  std::vector<UniqueFd> directories;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io.List(self.directories, kMaxSessionOverlays);
  }
};

// From a session's execd to the sandbox's, whenever a run begins or ends.
struct SessionNote {
  uint32_t running = 0;     // runs, in the background or waited for
  bool ended = false;       // its shell has left: nothing runs any more
  int64_t last_run_ms = 0;  // of the Unix epoch; 0: there was none

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.running, self.ended, self.last_run_ms);
  }
};

}  // namespace atl::wire
