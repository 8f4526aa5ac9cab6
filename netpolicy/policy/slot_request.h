// A slot's network: what a sandbox asks for, and what is known of it afterwards.
#pragma once

#include <cstdint>
#include <string>

#include "netpolicy/policy/policy.h"

namespace atl::netpolicy {

// What a sandbox wants of its slot's network.
struct SlotRequest {
  std::string sandbox;            // its id, for events
  SharedPolicy policy;            // null: the operator's default
  std::string network;            // named network; empty: none
  std::string hostname;           // by which its peers there find it; the id does too
  uint64_t bytes_per_second = 0;  // each way; 0: no limit
};
struct LiveSlot {
  uint32_t slot = 0;
  SlotRequest request;
};

// An address that a name has led to.
struct LearnedName {
  std::string name;  // empty: learned by an earlier daemon
  std::string address;
  std::string protocol;  // "tcp", "udp"; empty: any
  uint16_t port = 0;     // 0: any
  int64_t expires_in_seconds = 0;
};

// From the sandbox's side, since its slot was attached.
struct SlotCounters {
  uint64_t bytes_in = 0, bytes_out = 0;
  uint64_t packets_in = 0, packets_out = 0;
  uint64_t denied = 0;  // packets that the rules refused, and what name server and proxy did
};

}  // namespace atl::netpolicy
