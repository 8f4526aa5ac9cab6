// The client's end of a connection: non-blocking descriptors, waited for with poll(2), so that
// every wait can be given up. With TLS if the URL says so. Internal to this folder and the command
// line tool.
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
  // Tries every address of the host, each for 10 s at most, and the handshake of TLS as long.
  // `trust` is there if the URL is one of https. `cancel_fd` as in Client::Call.
  static Result<ClientSocket> Connect(const BaseUrl& url, const TlsContext* trust, int cancel_fd);

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

  // For whoever reads and writes at once: readable when ReadSome has something to do.
  int fd() const { return fd_.get(); }
  // As Send, but input does not stop it.
  Status SendAll(std::string_view bytes);
  // Without waiting; how much was sent, 0 if there was no room.
  Result<size_t> SendSome(std::string_view bytes);
  // Tells the peer that nothing more comes; reading goes on.
  void FinishSending();
  // As Read, but does not wait: nothing may have come. What is left within TLS makes no descriptor
  // readable, so it is all taken.
  Result<bool> ReadSome(Buffer* buffer);

 private:
  struct SslFreer {
    void operator()(ssl_st* ssl) const;
  };
  enum class Input { kData, kNone, kEnd };

  explicit ClientSocket(UniqueFd fd, int cancel_fd) : fd_(std::move(fd)), cancel_fd_(cancel_fd) {}
  Status Handshake(const BaseUrl& url, const TlsContext& trust);
  // One read, without waiting.
  Result<Input> Receive(Buffer* buffer);
  // Whether there is something to read, or an end: not TLS's own words alone.
  bool HasInput() const;
  // Waits for one of `events` (POLLIN, POLLOUT) and returns those that came.
  Result<short> Wait(short events, int timeout_ms) const;
  Status FinishConnect();
  Result<size_t> SendFileSome(int fd, uint64_t offset, uint64_t size);
  // Waits until it can send; false if there is input first.
  Result<bool> AwaitWritable(bool* answered);

  UniqueFd fd_;
  int cancel_fd_;
  std::unique_ptr<ssl_st, SslFreer> ssl_;  // null: none
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
