// The client's end of a connection: nonblocking descriptors and poll(2), so that every wait can be
// cancelled. Uses TLS if the URL says so. Internal to this folder and the command line tool.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/base_url.h"
#include "runtime/http/buffer.h"
#include "runtime/http/tls.h"

struct ssl_st;

namespace atl::http {

class ClientSocket {
 public:
  // Tries every address of the host, each for 10 s at most, and allows as long for the TLS
  // handshake. `trust` must be set for https. `cancel_fd`: see Client::Call.
  static Result<ClientSocket> Connect(const BaseUrl& url, const TlsContext* trust, int cancel_fd);

  void set_cancel_fd(int fd) { cancel_fd_ = fd; }
  // Returns true if the peer has neither closed nor sent unexpected bytes.
  bool IsQuiet() const;

  // Sends bytes. Stops early, without an error, if the peer answers meanwhile; then *answered is
  // set.
  Status Send(std::string_view bytes, bool* answered);
  // Sends `size` bytes of `fd` from its start in the same way. `progress` is called with the bytes
  // sent so far.
  template <typename Progress>
  Status SendFile(int fd, uint64_t size, Progress progress, bool* answered);

  // Appends the next input. Returns false at the end of the stream.
  Result<bool> Read(Buffer* buffer);

  // The descriptor to poll by callers that read and write at the same time: readable when ReadSome
  // has something to do.
  int fd() const { return fd_.get(); }
  // Like Send, but does not stop for input.
  Status SendAll(std::string_view bytes);
  // Sends without waiting. Returns how much was sent, 0 if there was no room.
  Result<size_t> SendSome(std::string_view bytes);
  // Ends the sending direction; reading continues.
  void FinishSending();
  // Like Read, but does not wait, so nothing may have arrived. Takes everything that TLS has
  // buffered, because buffered bytes do not make the descriptor readable.
  Result<bool> ReadSome(Buffer* buffer);

 private:
  struct SslFreer {
    void operator()(ssl_st* ssl) const;
  };
  enum class Input { kData, kNone, kEnd };

  explicit ClientSocket(UniqueFd fd, int cancel_fd) : fd_(std::move(fd)), cancel_fd_(cancel_fd) {}
  Status Handshake(const BaseUrl& url, const TlsContext& trust);
  // Reads once, without waiting.
  Result<Input> Receive(Buffer* buffer);
  // Returns true if there is input or an end, not counting messages of TLS itself.
  bool HasInput() const;
  // Waits for `events` (POLLIN, POLLOUT) and returns those that occurred.
  Result<short> Wait(short events, int timeout_ms) const;
  Status FinishConnect();
  Result<size_t> SendFileSome(int fd, uint64_t offset, uint64_t size);
  // Waits until it can send. Returns false if input arrives first.
  Result<bool> AwaitWritable(bool* answered);

  UniqueFd fd_;
  int cancel_fd_;
  std::unique_ptr<ssl_st, SslFreer> ssl_;  // null: no TLS
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
