#include "netpolicy/link/netlink.h"

#include <arpa/inet.h>
#include <endian.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <utility>

namespace atl::netpolicy {
namespace {

constexpr int kSendBuffer = 8 << 20;

size_t Aligned(size_t size) {
  return (size + 3) & ~size_t{3};
}

// Sequence numbers are unique in the process, so that late answers to an earlier, failed exchange
// are not mistaken for ours.
uint32_t TakeSequence(size_t count) {
  static std::atomic<uint32_t> next{1};
  return next.fetch_add(static_cast<uint32_t>(count), std::memory_order_relaxed);
}

Status SendAll(int socket, std::span<const uint8_t> bytes, const std::string& label) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  const ssize_t n = TEMP_FAILURE_RETRY(::sendto(
      socket, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&kernel), sizeof kernel));
  if (n < 0) return FailSys("netlink sendto for " + label);
  return {};
}

// Receives one datagram from the kernel into `buffer`. MSG_TRUNC gives its true length.
Result<size_t> Receive(int socket, std::span<uint8_t> buffer, const std::string& label) {
  const ssize_t n =
      TEMP_FAILURE_RETRY(::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC));
  if (n < 0) return FailSys("netlink answer to " + label);
  if (static_cast<size_t>(n) > buffer.size()) {
    return Fail(Code::kInternal, "netlink answer to " + label + ": longer than the buffer");
  }
  return static_cast<size_t>(n);
}

// Returns the error of an NLMSG_ERROR, with the kernel's explanation if there is one.
Error ErrorOf(const nlmsghdr* message, const std::string& label) {
  nlmsgerr report;
  std::memcpy(&report, NLMSG_DATA(message), sizeof report);
  std::string call = label;
  if (message->nlmsg_flags & NLM_F_ACK_TLVS) {
    // NETLINK_CAP_ACK is on, so the report does not contain the request's payload.
    for (const Attribute& attribute : Attributes(message, sizeof report)) {
      if (attribute.type == NLMSGERR_ATTR_MSG) {
        call += " (" + std::string(attribute.Text()) + ")";
      }
    }
  }
  return SysError(call, -report.error);
}

}  // namespace

void NetlinkBatch::Begin(uint16_t type, uint16_t flags, std::string label) {
  CloseMessage();
  const bool acked = (flags & kNoAck) == 0;
  messages_.push_back(Message{bytes_.size(), acked, std::move(label)});
  nlmsghdr header{};
  header.nlmsg_type = type;
  header.nlmsg_flags =
      static_cast<uint16_t>((flags & ~kNoAck) | NLM_F_REQUEST | (acked ? NLM_F_ACK : 0));
  Append(&header, sizeof header);
}

void NetlinkBatch::AckLastOnly() {
  bool last = true;
  for (size_t i = messages_.size(); i-- > 0;) {
    if (!messages_[i].acked || std::exchange(last, false)) continue;
    messages_[i].acked = false;
    uint8_t* flags = bytes_.data() + messages_[i].offset + offsetof(nlmsghdr, nlmsg_flags);
    uint16_t value;
    std::memcpy(&value, flags, sizeof value);
    value = static_cast<uint16_t>(value & ~NLM_F_ACK);
    std::memcpy(flags, &value, sizeof value);
  }
}

void NetlinkBatch::Append(const void* bytes, size_t size) {
  const auto* begin = static_cast<const uint8_t*>(bytes);
  bytes_.insert(bytes_.end(), begin, begin + size);
  bytes_.resize(Aligned(bytes_.size()));
}

void NetlinkBatch::Put(uint16_t attribute, std::span<const uint8_t> bytes) {
  const nlattr header{static_cast<uint16_t>(sizeof(nlattr) + bytes.size()), attribute};
  Append(&header, sizeof header);
  Append(bytes.data(), bytes.size());
}

void NetlinkBatch::PutString(uint16_t attribute, std::string_view text) {
  std::vector<uint8_t> bytes(text.begin(), text.end());
  bytes.push_back(0);
  Put(attribute, bytes);
}

