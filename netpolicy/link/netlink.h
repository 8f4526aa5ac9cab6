// Netlink messages, built in one buffer and sent in one call. Every answer is read, and every error
// names its request.
//
//   NetlinkBatch batch;
//   batch.Begin(RTM_NEWROUTE, NLM_F_CREATE, "RTM_NEWROUTE 10.200.0.7/32 dev atl0-7");
//   batch.Header(rtmsg{...});
//   batch.PutU32(RTA_OIF, 7);
//   ATOLL_TRY(Exchange(socket, batch));
//
// The kernel processes a batch within sendmsg(2). The answers are there when it returns, so nothing
// here waits for a peer.
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
  static constexpr uint16_t kNoAck = 0x8000;  // internal; not sent
  void Begin(uint16_t type, uint16_t flags, std::string label);
  // Appends the family's own header (ifinfomsg, nfgenmsg, …). Call right after Begin.
  template <typename T>
  void Header(const T& header) {
    Append(&header, sizeof header);
  }

  void Put(uint16_t attribute, std::span<const uint8_t> bytes);
  void PutString(uint16_t attribute, std::string_view text);  // includes the NUL
  void PutU8(uint16_t attribute, uint8_t value);
  void PutU32(uint16_t attribute, uint32_t value);   // host order, for rtnetlink
  void PutBe16(uint16_t attribute, uint16_t value);  // network order, for nfnetlink
  void PutBe32(uint16_t attribute, uint32_t value);
  void PutBe64(uint16_t attribute, uint64_t value);

  // A nested attribute, open until its Nest goes out of scope.
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
  // Appends bytes that are not an attribute to a nest, such as the ifinfomsg of a veth's peer.
  template <typename T>
  void PutRaw(const T& value) {
    Append(&value, sizeof value);
  }

  // Asks for an answer to the last message only, unless one fails. For transactions, whose messages
  // succeed or fail together: a thousand answers would not fit into a socket's buffer, and missing
  // answers would look like a failure although the transaction was done.
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
  // Returns the finished bytes, with sequence numbers from `first_sequence`.
  std::span<const uint8_t> Finish(uint32_t first_sequence) const;

  mutable std::vector<uint8_t> bytes_;
  std::vector<Message> messages_;
};

// Opens a close-on-exec netlink socket of `protocol` with extended error reports. The kernel checks
// the capabilities of both its opener and the sender of each message, so open it while privileged.
Result<UniqueFd> OpenNetlink(int protocol);

// Sends the batch and reads the answer to each message. Returns the error of the first message that
// failed: "LABEL: strerror (the kernel's explanation)", with error_number() set. rtnetlink has
// still tried the later messages; an nftables transaction has done nothing. Messages that are
// neither acknowledgements nor errors, such as the answer to RTM_GETLINK, go to `on_answer` if it
// is set.
Status Exchange(int socket, const NetlinkBatch& batch,
                const std::function<void(const nlmsghdr*)>& on_answer = nullptr);

// Sends a batch of one NLM_F_DUMP request and calls `on_message` for each message of the answer.
Status Dump(int socket, const NetlinkBatch& batch,
            const std::function<void(const nlmsghdr*)>& on_message);

// Takes the first message from `datagram`, as the kernel sent it. Null if no complete message is
// left. NLMSG_NEXT is not used, because its count of remaining bytes wraps after a last message of
// uneven length.
const nlmsghdr* TakeMessage(std::span<const uint8_t>* datagram);

// Returns the family's own header of a message. Fields beyond the end of a short message are 0.
template <typename T>
T HeaderOf(const nlmsghdr* message) {
  T header{};
  const size_t size = message->nlmsg_len > NLMSG_HDRLEN ? message->nlmsg_len - NLMSG_HDRLEN : 0;
  std::memcpy(&header, NLMSG_DATA(message), std::min(size, sizeof header));
  return header;
}

// Parses the attributes after a family header of `header_size` bytes, or those within a nest. An
// attribute whose length does not fit ends the list.
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
