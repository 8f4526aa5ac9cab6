// The client's end of a connection: non-blocking descriptors, waited for with poll(2), so that
// every wait can be given up. Internal to this folder.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/base_url.h"
#include "runtime/http/buffer.h"

namespace atl::http {

class ClientSocket {
 public:
  // Tries every address of the host, each for 10 s at most. `cancel_fd` as in Client::Call.
  static Result<ClientSocket> Connect(const BaseUrl& url, int cancel_fd);

  void set_cancel_fd(int fd) { cancel_fd_ = fd; }
  // Whether the peer has neither closed nor said anything that nobody asked for.
  bool IsQuiet() const;

  // Each gives up early, without an error, if the peer answers meanwhile: then *answered is set.
  Status Send(std::string_view bytes, bool* answered);
  // `size` bytes of `fd` from its start; `progress` hears of what has been sent.
  template <typename Progress>
  Status SendFile(int fd, uint64_t size, Progress progress, bool* answered);

  // Appends what arrives next; false at the end of the stream.
  Result<bool> Read(Buffer* buffer);

 private:
  explicit ClientSocket(UniqueFd fd, int cancel_fd) : fd_(std::move(fd)), cancel_fd_(cancel_fd) {}
  // Waits for one of `events` (POLLIN, POLLOUT) and returns those that came.
  Result<short> Wait(short events, int timeout_ms) const;
  Status FinishConnect();
  Result<size_t> SendSome(std::string_view bytes);
  Result<size_t> SendFileSome(int fd, uint64_t offset, uint64_t size);
  // Waits until it can send; false if there is input first.
  Result<bool> AwaitWritable(bool* answered);

  UniqueFd fd_;
  int cancel_fd_;
};

template <typename Progress>
Status ClientSocket::SendFile(int fd, uint64_t size, Progress progress, bool* answered) {
  uint64_t sent = 0;
  while (sent < size) {
    ATOLL_ASSIGN(const bool writable, AwaitWritable(answered));
    if (!writable) return {};
    ATOLL_ASSIGN(const size_t n, SendFileSome(fd, sent, size - sent));
    sent += n;
    progress(sent);
  }
  return {};
}

}  // namespace atl::http
