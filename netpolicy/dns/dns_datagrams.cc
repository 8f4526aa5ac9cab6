#include "netpolicy/dns/dns_datagrams.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace atl::netpolicy {

DnsDatagrams::DnsDatagrams() : slots_(kBatch) {
  outgoing_.reserve(kBatch);
}

void DnsDatagrams::Receive(int fd, const OnMessage& on_message) {
  std::array<mmsghdr, kBatch> headers{};
  std::array<iovec, kBatch> vectors;
  for (size_t i = 0; i < kBatch; ++i) {
    vectors[i] = {slots_[i].bytes.data(), slots_[i].bytes.size()};
    headers[i].msg_hdr.msg_iov = &vectors[i];
    headers[i].msg_hdr.msg_iovlen = 1;
    headers[i].msg_hdr.msg_name = &slots_[i].from.address;
    headers[i].msg_hdr.msg_namelen = sizeof slots_[i].from.address;
  }
  // MSG_DONTWAIT calls do not wait, so EINTR cannot happen here or in sendmmsg.
  const int count = ::recvmmsg(fd, headers.data(), kBatch, MSG_DONTWAIT, nullptr);
  receiving_ = true;
  for (size_t i = 0; count > 0 && i < static_cast<size_t>(count); ++i) {
    slots_[i].from.size = headers[i].msg_hdr.msg_namelen;
    on_message(std::span(slots_[i].bytes).first(headers[i].msg_len), slots_[i].from);
  }
  receiving_ = false;
  Flush(fd);
}

void DnsDatagrams::Send(int fd, std::vector<uint8_t> message, const Endpoint& to) {
  if (receiving_) {
    outgoing_.push_back({std::move(message), to});
  } else {
    (void)::sendto(fd, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL, to.get(),
                   to.size);
  }
}

void DnsDatagrams::Flush(int fd) {
  std::array<mmsghdr, kBatch> headers{};
  std::array<iovec, kBatch> vectors;
  for (size_t begin = 0; begin < outgoing_.size();) {
    const size_t count = std::min(kBatch, outgoing_.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      Outgoing& out = outgoing_[begin + i];
      vectors[i] = {out.bytes.data(), out.bytes.size()};
      headers[i].msg_hdr = {};
      headers[i].msg_hdr.msg_iov = &vectors[i];
      headers[i].msg_hdr.msg_iovlen = 1;
      headers[i].msg_hdr.msg_name = &out.to.address;
      headers[i].msg_hdr.msg_namelen = out.to.size;
    }
    const int sent =
        ::sendmmsg(fd, headers.data(), static_cast<unsigned>(count), MSG_DONTWAIT | MSG_NOSIGNAL);
    // Nothing was sent because the first message failed: only that one is dropped.
    begin += sent > 0 ? static_cast<size_t>(sent) : 1;
  }
  outgoing_.clear();
}

}  // namespace atl::netpolicy