void NetlinkBatch::PutU8(uint16_t attribute, uint8_t value) {
  Put(attribute, std::span(&value, 1));
}

void NetlinkBatch::PutU32(uint16_t attribute, uint32_t value) {
  std::array<uint8_t, 4> bytes;
  std::memcpy(bytes.data(), &value, sizeof value);
  Put(attribute, bytes);
}

void NetlinkBatch::PutBe32(uint16_t attribute, uint32_t value) {
  PutU32(attribute, htonl(value));
}

void NetlinkBatch::PutBe16(uint16_t attribute, uint16_t value) {
  Put(attribute,
      std::array<uint8_t, 2>{static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value & 0xff)});
}

void NetlinkBatch::PutBe64(uint16_t attribute, uint64_t value) {
  std::array<uint8_t, 8> bytes;
  const uint64_t swapped = htobe64(value);
  std::memcpy(bytes.data(), &swapped, sizeof swapped);
  Put(attribute, bytes);
}

NetlinkBatch::Nest::Nest(NetlinkBatch* batch, uint16_t attribute)
    : batch_(batch), start_(batch->bytes_.size()) {
  const nlattr header{sizeof(nlattr), static_cast<uint16_t>(attribute | NLA_F_NESTED)};
  batch_->Append(&header, sizeof header);
}

NetlinkBatch::Nest::~Nest() {
  const size_t size = batch_->bytes_.size() - start_;
  ATOLL_CHECK(size <= UINT16_MAX);
  const uint16_t length = static_cast<uint16_t>(size);
  std::memcpy(batch_->bytes_.data() + start_, &length, sizeof length);
}

void NetlinkBatch::CloseMessage() const {
  if (messages_.empty()) return;
  const size_t start = messages_.back().offset;
  const uint32_t length = static_cast<uint32_t>(bytes_.size() - start);
  std::memcpy(bytes_.data() + start + offsetof(nlmsghdr, nlmsg_len), &length, sizeof length);
}

std::span<const uint8_t> NetlinkBatch::Finish(uint32_t first_sequence) const {
  CloseMessage();
  uint32_t sequence = first_sequence;
  for (const Message& message : messages_) {
    std::memcpy(bytes_.data() + message.offset + offsetof(nlmsghdr, nlmsg_seq), &sequence,
                sizeof sequence);
    ++sequence;
  }
  return bytes_;
}

Result<UniqueFd> OpenNetlink(int protocol) {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
  if (!fd) return FailSys("socket AF_NETLINK, protocol " + std::to_string(protocol));
  const int on = 1;
  if (::setsockopt(fd.get(), SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof on) != 0 ||
      ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on) != 0) {
    return FailSys("setsockopt NETLINK_EXT_ACK");
  }
  // A transaction is one message: a large policy has 8,192 elements of 60 bytes and replaces as
  // many. The size is forced because net.core.wmem_max is 208 KiB. Without the privilege (the
  // doctor of a plain user) no large message is sent.
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kSendBuffer, sizeof kSendBuffer);
  return fd;
}

Status Exchange(int socket, const NetlinkBatch& batch,
                const std::function<void(const nlmsghdr*)>& on_answer) {
  const auto& messages = batch.messages_;
  if (messages.empty()) return {};
  const uint32_t first = TakeSequence(messages.size());
  size_t expected = 0;
  for (const auto& message : messages) expected += message.acked ? 1 : 0;
  ATOLL_TRY(SendAll(socket, batch.Finish(first), messages.front().label));

  std::vector<bool> answered(messages.size());
  size_t failed = messages.size();
  Status status;
  alignas(nlmsghdr) std::array<uint8_t, 8192> buffer;
  while (expected > 0) {
    auto size = Receive(socket, buffer, messages.front().label);
    // The kernel answers only the messages that it processed before it refused the transaction.
    if (!size && !status) return status;
    if (!size) return Fail(std::move(size).error());
    std::span<const uint8_t> left(buffer.data(), *size);
    while (const nlmsghdr* m = TakeMessage(&left)) {
      const size_t index = m->nlmsg_seq - first;
      if (index >= messages.size()) continue;
      if (m->nlmsg_type != NLMSG_ERROR) {
        if (on_answer) on_answer(m);
        continue;
      }
      if (m->nlmsg_len < NLMSG_LENGTH(sizeof(nlmsgerr))) continue;
      if (!answered[index] && messages[index].acked) --expected;
      answered[index] = true;
      nlmsgerr report;
      std::memcpy(&report, NLMSG_DATA(m), sizeof report);
      if (report.error != 0 && index < failed) {
        failed = index;
        status = Fail(ErrorOf(m, messages[index].label));
      }
    }
  }
  return status;
}

