// Who may have the last descriptors of this process. The kernel gives out the lowest free number,
// so the number that somebody is given tells how many are open, and nothing has to be counted:
//
//   0 …            anything
//   streams …      no further sandbox, and nothing that one keeps for as long as it lives
//                  (IsPastSandboxes): creates do not starve the commands of those that are there
//   spare …        what is open for a moment: a file, a message of the spawner, one short answer.
//                  Who was given one of these and would keep it gives it back (IsSpare).
//   soft limit …   accepting alone (AcceptReserved): whoever asks is told something, whatever
//                  sandboxes and streams have taken
//   hard limit
//
// Thread rule: ReserveDescriptors before there are threads, the rest from any.
#pragma once

#include <sys/resource.h>
#include <sys/socket.h>

#include <string_view>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl {

// Raises the soft limit of open files to the hard one, less the reserve: an eighth, at most 64. As
// many below it are spare, and as many below these are for streams.
Status ReserveDescriptors();

// Number of descriptors that the daemon and each process beside it may need at once.
inline constexpr rlim_t kEnoughDescriptors = 4096;

// This process's hard limit of open files if it is lower than that, or 0.
rlim_t LowDescriptorLimit();

// Whether `fd` is one of the last, which nobody keeps. Without ReserveDescriptors none is.
bool IsSpare(int fd);

// Whether `fd` is one that no sandbox keeps for as long as it lives. All that are spare are.
bool IsPastSandboxes(int fd);

// kResourceExhausted with EMFILE, for `what` that would have been given `fd` and kept it.
Error NoDescriptors(std::string_view what, int fd);

// accept4(2), close-on-exec and non-blocking, with the reserve open to it: for when accept4 says
// EMFILE. Invalid with errno when that is used up, too.
UniqueFd AcceptReserved(int listener, sockaddr* peer, socklen_t* size);

}  // namespace atl
