// A host and its neighbourhood for tests of netpolicy, made of network namespaces of its own:
//
//   outside (203.0.113.2, 2001:db8::2, …) ── host (203.0.113.1, 2001:db8::1) ══ sandboxes
//
// A test runs in a forked child that has unshared its network namespace. That namespace is the
// host. The test never touches the machine's own network, and the kernel removes everything when
// the child ends.
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
inline constexpr uint32_t kLabConnections = 100;  // connections that one sandbox may have

// Runs `body` in a child with its own network namespace. The child's gtest failures are the test's.
void RunInOwnNetns(const std::function<void()>& body);

class NetNs {
 public:
  NetNs();  // makes a namespace with lo up
  int fd() const { return fd_.get(); }
  // Runs `f` in the namespace. Sockets that `f` creates stay in it.
  void Run(const std::function<void()>& f) const;
  void Close() { fd_.reset(); }

 private:
  UniqueFd fd_;
};

// Long, because an emulated machine may get little CPU time.
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
  // Opens, or reopens, the network under test.
  void OpenNetwork(std::vector<std::string> dns_upstreams = {"203.0.113.2"});
  netpolicy::Network& network() { return *network_; }
  void CloseNetwork() { network_.reset(); }
  // Returns a namespace with the slot's link.
  std::unique_ptr<Guest> AddGuest(uint32_t slot);

  const NetNs& outside() const { return outside_; }

 private:
  NetNs outside_;
  std::unique_ptr<netpolicy::Network> network_;
};

// Runs nft(8) commands through libnftables, independently of the code under test. Returns their
// output.
std::string Nft(const std::string& commands);
// Marks every packet for the barrier as passed by the table. Only root of the host can do this.
void OpenBarrier();

void AddAddress(const std::string& link, const std::string& address, int prefix);
void AddNeighbour(const std::string& link, const std::string& address,
                  const netpolicy::MacBytes& mac);
void AddRoute(const std::string& network, int prefix, const std::string& gateway);

// Opens a socket of `type` in the calling thread's namespace. The socket is non-blocking.
UniqueFd Listen(int type, const std::string& address, uint16_t port);
// The outcome of a connection attempt to a listener.
enum class Reach { kConnected, kUnreachable, kSilence, kRefused };
// kSilenceMs: how long a test waits for a packet that should not arrive. kPatienceMs: how long it
// waits for a packet that should. Delivery takes well under a millisecond, but a busy machine may
// delay the softirq thread. Both are less than the second after which TCP would retransmit and hide
// a loss.
inline constexpr int kSilenceMs = 200;
inline constexpr int kPatienceMs = 900;
Reach TryConnect(const std::string& address, uint16_t port, int limit_ms = kPatienceMs);
// Sends one datagram, UDP or (raw_protocol) raw. `from` may be empty. Returns false if that failed.
bool SendDatagram(const std::string& from, const std::string& to, uint16_t port,
                  const std::string& payload, int raw_protocol = 0);
// WaitReadable returns false after `limit_ms` of silence. ReceiveFrom returns the next datagram and
// sets `from` to its sender.
bool WaitReadable(int fd, int limit_ms);
std::string ReceiveFrom(int fd, netpolicy::Endpoint* from = nullptr, int limit_ms = 2000);

}  // namespace atl::testing
