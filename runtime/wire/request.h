// The requests of the daemon to the spawner, one message for each. A message lists everything that
// it carries, descriptors included, in its fields. kType is its number in a packet and is never
// reused. Reply is the type of its answer; void means only success.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cgroup/limits.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/layer.h"
#include "runtime/wire/object_store.h"
#include "runtime/wire/reply.h"
#include "runtime/wire/session.h"
#include "runtime/wire/tier.h"
#include "runtime/wire/volume.h"

namespace atl::wire {

struct Plan;  // see plan.h

// Asks for the spawner's state. The spawner compares its records with the kernel and repairs
// differences (see stray_slots). A Hello of another protocol is accepted without reading it, so
// that the Greeting can report our protocol.
struct Hello {
  static constexpr uint8_t kType = 1;
  using Reply = Greeting;
};

// Makes everything of a sandbox that does not depend on the image, up to a parked execd. Prepared
// slots live as long as the connection. kUnimplemented: the spawner cannot prepare a slot of that
// tier.
struct PrepareSlot {
  static constexpr uint8_t kType = 2;
  using Reply = PreparedSlot;
  uint32_t slot = 0;
  // limits of its group, set ahead of time; a build writes what its plan changes
  cgroup::Limits limits;
  UniqueFd control;  // execd's ends, see start.h
  UniqueFd listener;
  std::string tier{kNamespaceTier};
  // Boot now what needs no image, with these limits. A tier without such a thing ignores it.
  bool ahead = false;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.slot, self.limits, self.control, self.listener);
    io(self.tier, self.ahead);
  }
};

// Dismantles a prepared slot that no sandbox uses.
struct DropSlot {
  static constexpr uint8_t kType = 3;
  using Reply = void;
  uint32_t slot = 0;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.slot);
  }
};

// Builds the image's root in a prepared slot. The claim is a StartMessage on the other end of its
// `control`, which may have been written before. kUnimplemented: the spawner cannot build a sandbox
// of the plan's tier; the slot stays prepared.
struct Build {
  static constexpr uint8_t kType = 4;
  using Reply = Built;
  Boxed<Plan> plan;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.plan);
  }
};

// Changes the limits of a parked sandbox to those of the create that claims it. The claim, a
// StartMessage, follows the answer. kNotFound: no such sandbox lives. kInvalidArgument: the limits.
// After any other error the sandbox may have some of the new limits, so it is of no use.
// kFailedPrecondition: an earlier spawner has built it, or it has an open-file limit of its own.
struct ChangeLimits {
  static constexpr uint8_t kType = 30;
  using Reply = void;
  std::string id;
  cgroup::Limits limits;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id, self.limits);
  }
};

// Freezes or thaws a sandbox. Answered when every process has stopped, or continues.
struct Freeze {
  static constexpr uint8_t kType = 5;
  using Reply = void;
  std::string id;
  bool frozen = false;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id, self.frozen);
  }
};

// Moves the memory of a paused sandbox to the swap area. The Freeze that resumes the sandbox stops
// this and fetches the memory back. kResourceExhausted, kUnimplemented: the memory stays; the
// message says why. kFailedPrecondition: the sandbox is not paused, or not any more.
struct Reclaim {
  static constexpr uint8_t kType = 25;
  using Reply = Reclaimed;
  std::string id;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id);
  }
};

// Destroys a sandbox. Answered when its processes, cgroup, mounts and files are gone. An unknown id
// is not an error. With `keep_reading`, the spawner repeats the answer's reading until it is
// settled, and so does the next spawner.
struct Destroy {
  static constexpr uint8_t kType = 6;
  using Reply = Destroyed;
  std::string id;
  bool keep_reading = false;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id, self.keep_reading);
  }
};

// Reports that the daemon has stored the readings of these destroyed sandboxes, so the spawner
// forgets them. Unknown ids are not an error. The answer lists some of the readings that are left,
// oldest first, if `list` is set.
struct SettleEnds {
  static constexpr uint8_t kType = 29;
  using Reply = Ends;
  std::vector<std::string> ids;
  bool list = false;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io.List(self.ids, kMaxEnds);
    io(self.list);
  }
};

// Reads the project quotas of all living sandboxes and named volumes.
struct MeasureDisks {
  static constexpr uint8_t kType = 31;
  using Reply = Disks;
};

