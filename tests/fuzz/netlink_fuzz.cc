// Answers netlink requests with hostile bytes. The kernel writes these messages, but sandboxes
// influence their content: names, addresses, flows, packets.
//
// The first byte chooses the request. Every 0xff 0xfe begins another datagram.
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "netpolicy/host_check.h"
#include "netpolicy/link/link.h"
#include "netpolicy/link/netlink.h"
#include "netpolicy/rules/conntrack.h"
#include "netpolicy/rules/packet_log.h"
#include "netpolicy/rules/policy_sets.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {
namespace {

// Returns two connected sockets: `first` serves as a netlink socket, `second` as the kernel.
std::pair<UniqueFd, UniqueFd> Sockets() {
  int fds[2];
  ATOLL_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Returns the sequence number that the next request will have.
uint32_t NextSequence() {
  const auto [ours, kernel] = Sockets();
  NetlinkBatch batch;
  batch.Begin(0, NetlinkBatch::kNoAck, "probe");
  ATOLL_CHECK(Exchange(ours.get(), batch).has_value());
  nlmsghdr sent{};
  ATOLL_CHECK(::recv(kernel.get(), &sent, sizeof sent, 0) == sizeof sent);
  return sent.nlmsg_seq + 1;
}

// Gives every whole message the expected sequence number. Messages with another number would all be
// skipped.
void Number(std::vector<uint8_t>* datagram, uint32_t sequence) {
  std::span<const uint8_t> left(*datagram);
  while (const nlmsghdr* message = TakeMessage(&left)) {
    const auto at = reinterpret_cast<const uint8_t*>(message) - datagram->data();
    std::memcpy(datagram->data() + at + offsetof(nlmsghdr, nlmsg_seq), &sequence, sizeof sequence);
  }
}

void Answer(int kernel, std::span<const uint8_t> data) {
  const uint32_t sequence = NextSequence();
  constexpr uint8_t kCut[] = {0xff, 0xfe};
  while (!data.empty()) {
    const auto cut = std::search(data.begin(), data.end(), std::begin(kCut), std::end(kCut));
    std::vector<uint8_t> datagram(data.begin(), cut);
    Number(&datagram, sequence);
    if (!datagram.empty() && ::send(kernel, datagram.data(), datagram.size(), MSG_DONTWAIT) < 0)
      return;
    data = data.subspan(std::min(data.size(), datagram.size() + sizeof kCut));
  }
}

void Ask(uint8_t request, int socket) {
  constexpr uint32_t kInstance = 0;
  switch (request % 8) {
    case 0:
      (void)CutFlows(socket, kInstance, [](const Flow&) { return false; });
      break;
    case 1:
      (void)ListBaseChains(socket);
      break;
    case 2:
      (void)ListSlotLinks(socket, kInstance);
      break;
    case 3:
      (void)ReadLinkCounters(socket, 7);
      break;
    case 4:
      (void)DefaultRouteMtu(socket);
      break;
    case 5:
      (void)ListLearned(socket, kInstance, [](uint32_t, const LearnedKey&, int64_t) {});
      break;
    case 6:
      (void)ListDenied(socket, kInstance, [](uint32_t, uint64_t) {});
      break;
    default:
      (void)LimitRate(socket, 7, 1 << 20);
      break;
  }
}

}  // namespace
}  // namespace atl::netpolicy

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atl::netpolicy;  // NOLINT(google-build-using-namespace): one function
  if (size == 0) return 0;
  const auto [ours, kernel] = Sockets();
  Answer(kernel.get(), {data + 1, size - 1});
  Ask(data[0], ours.get());
  (void)ParseLoggedPacket(7, {data + 1, size - 1});
  return 0;
}
