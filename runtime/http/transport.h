// A client's connection as the server reads and writes it: the socket itself, or TLS over it. A
// stream for Asio's composed operations either way, so that everything above knows one kind.
// Internal to this folder.
//
// The alternative, a relay that decrypts into a socket pair, costs two copies and two descriptors a
// connection, and can tell neither a cut-off answer from a complete one nor a reset from an end.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "runtime/http/asio.h"
#include "runtime/http/tls_session.h"

namespace atl::http {

class Transport {
 public:
  using executor_type = Executor;

  explicit Transport(Stream socket) : socket_(std::move(socket)) {}
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  executor_type get_executor() { return socket_.get_executor(); }
  int native_handle() { return socket_.native_handle(); }
  bool is_tls() const { return tls_ != nullptr; }

  // Makes it a TLS connection, or, if it `may_be_plain`, one that is what its first byte says.
  // no_protocol_option: the client speaks HTTP without TLS, and so do we from here on.
  void StartTls(std::shared_ptr<const TlsContext> context, bool may_be_plain,
                std::function<void(const ErrorCode&)> done);

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (!tls_) return socket_.async_read_some(buffers, std::forward<Handler>(handler));
    tls_->Read(*asio::buffer_sequence_begin(buffers), std::forward<Handler>(handler));
  }

  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (!tls_) return socket_.async_write_some(buffers, std::forward<Handler>(handler));
    // One record, whatever the number of buffers: head and body of a small answer are one segment.
    std::string record(std::min(asio::buffer_size(buffers), kMaxRecord), '\0');
    asio::buffer_copy(asio::buffer(record), buffers);
    tls_->Write(std::move(record), std::forward<Handler>(handler));
  }

  // No more is written; reading goes on.
  void ShutdownSend();
  // Pending operations complete with operation_aborted. `properly`: the client is told that this is
  // an end.
  void Close(bool properly);

 private:
  static constexpr size_t kMaxRecord = 16 << 10;  // RFC 8446 section 5.1

  void Handshake(std::function<void(const ErrorCode&)> done);

  Stream socket_;
  std::shared_ptr<TlsSession> tls_;  // null: none
};

}  // namespace atl::http
