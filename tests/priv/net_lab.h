// A host with its neighbourhood for tests of netpolicy, made of network namespaces of its own:
//
//   outside (203.0.113.2, 2001:db8::2, …) ── host (203.0.113.1, 2001:db8::1) ══ sandboxes
//
// A test runs in a forked child that has unshared its network namespace: that is the host, the
// machine's own network is never touched, and everything is gone when the child ends.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "netpolicy/address/addresses.h"
#include "netpolicy/address/endpoint.h"
#include "netpolicy/network.h"
#include "runtime/base/unique_fd.h"

namespace atl::testing {

inline constexpr uint32_t kLabInstance = 7;
inline constexpr uint32_t kLabConnections = 100;  // of one sandbox

// Runs `body` in a child with its own network namespace; its gtest failures are the test's.
void RunInOwnNetns(const std::function<void()>& body);

class NetNs {
 public:
  NetNs();  // a new one, with lo up
  int fd() const { return fd_.get(); }
  // Runs `f` inside. Sockets made there stay there.
  void Run(const std::function<void()>& f) const;
  void Close() { fd_.reset(); }

 private:
  UniqueFd fd_;
};

// An emulated machine that gets little of the processor takes its time.
constexpr int64_t kCarrierMicros = 30'000'000;

struct Guest {
  uint32_t slot;
  NetNs ns;
  UniqueFd rtnetlink;
  netpolicy::SlotAddresses addresses;
};

class NetLab {
 public:
  NetLab();
  // Opens (or opens again) the network under test.
  void OpenNetwork(std::vector<std::string> dns_upstreams = {"203.0.113.2"});
  netpolicy::Network& network() { return *network_; }
  void CloseNetwork() { network_.reset(); }
  // A namespace with the slot's link.
  std::unique_ptr<Guest> AddGuest(uint32_t slot);

  const NetNs& outside() const { return outside_; }

 private:
  NetNs outside_;
  std::unique_ptr<netpolicy::Network> network_;
};

// Runs nft(8) commands through libnftables, the oracle; its output.
std::string Nft(const std::string& commands);
// Says to the barrier that the table has passed every packet, as no one but root of the host can.
void OpenBarrier();

void AddAddress(const std::string& link, const std::string& address, int prefix);
void AddNeighbour(const std::string& link, const std::string& address,
                  const netpolicy::MacBytes& mac);
void AddRoute(const std::string& network, int prefix, const std::string& gateway);

// Sockets of `type` in the calling namespace. Non-blocking.
UniqueFd Listen(int type, const std::string& address, uint16_t port);
// What became of a connection attempt to a listener.
enum class Reach { kConnected, kUnreachable, kSilence, kRefused };
// How long a packet is waited for that should not come, and one that should: it takes well under a
// millisecond, but a busy machine may keep the softirq thread from it. Less than the second after
// which TCP would send again and hide a loss.
inline constexpr int kSilenceMs = 200;
inline constexpr int kPatienceMs = 900;
Reach TryConnect(const std::string& address, uint16_t port, int limit_ms = kPatienceMs);
// Sends one datagram, UDP or (raw_protocol) raw; `from` may be empty. False if that failed.
bool SendDatagram(const std::string& from, const std::string& to, uint16_t port,
                  const std::string& payload, int raw_protocol = 0);
// The next datagram, and who sent it; false after `limit_ms` of silence.
bool WaitReadable(int fd, int limit_ms);
std::string ReceiveFrom(int fd, netpolicy::Endpoint* from = nullptr, int limit_ms = 2000);

}  // namespace atl::testing
