// One connection to a socket of a kernel. It retries until the kernel listens. Messages sent
// earlier are queued. Thread rule: the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "execd/code/zmtp.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

class Channel {
 public:
  struct Callbacks {
    // The ZMTP handshake is complete: both sides can send messages.
    std::function<void()> on_ready;
    std::function<void(ZmtpMessage)> on_message;
    // The connection is lost, or the peer does not speak ZMTP. Called once, as the last callback.
    std::function<void(const Error&)> on_broken;
  };

  // Returns a non-blocking socket that is connecting or connected. ECONNREFUSED, ENOENT and EAGAIN
  // mean that the kernel does not listen yet; the channel then tries again.
  using Connector = std::function<Result<UniqueFd>()>;

  // `type` is the socket type of this side ("DEALER", "SUB"), `peer_type` that of the kernel's
  // side. A callback must not destroy the channel.
  Channel(EventLoop* loop, Connector connect, std::string_view type, std::string_view peer_type,
          Callbacks callbacks);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  // Sends complete ZMTP messages. Queues them without limit until the kernel is ready and reads
  // them; the caller bounds the queue by sending one request after the other.
  void Send(std::string_view messages);
  bool ready() const { return reader_.ready(); }

  // Pauses reading, so that the kernel's send queue fills up.
  void Pause();
  void Resume();
  bool paused() const { return paused_; }
  // Delivers what has arrived until now, at most 1 MiB. Call when the kernel has ended.
  void Drain();

 private:
  void Connect();
  void OnEvents(uint32_t events);
  // Returns false if no more data is available now, or if the connection is lost.
  bool Read();
  void Flush();
  void Watch();
  void Close();
  void Broken(const Error& error);

  EventLoop& loop_;
  const Connector connect_;
  Callbacks callbacks_;
  ZmtpReader reader_;
  UniqueFd socket_;
  EventLoop::Id watch_ = 0, retry_ = 0;
  std::string out_;       // bytes ready to be sent
  std::string messages_;  // queued until the kernel's READY arrives
  bool connected_ = false, told_ready_ = false, paused_ = false, broken_ = false;
};

}  // namespace atl::execd