// Splits an image archive into its members.
struct SplitArchive {
  static constexpr uint8_t kType = 18;
  using Reply = Unpacked;
  UniqueFd archive;    // a regular file, read-only
  UniqueFd directory;  // directory for the members

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.archive, self.directory);
  }
};

// Extracts a layer into the store, where it can be used only after it is published.
struct ExtractLayer {
  static constexpr uint8_t kType = 19;
  using Reply = Unpacked;
  LayerId layer = 0;
  UniqueFd blob;  // a regular file, read-only

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.layer, self.blob);
  }
};

// Writes a published layer as a tar at the offset of `file`. kNotFound: no such layer. With
// /dev/null as `file`, only the report's digest is wanted.
struct PackLayer {
  static constexpr uint8_t kType = 22;
  using Reply = Unpacked;
  LayerId layer = 0;
  UniqueFd file;  // a regular file, or /dev/null; open for writing

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.layer, self.file);
  }
};

// Makes a layer of what a sandbox has written; it can be used only after it is published. The
// sandbox runs while most of it is copied, and is paused for the rest, which neither Freeze nor
// Hello reports. Cancelled if the connection closes. kFailedPrecondition: the sandbox has ended
// meanwhile.
struct CopyUpper {
  static constexpr uint8_t kType = 20;
  using Reply = Copied;
  std::string id;
  LayerId layer = 0;
  uint64_t max_bytes = 0;
  bool lasting = true;  // the result survives a loss of power

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id, self.layer, self.max_bytes, self.lasting);
  }
};

// Compares a sandbox with a stack of layers while it runs. Differences are written to `out` as they
// are found. The answer comes when everything is written; an end of `out` without an answer means
// failure. kUnavailable: nobody reads `out`, or too many are in flight. kFailedPrecondition: the
// sandbox has ended meanwhile.
struct DiffUpper {
  static constexpr uint8_t kType = 21;
  using Reply = Unpacked;
  std::string id;
  std::vector<LayerId> against;  // topmost first
  bool archive = false;          // otherwise a list, see diff.h
  UniqueFd out;                  // a pipe

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id);
    io.List(self.against, kMaxLayers);
    io(self.archive, self.out);
  }
};

struct PublishLayer {
  static constexpr uint8_t kType = 8;
  using Reply = void;
  LayerId layer = 0;
  bool lasting = true;  // the layer, and everything written before, survives a loss of power

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.layer, self.lasting);
  }
};

// Removes a layer, published or not. A missing layer is not an error. kFailedPrecondition: a
// sandbox uses it.
struct RemoveLayer {
  static constexpr uint8_t kType = 9;
  using Reply = void;
  LayerId layer = 0;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.layer);
  }
};

// Destroys everything, answers, and exits.
struct Stop {
  static constexpr uint8_t kType = 11;
  using Reply = void;
};

// kAlreadyExists: a directory of that name exists.
struct MakeVolume {
  static constexpr uint8_t kType = 12;
  using Reply = void;
  std::string name;
  uint64_t disk_bytes = 0;  // 0: no limit

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.name, self.disk_bytes);
  }
};

// A missing volume is not an error.
struct RemoveVolume {
  static constexpr uint8_t kType = 13;
  using Reply = void;
  std::string name;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.name);
  }
};

struct MeasureVolume {
  static constexpr uint8_t kType = 14;
  using Reply = DiskUse;
  std::string name;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.name);
  }
};

// Measures what a sandbox has written, including its sessions and the local copies of its buckets.
// kFailedPrecondition: it has ended.
struct MeasureSandbox {
  static constexpr uint8_t kType = 27;
  using Reply = DiskUse;
  std::string id;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id);
  }
};

// Checks whether a build could open the volume. Creates nothing; a missing part of the path counts
// as a directory that the build would create. kPermissionDenied: the spawner does not allow it.
// kNotFound: no such named volume. kInvalidArgument: the sub path.
struct CheckVolume {
  static constexpr uint8_t kType = 15;
  using Reply = void;
  Volume volume;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.volume);
  }
};

// Answered at once. Proves that the spawner is not stopped and reads its socket.
struct Ping {
  static constexpr uint8_t kType = 16;
  using Reply = void;
};

// Hands over a socket that owns nftables rules (netpolicy/rules/barrier.h). The spawner keeps it
// open, and thereby the rules, until the next daemon sends its own.
struct KeepRules {
  static constexpr uint8_t kType = 17;
  using Reply = void;
  UniqueFd nfnetlink;  // NETLINK_NETFILTER

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.nfnetlink);
  }
};

