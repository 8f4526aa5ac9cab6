// The conversation between a virtual machine and the guard that runs it, over vsock.
//
// The guest dials out first, so that its readiness is an event. Its process 1, the init, speaks in
// frames (frame.h) on kInitPort; execd speaks as start.h says on kControlPort, and serves the exec
// API on kExecPort, where it accepts the host alone.
//
//   guest ── Ready ──────► guard     once: the kernel and its modules are up
//   guest ◄── Go ──────── guard      once: the root is shared, become this sandbox
//   guest ◄── Sync{n} ─── guard      write what is dirty to the shares
//   guest ── Synced{n} ──► guard
//   guest ◄── Stop ─────── guard     end at once
//   guest ── Ended{code} ► guard     execd has ended; the machine powers off
//   guest ── Failed{why} ► guard     instead of Ended: no execd was started
//
// Everything that the guest says is hostile: whoever is root in it can speak for its init.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/frame.h"
#include "runtime/wire/volume.h"

namespace atl::wire::vm {

inline constexpr uint32_t kHostCid = 2;         // VMADDR_CID_HOST
inline constexpr uint32_t kExecPort = 1024;     // guest's port: the exec API of execd
inline constexpr uint32_t kControlPort = 1025;  // host's port: execd's control socket
inline constexpr uint32_t kInitPort = 1026;     // host's port: these messages

inline constexpr size_t kMaxFrame = 64 << 10;
inline constexpr size_t kMaxFailure = 4096;  // bytes of Failed::message
inline constexpr size_t kMaxAddresses = 16;  // also of gateways and of neighbours
inline constexpr size_t kMaxShares = 1 + kMaxVolumes;

// An address of a network in network order: 4 bytes (IPv4) or 16 (IPv6).
using AddressBytes = std::string;

// A neighbour of which nobody asks with ARP or neighbour discovery.
struct Neighbour {
  AddressBytes address;
  std::string mac;  // 6 bytes

  bool operator==(const Neighbour&) const = default;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.address, self.mac);
  }
};

// A directory, or a file, in a file system that the host shares by virtiofs.
struct Share {
  std::string tag;        // name of the device: 1 to 36 characters of [a-z0-9-]
  std::string directory;  // one name in the share; empty: the whole share
  // Absolute in the sandbox; a directory is made if it is absent; "/" only for the root.
  std::string target;
  bool read_only = false;

  bool operator==(const Share&) const = default;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.tag, self.directory, self.target, self.read_only);
  }
};

struct Ready {
  static constexpr uint8_t kType = 1;
};

struct Go {
  static constexpr uint8_t kType = 2;
  std::string hostname;  // the rules of Plan::hostname

  std::string mac;                      // 6 bytes: which eth0 gets; empty: loopback alone
  uint32_t mtu = 0;                     // MTU of eth0
  std::vector<AddressBytes> addresses;  // addresses of eth0, each alone in its network
  std::vector<AddressBytes> gateways;  // one for each family at most; reached by a route of its own
  std::vector<Neighbour> neighbours;

  Share root;  // its target is "/"
  // Directory of the root's file system in which isolated sessions keep what they write.
  std::string sessions;
  std::vector<Share> shares;

  uint64_t nofile = 0;        // RLIMIT_NOFILE, soft and hard; 0: the usual one
  uint64_t pids = 0;          // most processes of the sandbox; 0: as many as the guest's kernel can
  uint64_t shm_bytes = 0;     // size of /dev/shm
  uint64_t capabilities = 0;  // bounding set and permitted set of execd, by their numbers

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.hostname, self.mac, self.mtu);
    io.List(self.addresses, kMaxAddresses);
    io.List(self.gateways, 2);
    io.List(self.neighbours, kMaxAddresses);
    io(self.root, self.sessions);
    io.List(self.shares, kMaxShares);
    io(self.nofile, self.pids, self.shm_bytes, self.capabilities);
  }
};

struct Sync {
  static constexpr uint8_t kType = 3;
  uint64_t number = 0;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.number);
  }
};

struct Synced {
  static constexpr uint8_t kType = 4;
  uint64_t number = 0;       // the one of its Sync
  uint32_t errno_value = 0;  // 0: everything that was dirty is on the host
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.number, self.errno_value);
  }
};

struct Stop {
  static constexpr uint8_t kType = 5;
};

struct Ended {
  static constexpr uint8_t kType = 6;
  uint32_t exit_code = 0;  // 0 to 255, by the rule of start.h
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.exit_code);
  }
};

struct Failed {
  static constexpr uint8_t kType = 7;
  // Shown to users: the call and the object. The guest wrote it: show it, never parse it.
  std::string message;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.message);
  }
};

using ToGuest = std::variant<Go, Sync, Stop>;
using FromGuest = std::variant<Ready, Synced, Ended, Failed>;

// A whole frame, for the socket.
std::string EncodeToGuest(const ToGuest& message);
// Truncates the message of a Failed to kMaxFailure.
std::string EncodeFromGuest(const FromGuest& message);

// Decode one frame's content. kInvalidArgument: it is no message, or one of its values is refused.
Result<ToGuest> DecodeToGuest(std::string_view bytes);
Result<FromGuest> DecodeFromGuest(std::string_view bytes);

}  // namespace atl::wire::vm
