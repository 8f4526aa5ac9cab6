// The network device of the virtual machine: a tap that is joined with the slot's link, so that the
// machine takes the link's place. Its addresses stay in the slot's network namespace, where nothing
// arrives any more; every rule that judges packets is on the other end of the link.
//
// Thread rule: blocks; for a process with one thread, with CAP_NET_ADMIN over its network
// namespace.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/wire/vm.h"

namespace atl::guard {

// Puts the link's addresses, gateways, neighbours, MAC and MTU into `go`. Leaves it as it is if the
// slot has no link. True: it has one.
Result<bool> ReadLink(wire::vm::Go* go);

// Makes `tun`, an open /dev/net/tun, the machine's tap. The link may come later.
Status MakeTap(int tun);

// Joins the tap with the link.
Status JoinLink(uint32_t mtu);

}  // namespace atl::guard
