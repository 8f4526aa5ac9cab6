// What the daemon asks of the spawner, one message for each thing that can be asked. A message
// names all that it carries, descriptors too, in its list of fields; kType is its number in a
// packet, never given to another one, and Reply what answers it: void if nothing but success.
#pragma once

#include <cstdint>
#include <string>
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

// What the spawner is and what it holds. It compares that with what the kernel has, and mends it:
// see stray_slots. Of one of another protocol nothing is read, so that the Greeting can tell ours.
struct Hello {
  static constexpr uint8_t kType = 1;
  using Reply = Greeting;
};

// Everything of a sandbox that no image decides, up to a parked execd. Prepared slots live as long
// as the connection. kUnimplemented: the spawner cannot prepare a slot of that tier.
struct PrepareSlot {
  static constexpr uint8_t kType = 2;
  using Reply = PreparedSlot;
  uint32_t slot = 0;
  cgroup::Limits limits;  // of its group, ahead of time; a build writes what its plan has different
  UniqueFd control;       // execd's ends, see start.h
  UniqueFd listener;
  std::string tier{kNamespaceTier};

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.slot, self.limits, self.control, self.listener);
    io.Added(self.tier, std::string(kNamespaceTier));
  }
};

// A prepared slot that no sandbox has is dismantled.
struct DropSlot {
  static constexpr uint8_t kType = 3;
  using Reply = void;
  uint32_t slot = 0;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.slot);
  }
};

// Puts the image's root into a prepared slot. The claim is a StartMessage on the other end of its
// `control`; it may have been written before. kUnimplemented: the spawner cannot build a sandbox of
// the plan's tier; the slot stays prepared.
struct Build {
  static constexpr uint8_t kType = 4;
  using Reply = Built;
  Boxed<Plan> plan;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.plan);
  }
};

// Answered when every process stands still, or goes on.
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

// Brings the memory of a sandbox that stands still to the swap area; a Freeze that lets it go on
// ends that, and fetches it back. kResourceExhausted, kUnimplemented: it stays where it is, for
// the reason that the message says; kFailedPrecondition: it does not stand still, or not any more.
struct Reclaim {
  static constexpr uint8_t kType = 25;
  using Reply = Reclaimed;
  std::string id;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id);
  }
};

// Answered when processes, cgroup, mounts and files are gone. An unknown id is not an error.
struct Destroy {
  static constexpr uint8_t kType = 6;
  using Reply = void;
  std::string id;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id);
  }
};

// Of an image archive, into its members.
struct SplitArchive {
  static constexpr uint8_t kType = 18;
  using Reply = Unpacked;
  UniqueFd archive;    // a regular file, read-only
  UniqueFd directory;  // to be filled

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.archive, self.directory);
  }
};

// Into the store, where it is not found before it is published.
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

// A published one, as a tar, to where the file stands; kNotFound: there is none. With /dev/null for
// a file the report's digest is all that is wanted.
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

// What a sandbox has written becomes a layer, which is not found before it is published. The
// sandbox goes on while most of it is copied, and is held still for the rest, which no Freeze and
// no hello tells of. It ends with the connection. kFailedPrecondition: the sandbox has ended
// meanwhile.
struct CopyUpper {
  static constexpr uint8_t kType = 20;
  using Reply = Copied;
  std::string id;
  LayerId layer = 0;
  uint64_t max_bytes = 0;
  bool lasting = true;  // what is answered survives the loss of power

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id, self.layer, self.max_bytes, self.lasting);
  }
};

// What a sandbox has otherwise than a stack of layers, as it stands while it goes on. Written into
// `out` as it is found; answered when all of it is, so that an end of `out` before that is none.
// kUnavailable: nobody reads it, or too many are under way; kFailedPrecondition: the sandbox has
// ended meanwhile.
struct DiffUpper {
  static constexpr uint8_t kType = 21;
  using Reply = Unpacked;
  std::string id;
  std::vector<LayerId> against;  // topmost first
  bool archive = false;          // else a list, see diff.h
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
  bool lasting = true;  // it survives the loss of power, and all that was written before

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.layer, self.lasting);
  }
};

