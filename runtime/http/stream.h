// A connected socket on the loop, TCP or Unix, plain or TLS: what a connection reads and writes,
// either way. Internal to this folder.
//
// At most one read and one write are under way; each begins with a system call at once, and waits
// only if that would block. Callbacks are never called from inside the call that they are given to.
// They get an error, which is 0, an errno, or kEndOfStream; ECANCELED if the stream was closed
// meanwhile. Whoever drops a stream with something under way, and does not close it, hears nothing.
//
// TLS is here, not beside: a relay that decrypts into a socket pair costs two copies and two
// descriptors a connection, and can tell neither a cut-off answer from a complete one nor a reset
// from an end.
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

// The peer has said that nothing more comes.
inline constexpr int kEndOfStream = -1;

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  using Done = std::function<void(int error, size_t size)>;

  // Takes over a socket that does not block. An error: epoll's limit of watches.
  static Result<std::shared_ptr<Stream>> Create(EventLoop& loop, UniqueFd socket);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  int fd() const { return socket_.get(); }
  bool is_tls() const { return tls_ != nullptr; }

  // Makes it a TLS connection, or, if it `may_be_plain`, one that is what its first byte says.
  // ENOPROTOOPT: the client speaks HTTP without TLS, and so do we from here on. Before anything is
  // read or written.
  void StartTls(std::shared_ptr<const TlsContext> context, bool may_be_plain,
                std::function<void(int error)> done);

  // The client's end instead, of a connection to `server`, which has to prove that it is that.
  // `done` also gets why it is not believed, if that is the error.
  void ConnectTls(std::shared_ptr<const TlsContext> context, const std::string& server,
                  std::function<void(int error, const char* disbelief)> done);

  // What has come, `size` at most, or waits for it.
  void Read(char* data, size_t size, Done done);
  // What has come for the read that is under way, if one is, is for the next.
  void ForgetRead() { read_done_ = nullptr; }
  // All of the parts (three at most), which stay where they are until then. `done` gets how much
  // was taken, also with an error; `progress` is called whenever some was.
  void Write(std::initializer_list<std::string_view> parts, Done done,
             std::function<void()> progress = nullptr);

  // No more is written; reading goes on.
  void ShutdownSend();
  // `properly`: the peer is told that this is an end (TLS can tell one from a cut).
  void Close(bool properly = true);

 private:
  Stream(EventLoop& loop, UniqueFd socket) : loop_(loop), socket_(std::move(socket)) {}

  void OnEvents(uint32_t events);
  // Each goes on until it is done, or has to wait. `in_call`: of the one who is to be told.
  void TryHandshake(bool in_call);
  void TryRead(bool in_call);
  void TryWrite(bool in_call);
  IoStep ReadOnce();
  IoStep WriteOnce();
  bool MustWait(const IoStep& step);
  void Tell(Done done, int error, size_t size, bool in_call);

  EventLoop& loop_;
  UniqueFd socket_;
  EventLoop::Id watch_ = 0;
  std::unique_ptr<TlsSession> tls_;  // null: none

  std::shared_ptr<const TlsContext> handshake_context_;
  Done handshake_done_;  // while it is under way, as those below

  char* read_data_ = nullptr;
  size_t read_size_ = 0;
  Done read_done_;

  std::array<std::string_view, 3> parts_;  // what is left of them
  size_t written_ = 0;
  std::string record_;  // of TLS: what was begun has to be gone on with
  std::function<void()> progress_;
  Done write_done_;
  bool shutdown_waits_ = false;
};

}  // namespace atl::http
