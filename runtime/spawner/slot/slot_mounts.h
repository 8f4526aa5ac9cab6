// The mount namespace of a slot: a small tree of its own without any mount of the host, from which
// a sandbox's root is made. A build enters it (1 µs) in place of copying the host's mounts and
// taking them off again.
//
//   /store   the store's tree, id-mapped to the slot's range
//   /root    empty: the overlay goes here
//   /dev     the sandbox's /dev, complete       |
//   /sys     its /sys, complete, read-only      | moved onto the overlay
//   /proc    its /proc: slot_proc.h             |
//   /own     top layer of the overlay: etc with hostname, hosts and resolv.conf, still empty
//   /empty   read-only: masks directories
//   /cgroup  on hybrid hosts: the directories of /sys/fs/cgroup
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "runtime/base/result.h"
#include "runtime/spawner/host/host.h"

namespace atl::spawner {

// Covers /sys/devices/system/cpu/online with the host's text, until a build knows the sandbox's
// limit. At the top of the slot's tree, where nobody sees it once the root is covered.
inline constexpr const char kOnlineFile[] = "online";
// The files of /own/etc.
inline constexpr const char* kOwnFiles[] = {"hostname", "hosts", "resolv.conf"};

// Makes that tree, but for what is mounted on /proc. Call in a process that is already in the
// slot's network, ipc and cgroup namespaces and in a new mount namespace. `base`: the slot's first
// id, the owner of everything that is created. `id_map`: a user namespace that maps the store's ids
// to the slot's. `shm_bytes`: the size of /dev/shm.
Status AssembleMounts(const Host& host, uid_t base, int id_map, uint64_t shm_bytes,
                      const std::vector<cgroup::View>& views);

// Makes the standard streams of the sandbox's program, under the names of process 1's. A user who
// has one open may open it again. The directory becomes root's alone, as each /proc/PID/fd belongs
// to the process's user.
Status MakeStreams(int directory);

// Mounts a devpts of its own onto `target`, an O_PATH descriptor, for at most `most` terminals of
// the group `group`.
Status MountTerminals(int target, gid_t group, uint32_t most);

// Makes this process create files as `base` from here on, with its capabilities kept. overlayfs
// must be mounted so: mounted by fsuid 0, which the id-mapped upper does not know, it would
// silently be read-only.
Status ActAs(uid_t base);

}  // namespace atl::spawner
