// All of the network that the program which serves a bucket has: whatever it connects to, in a
// network namespace of its own that leads nowhere, comes out here, and goes to the one endpoint
// that the operator has named. So a store that redirects, or a bug of that program, reaches nothing
// else of this host or beside it. Bytes are passed on as they are: TLS is between those two.
//
// It is the first process of their pid namespace, too: when the program ends, it does, and when it
// is killed, all of them are.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace atl::objects {

// Serves the connections of `listener` until `server`, a child of ours, has ended. An error: it
// cannot even begin.
Status Relay(int listener, const std::string& host, const std::string& port, pid_t server);

}  // namespace atl::objects