// Makes an isolated session in a running sandbox that is not paused. kAlreadyExists: it has a
// session of that number. kUnavailable: too many are being made.
struct MakeSession {
  static constexpr uint8_t kType = 23;
  using Reply = void;
  std::string id;
  SessionSpec spec;
  SessionTerms terms;
  bool tell_uppers = false;
  bool mapped = false;  // the session has its own user namespace, with `user`
  SessionUser user;
  UniqueFd control;  // see session.h
  UniqueFd connections;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id, self.spec, self.terms, self.tell_uppers, self.mapped, self.user, self.control,
       self.connections);
  }
};

// Returns the request that an execd's stands for. `what`: a Make, MakePlain or MakeMapped of
// SessionRequest.
template <typename What>
MakeSession MakeSessionOf(std::string id, What what) {
  MakeSession make{.id = std::move(id),
                   .spec = std::move(what.spec),
                   .terms = {},
                   .tell_uppers = false,
                   .mapped = false,
                   .user = {},
                   .control = std::move(what.control),
                   .connections = std::move(what.connections)};
  if constexpr (requires { what.terms; }) {
    make.terms = what.terms;
    make.tell_uppers = true;
  }
  if constexpr (requires { what.user; }) {
    make.mapped = true;
    make.user = what.user;
  }
  return make;
}

// Ends a session. Answered when its processes and group are gone and the removal of its files has
// begun. An unknown session is not an error.
struct EndSession {
  static constexpr uint8_t kType = 24;
  using Reply = void;
  std::string id;
  uint32_t number = 0;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id, self.number);
  }
};

// Mounts a bucket for the sandbox that will be built in a prepared slot. Its plan then has the same
// volume at `index`. Answered when the store has listed the bucket, or has refused.
// kPermissionDenied: the operator does not allow it. kNotFound: no such bucket, or nothing at its
// sub path. kFailedPrecondition: the store refuses the credentials. kUnavailable: too many at once,
// or the slot is gone. Any other code: the store could not be used.
struct MountObjects {
  static constexpr uint8_t kType = 26;
  using Reply = void;
  uint32_t slot = 0;
  uint32_t index = 0;  // index into the sandbox's volumes
  Volume volume;
  ObjectCredentials credentials;  // set if the volume brings its own

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.slot, self.index, self.volume, self.credentials);
  }
};

// Asks which of these published layers are missing in the store, and for the store's id. Without
// layers, only for the id.
struct CheckLayers {
  static constexpr uint8_t kType = 28;
  static constexpr size_t kMost = 256;  // each costs a directory look-up on the spawner's thread
  using Reply = CheckedLayers;
  std::vector<LayerId> layers;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io.List(self.layers, kMost);
  }
};

// Starts an interceptor for the sandbox in the slot (netpolicy/intercept), in the sandbox's cgroup,
// with the daemon's user and no rights. The answer does not wait for its first instruction: in a
// frozen sandbox it begins with the thaw. It ends with its sandbox, or when `line` is closed.
// kFailedPrecondition: no sandbox lives in the slot. kPermissionDenied: `line` is no Unix socket.
struct StartInterceptor {
  static constexpr uint8_t kType = 32;
  using Reply = Interceptor;
  uint32_t slot = 0;
  UniqueFd line;  // the interceptor's end, see netpolicy/intercept/line.h

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.slot, self.line);
  }
};

using Message =
    std::variant<Hello, PrepareSlot, DropSlot, Build, Freeze, Destroy, SplitArchive, ExtractLayer,
                 PackLayer, CopyUpper, DiffUpper, PublishLayer, RemoveLayer, Stop, MakeVolume,
                 RemoveVolume, MeasureVolume, CheckVolume, Ping, KeepRules, MakeSession, EndSession,
                 Reclaim, MountObjects, MeasureSandbox, CheckLayers, ChangeLimits, SettleEnds,
                 MeasureDisks, StartInterceptor>;

// ChangeLimits, Freeze, Reclaim, CopyUpper, DiffUpper and MakeSession also fail with
// kUnimplemented, before they have any effect, if the sandbox's tier cannot do that or the spawner
// does not have the tier.

// Checks everything about a message that does not depend on the spawner. Not part of decoding, so
// that the sender of an invalid message gets an answer and keeps its connection.
Status CheckForm(const Message& message);

}  // namespace atl::wire