Status Dump(int socket, const NetlinkBatch& batch,
            const std::function<void(const nlmsghdr*)>& on_message) {
  ATOLL_CHECK(batch.messages_.size() == 1);
  const std::string& label = batch.messages_.front().label;
  const uint32_t sequence = TakeSequence(1);
  ATOLL_TRY(SendAll(socket, batch.Finish(sequence), label));
  std::vector<uint8_t> buffer(size_t{64} * 1024);  // the kernel fills at most 32 KiB at a time
  for (;;) {
    ATOLL_ASSIGN(const size_t size, Receive(socket, buffer, label));
    std::span<const uint8_t> left(buffer.data(), size);
    while (const nlmsghdr* m = TakeMessage(&left)) {
      if (m->nlmsg_seq != sequence) continue;
      if (m->nlmsg_type == NLMSG_DONE) return {};
      if (m->nlmsg_type == NLMSG_ERROR) {
        if (m->nlmsg_len < NLMSG_LENGTH(sizeof(nlmsgerr))) {
          return Fail(Code::kInternal, "netlink answer to " + label + ": cut short");
        }
        nlmsgerr report;
        std::memcpy(&report, NLMSG_DATA(m), sizeof report);
        if (report.error == 0) return {};
        return Fail(ErrorOf(m, label));
      }
      on_message(m);
    }
  }
}

const nlmsghdr* TakeMessage(std::span<const uint8_t>* datagram) {
  if (datagram->size() < sizeof(nlmsghdr)) return nullptr;
  const auto* message = reinterpret_cast<const nlmsghdr*>(datagram->data());
  if (message->nlmsg_len < sizeof(nlmsghdr) || message->nlmsg_len > datagram->size())
    return nullptr;
  *datagram = datagram->subspan(std::min(Aligned(message->nlmsg_len), datagram->size()));
  return message;
}

uint32_t Attribute::U32() const {
  uint32_t value = 0;
  if (bytes.size() >= sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

uint32_t Attribute::Be32() const {
  return ntohl(U32());
}

uint64_t Attribute::Be64() const {
  uint64_t value = 0;
  if (bytes.size() >= sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
  return be64toh(value);
}

std::string_view Attribute::Text() const {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  return {text, ::strnlen(text, bytes.size())};
}

std::vector<Attribute> Attributes(std::span<const uint8_t> nest) {
  std::vector<Attribute> attributes;
  while (nest.size() >= sizeof(nlattr)) {
    nlattr header;
    std::memcpy(&header, nest.data(), sizeof header);
    if (header.nla_len < sizeof header || header.nla_len > nest.size()) break;
    attributes.push_back(Attribute{static_cast<uint16_t>(header.nla_type & NLA_TYPE_MASK),
                                   nest.subspan(sizeof header, header.nla_len - sizeof header)});
    nest = nest.subspan(std::min(Aligned(header.nla_len), nest.size()));
  }
  return attributes;
}

std::vector<Attribute> Attributes(const nlmsghdr* message, size_t header_size) {
  const std::span whole(reinterpret_cast<const uint8_t*>(message), message->nlmsg_len);
  const size_t skip = NLMSG_HDRLEN + Aligned(header_size);
  if (whole.size() <= skip) return {};
  return Attributes(whole.subspan(skip));
}

}  // namespace atl::netpolicy
