// The only network of the program that serves a bucket. That program runs in an empty network
// namespace; every connection that it makes arrives here and goes to the one endpoint that the
// operator has configured. So a store that redirects, or a bug in the program, can reach nothing
// else on this host or its network. Bytes are passed on unchanged: TLS is between the program and
// the store.
//
// It is also the first process of their pid namespace: when the program ends, it ends too, and when
// it is killed, all of them are.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace atl::objects {

// Serves the connections of `listener` until `server`, a child process, has ended. Fails only if it
// cannot start.
Status Relay(int listener, const std::string& host, const std::string& port, pid_t server);

}  // namespace atl::objects
