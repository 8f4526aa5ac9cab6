// Reserves the last descriptors of this process. The kernel assigns the lowest free number, so the
// number of a new descriptor tells how many are open; no counting is needed:
//
//   0 …            any use
//   streams …      nothing that a sandbox keeps for its lifetime (IsPastSandboxes), so that creates
//                  do not starve the commands of existing sandboxes
//   spare …        only for short use: a file, a message of the spawner, one short answer. Whoever
//                  gets one for longer use must close it (IsSpare)
//   soft limit …   only for accepting (AcceptReserved), so that every client gets an answer,
//                  whatever sandboxes and streams use
//   hard limit
//
// Thread rule: call ReserveDescriptors before there are threads; the rest from any thread.
#pragma once

#include <sys/resource.h>
#include <sys/socket.h>

#include <string_view>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl {

// Raises the soft limit of open files to the hard limit minus the reserve: an eighth, at most 64.
// An equal number below that is spare, and again an equal number below is for streams.
Status ReserveDescriptors();

// Descriptors that the daemon and each process beside it may need at once.
inline constexpr rlim_t kEnoughDescriptors = 4096;

// Returns this process's hard limit of open files if it is lower than kEnoughDescriptors, otherwise
// 0.
rlim_t LowDescriptorLimit();

// Returns true if `fd` is a spare one, which must not be kept. Always false without
// ReserveDescriptors.
bool IsSpare(int fd);

// Returns true if `fd` must not be kept for the lifetime of a sandbox. Includes spare ones.
bool IsPastSandboxes(int fd);

// Returns kResourceExhausted with EMFILE: `what` was given `fd` and must not keep it.
Error NoDescriptors(std::string_view what, int fd);

// accept4(2), close-on-exec and nonblocking, with the reserved descriptors. Call if accept4 fails
// with EMFILE. Invalid, with errno, if the reserve is used up too.
UniqueFd AcceptReserved(int listener, sockaddr* peer, socklen_t* size);

}  // namespace atl
