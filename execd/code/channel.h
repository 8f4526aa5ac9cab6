// A connection to one of a kernel's sockets. It is made as soon as the kernel listens; what was
// sent earlier goes out then. Thread rule: the loop's.
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
    // The kernel's greeting is there: messages go both ways.
    std::function<void()> on_ready;
    std::function<void(ZmtpMessage)> on_message;
    // The connection is lost or the peer does not speak ZMTP. Once, and nothing after it.
    std::function<void(const Error&)> on_broken;
  };

  // A socket that is connecting, or connected; not blocking. Errors of kernels that do not listen
  // yet are ECONNREFUSED, ENOENT and EAGAIN.
  using Connector = std::function<Result<UniqueFd>()>;

  // `type` is ours ("DEALER", "SUB"), `peer_type` the kernel's. A callback must not destroy the
  // channel.
  Channel(EventLoop* loop, Connector connect, std::string_view type, std::string_view peer_type,
          Callbacks callbacks);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  // `messages` are whole ZMTP messages. Held until the kernel is ready and takes them: the caller
  // sends one request after the other.
  void Send(std::string_view messages);
  bool ready() const { return reader_.ready(); }

  // While paused nothing is read: the kernel's side fills up.
  void Pause();
  void Resume();
  bool paused() const { return paused_; }
  // Hands over what has come until now, at most 1 MiB: the kernel has ended.
  void Drain();

 private:
  void Connect();
  void OnEvents(uint32_t events);
  // False: there is no more now, or the connection is lost.
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
  std::string out_;       // what can be sent
  std::string messages_;  // for when the kernel's READY is there
  bool connected_ = false, told_ready_ = false, paused_ = false, broken_ = false;
};

}  // namespace atl::execd
