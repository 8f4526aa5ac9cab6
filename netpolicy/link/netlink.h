// Netlink messages, built in one buffer and sent in one call, with every answer read and every
// error named.
//
//   NetlinkBatch batch;
//   batch.Begin(RTM_NEWROUTE, NLM_F_CREATE, "RTM_NEWROUTE 10.200.0.7/32 dev atl0-7");
//   batch.Header(rtmsg{...});
//   batch.PutU32(RTA_OIF, 7);
//   ATOLL_TRY(Exchange(socket, batch));
//
// The kernel works through a batch inside our sendmsg(2), so that the answers are there when it
// returns and nothing here ever blocks on a peer.
//
// Thread rule: a batch and a socket belong to one thread at a time.
#pragma once

#include <linux/netlink.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

class NetlinkBatch {
 public:
  // Starts a message. NLM_F_REQUEST and, unless kNoAck is given, NLM_F_ACK are added. `label` names
  // the request in errors.
  static constexpr uint16_t kNoAck = 0x8000;  // ours, not sent
  void Begin(uint16_t type, uint16_t flags, std::string label);
  // The family's own header (ifinfomsg, nfgenmsg, …), right after Begin.
  template <typename T>
  void Header(const T& header) {
    Append(&header, sizeof header);
  }

  void Put(uint16_t attribute, std::span<const uint8_t> bytes);
  void PutString(uint16_t attribute, std::string_view text);  // with its NUL
  void PutU8(uint16_t attribute, uint8_t value);
  void PutU32(uint16_t attribute, uint32_t value);   // host order: rtnetlink
  void PutBe16(uint16_t attribute, uint16_t value);  // network order: nfnetlink
  void PutBe32(uint16_t attribute, uint32_t value);
  void PutBe64(uint16_t attribute, uint64_t value);

  // A nested attribute is open until its Nest goes out of scope.
  class [[nodiscard]] Nest {
   public:
    Nest(NetlinkBatch* batch, uint16_t attribute);
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;
    ~Nest();

   private:
    NetlinkBatch* batch_;
    size_t start_;
  };
  Nest OpenNest(uint16_t attribute) { return Nest(this, attribute); }
  // Bytes inside a nest that are no attribute, such as the ifinfomsg of a veth's peer.
  template <typename T>
  void PutRaw(const T& value) {
    Append(&value, sizeof value);
  }

  // Only the last message is answered if nothing fails; for transactions, whose messages succeed or
  // fail together. A thousand answers would not fit into a socket's buffer, and whoever misses some
  // takes what has been done for a failure.
  void AckLastOnly();

  size_t message_count() const { return messages_.size(); }
  size_t size() const { return bytes_.size(); }

 private:
  friend Status Exchange(int socket, const NetlinkBatch& batch,
                         const std::function<void(const nlmsghdr*)>& on_answer);
  friend Status Dump(int socket, const NetlinkBatch& batch,
                     const std::function<void(const nlmsghdr*)>& on_message);
  struct Message {
    size_t offset;
    bool acked;
    std::string label;
  };
  void Append(const void* bytes, size_t size);
  void CloseMessage() const;
  // The finished bytes, with sequence numbers counted from `first_sequence`.
  std::span<const uint8_t> Finish(uint32_t first_sequence) const;

  mutable std::vector<uint8_t> bytes_;
  std::vector<Message> messages_;
};

// A close-on-exec netlink socket of `protocol` with extended error reports. The kernel checks the
// capabilities of both its opener and the sender of each message: open it while privileged.
Result<UniqueFd> OpenNetlink(int protocol);

// Sends the batch and reads the answer to each message. The error is that of the first message that
// failed: "LABEL: strerror (the kernel's explanation)", error_number() set. The messages after
// it were tried too (rtnetlink), or nothing was done (nftables transactions). What the kernel sends
// in answer beside "done" and errors (to RTM_GETLINK, say) goes to `on_answer`, if there is one.
Status Exchange(int socket, const NetlinkBatch& batch,
                const std::function<void(const nlmsghdr*)>& on_answer = nullptr);

// Sends a batch of one NLM_F_DUMP request and calls back for each message of the answer.
Status Dump(int socket, const NetlinkBatch& batch,
            const std::function<void(const nlmsghdr*)>& on_message);

// Takes the first message off `datagram`, as the kernel sent it. Null: none is left that is whole.
// Not NLMSG_NEXT, whose count of what is left wraps behind a last message of uneven length.
const nlmsghdr* TakeMessage(std::span<const uint8_t>* datagram);

// The family's own header of a message. Fields that a short message does not reach are 0.
template <typename T>
T HeaderOf(const nlmsghdr* message) {
  T header{};
  const size_t size = message->nlmsg_len > NLMSG_HDRLEN ? message->nlmsg_len - NLMSG_HDRLEN : 0;
  std::memcpy(&header, NLMSG_DATA(message), std::min(size, sizeof header));
  return header;
}

// The attributes that follow a family header of `header_size` bytes, or those inside of a nest.
// Whatever does not fit its length ends the walk.
struct Attribute {
  uint16_t type;  // without NLA_F_NESTED and NLA_F_NET_BYTEORDER
  std::span<const uint8_t> bytes;

  uint32_t U32() const;
  uint32_t Be32() const;
  uint64_t Be64() const;
  std::string_view Text() const;  // up to its NUL
};
std::vector<Attribute> Attributes(const nlmsghdr* message, size_t header_size);
std::vector<Attribute> Attributes(std::span<const uint8_t> nest);

}  // namespace atl::netpolicy