// Published or not; an absent one is not an error. kFailedPrecondition: a sandbox has it.
struct RemoveLayer {
  static constexpr uint8_t kType = 9;
  using Reply = void;
  LayerId layer = 0;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.layer);
  }
};

// Destroys everything, answers, and ends the spawner.
struct Stop {
  static constexpr uint8_t kType = 11;
  using Reply = void;
};

// kAlreadyExists: there is a directory of that name.
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

// An absent one is not an error.
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

// Measures what a sandbox has written, its sessions and local copies of its buckets included.
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

// Whether a build could open it; nothing is made, what is missing counts as a directory that a
// build will make. kPermissionDenied: the spawner does not allow it; kNotFound: no such named
// volume; kInvalidArgument: the sub path.
struct CheckVolume {
  static constexpr uint8_t kType = 15;
  using Reply = void;
  Volume volume;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.volume);
  }
};

// Answered at once: the spawner is not stopped, and reads.
struct Ping {
  static constexpr uint8_t kType = 16;
  using Reply = void;
};

// The socket is kept open when the daemon has gone, and with it the rules that are the socket's,
// until the next one comes.
struct KeepRules {
  static constexpr uint8_t kType = 17;
  using Reply = void;
  UniqueFd nfnetlink;  // NETLINK_NETFILTER

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.nfnetlink);
  }
};

// An isolated session of a sandbox that runs and does not stand still. kAlreadyExists: it has one
// of that number; kUnavailable: too many are being made.
struct MakeSession {
  static constexpr uint8_t kType = 23;
  using Reply = void;
  std::string id;
  SessionSpec spec;
  SessionTerms terms;
  bool tell_uppers = false;
  bool mapped = false;  // in a user namespace of its own, with `user`
  SessionUser user;
  UniqueFd control;  // see session.h
  UniqueFd connections;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id, self.spec, self.terms, self.tell_uppers, self.mapped, self.user, self.control,
       self.connections);
  }
};

// Answered when its processes and group are gone and its files on their way out. Of what there is
// not it is no error.
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

// Mounts a bucket for the sandbox that is to be built in a prepared slot; its plan then has the
// same volume at `index`. Answered when the store has shown what is in it, or will not:
// kPermissionDenied: the operator does not allow it; kNotFound: there is no such bucket, or nothing
// at its sub path; kFailedPrecondition: the store does not know the credentials; kUnavailable: too
// many at once, or the slot is none; else it could not be had.
struct MountObjects {
  static constexpr uint8_t kType = 26;
  using Reply = void;
  uint32_t slot = 0;
  uint32_t index = 0;  // among the sandbox's volumes
  Volume volume;
  ObjectCredentials credentials;  // if they are the volume's own

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.slot, self.index, self.volume, self.credentials);
  }
};

// Asks which of these published layers the store lacks, and which store it is. Without layers it
// asks only the latter.
struct CheckLayers {
  static constexpr uint8_t kType = 28;
  static constexpr size_t kMost = 256;  // each is a look at a directory, on the spawner's thread
  using Reply = CheckedLayers;
  std::vector<LayerId> layers;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io.List(self.layers, kMost);
  }
};

using Message =
    std::variant<Hello, PrepareSlot, DropSlot, Build, Freeze, Destroy, SplitArchive, ExtractLayer,
                 PackLayer, CopyUpper, DiffUpper, PublishLayer, RemoveLayer, Stop, MakeVolume,
                 RemoveVolume, MeasureVolume, CheckVolume, Ping, KeepRules, MakeSession, EndSession,
                 Reclaim, MountObjects, MeasureSandbox, CheckLayers>;

// Freeze, Reclaim, CopyUpper, DiffUpper and MakeSession also fail with kUnimplemented, before they
// have any effect, if the sandbox's tier cannot do that or the spawner does not have the tier.

// What can be told about a message's content without knowing the spawner. Decoding does not ask for
// it: whoever sends such a message is told so, and not hung up on.
Status CheckForm(const Message& message);

}  // namespace atl::wire
