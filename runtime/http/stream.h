// A connected socket on the loop, TCP or Unix, plain or TLS, for connections in both directions.
// Internal to this folder.
//
// At most one read and one write are in flight. Each begins with a system call at once, and waits
// only if that would block. Callbacks are never called from within the call that they are passed
// to. They get an error: 0, an errno, or kEndOfStream; ECANCELED if the stream was closed
// meanwhile. If a stream is dropped without Close, pending callbacks are not called.
//
// TLS is handled here and not in a separate relay. A relay that decrypts into a socket pair would
// cost two copies and two descriptors per connection, and could not tell a cut-off answer from a
// complete one, nor a reset from an end.
//
// Thread rule: the loop's thread.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/tls_session.h"

namespace atl::http {

// The peer has ended its sending direction.
inline constexpr int kEndOfStream = -1;

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  using Done = std::function<void(int error, size_t size)>;

  // Takes ownership of a nonblocking socket. Fails only if epoll's limit of watches is reached.
  static Result<std::shared_ptr<Stream>> Create(EventLoop& loop, UniqueFd socket);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  int fd() const { return socket_.get(); }
  bool is_tls() const { return tls_ != nullptr; }

  // Starts TLS as the server, or, if `may_be_plain`, only if the client's first byte is that of
  // TLS. ENOPROTOOPT: the client speaks HTTP without TLS, and the stream stays plain. Call before
  // any read or write.
  void StartTls(std::shared_ptr<const TlsContext> context, bool may_be_plain,
                std::function<void(int error)> done);

  // Starts TLS as the client of `server`, which must prove its name. `done` also gets the reason if
  // the certificate is not accepted.
  void ConnectTls(std::shared_ptr<const TlsContext> context, const std::string& server,
                  std::function<void(int error, const char* verify_error)> done);

  // Reads what has arrived, at most `size` bytes, or waits for it.
  void Read(char* data, size_t size, Done done);
  // Cancels the pending read. Bytes that have already arrived are kept for the next Read.
  void ForgetRead() { read_done_ = nullptr; }
  // Writes all of the parts (at most three), which must stay valid until `done`. `done` gets how
  // much was written, also with an error. `progress` is called whenever some was.
  void Write(std::initializer_list<std::string_view> parts, Done done,
             std::function<void()> progress = nullptr);

  // Ends the sending direction; reading continues.
  void ShutdownSend();
  // `properly`: tells the peer that this is an end (with TLS, close_notify).
  void Close(bool properly = true);

 private:
  Stream(EventLoop& loop, UniqueFd socket) : loop_(loop), socket_(std::move(socket)) {}

  void OnEvents(uint32_t events);
  // Each continues until it is done or has to wait. `in_call`: whether it runs within the call of
  // its user, who must then be called back later.
  void TryHandshake(bool in_call);
  void TryRead(bool in_call);
  void TryWrite(bool in_call);
  IoStep ReadOnce();
  IoStep WriteOnce();
  bool MustWait(const IoStep& step);
  void Complete(Done done, int error, size_t size, bool in_call);

  EventLoop& loop_;
  UniqueFd socket_;
  EventLoop::Id watch_ = 0;
  std::unique_ptr<TlsSession> tls_;  // null: no TLS

  std::shared_ptr<const TlsContext> handshake_context_;
  Done handshake_done_;  // set while in flight, like the callbacks below

  char* read_data_ = nullptr;
  size_t read_size_ = 0;
  Done read_done_;

  std::array<std::string_view, 3> parts_;  // the unwritten rest of the parts
  size_t written_ = 0;
  std::string record_;  // a TLS record that was begun must be continued with the same bytes
  std::function<void()> progress_;
  Done write_done_;
  bool shutdown_waits_ = false;
};

}  // namespace atl::http
