// The network of one slot: what a sandbox requests, and what is known about it at run time.
#pragma once

#include <cstdint>
#include <string>

#include "netpolicy/policy/policy.h"

namespace atl::netpolicy {

// The network that a sandbox requests.
struct SlotRequest {
  std::string sandbox;            // id of the sandbox, for events
  SharedPolicy policy;            // null: the operator's default
  std::string network;            // the named network it joins; empty: none
  std::string hostname;           // a name by which peers of that network find it, besides its id
  uint64_t bytes_per_second = 0;  // limit in each direction; 0: none
  std::string tenant = {};        // owner of the network's name; empty: the host
};
struct LiveSlot {
  uint32_t slot = 0;
  SlotRequest request;
};

// An address that an allowed name has resolved to.
struct LearnedName {
  std::string name;  // empty: an earlier daemon learned the address
  std::string address;
  std::string protocol;  // "tcp", "udp"; empty: any
  uint16_t port = 0;     // 0: any
  int64_t expires_in_seconds = 0;
};

// Traffic since the slot was attached, from the sandbox's point of view.
struct SlotCounters {
  uint64_t bytes_in = 0, bytes_out = 0;
  uint64_t packets_in = 0, packets_out = 0;
  // packets that the rules refused, and denials by the name server and the proxy
  uint64_t denied = 0;
};

}  // namespace atl::netpolicy
