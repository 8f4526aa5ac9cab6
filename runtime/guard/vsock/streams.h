// The streams between the guest's driver and host sockets: connections, credit, ends.
//
// Bytes of the guest go to the host socket from the guest's memory, and are held when it does not
// take them. Bytes of a host socket are read into the guest's buffers, no more than the guest has
// given credit for. When the guest gives no buffers, nothing is read.
//
// Thread rule: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/base/event_loop.h"
#include "runtime/base/guard.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/guard/vsock/held_bytes.h"
#include "runtime/guard/vsock/packet.h"
#include "runtime/guard/vsock/virtqueue.h"
#include "runtime/guard/vsock/vsock_device.h"

namespace atl::vsock {

class Streams {
 public:
  // `to_guest` and `from_guest` are the queues rx and tx of the driver, borrowed. `broken` is
  // called when the guest broke one of them; then CloseAll is the only call that makes sense.
  Streams(EventLoop& loop, uint64_t guest_cid, Virtqueue& to_guest, Virtqueue& from_guest,
          VsockDevice::Handler handler, const VsockDevice::Limits& limits,
          std::function<void(Error)> broken);
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  ~Streams() { CloseAll(); }

  void Connect(uint32_t port, UniqueFd socket);
  // Handles both queues at the end of this turn of the loop: they have started or were kicked.
  void Wake();
  // Handles at once all that the guest has put on its queue.
  Status Drain();
  // The guest's driver has begun anew and knows no stream. Connections that it has not been asked
  // for are kept.
  void Forget();
  // Ends every stream once its host socket has taken the bytes held for it, then calls `delivered`,
  // later. No new streams.
  void Finish(std::function<void()> delivered);
  // Closes everything at once. No new streams.
  void CloseAll();

 private:
  // Packets that a stream has to send.
  enum Owed : unsigned { kRequest = 1, kResponse = 2, kCredit = 4 };
  enum class State {
    kAsked,    // the host connects; the guest has not answered
    kOpen,     //
    kClosing,  // the guest was told the end of both directions; it confirms with RST
    kLeaving,  // the guest does not know the stream any more; the host socket takes the rest
  };
  struct Stream {
    uint64_t key = 0;
    State state = State::kOpen;
    UniqueFd socket;
    EventLoop::Id watch = 0;
    EventLoop::Id timer = 0;  // until the guest answers or confirms
    unsigned owed = 0;
    bool queued = false;      // ready_ has it
    bool readable = false;    // the socket may have bytes or its end
    bool host_ended = false;  // the socket's end was read
    bool host_deaf = false;   // the socket takes nothing more
    bool end_passed = false;  // the guest's end was passed on to the socket
    uint32_t guest_end = 0;   // kEnd…: said by the guest
    uint32_t told_end = 0;    // kEnd…: said to the guest
    size_t batch = 1;         // buffers to fill with one read
    // Credit, as in virtio 1.2, 5.10.6.3: counts of bytes, modulo 2^32.
    uint32_t sent = 0;        // bytes given to the guest
    uint32_t guest_room = 0;  // the guest's buf_alloc
    uint32_t guest_took = 0;  // the guest's fwd_cnt
    bool asked_credit = false;
    uint32_t took = 0;       // our fwd_cnt
    uint32_t told_took = 0;  // last fwd_cnt that the guest was told
    HeldBytes held;

    uint32_t guest_port() const { return static_cast<uint32_t>(key >> 32); }
    uint32_t host_port() const { return static_cast<uint32_t>(key); }
    uint32_t Credit() const;
    uint32_t End() const;
    bool MayRead() const;
    bool HasPacket() const;
  };
  struct Reset {
    uint64_t key;
    uint16_t type;
  };
  using Table = std::unordered_map<uint64_t, std::unique_ptr<Stream>>;

  static uint64_t Key(uint32_t guest_port, uint32_t host_port) {
    return uint64_t{guest_port} << 32 | host_port;
  }
  bool Full() const { return streams_.size() + leaving_.size() >= limits_.streams; }
  Stream* Add(uint64_t key, State state, UniqueFd socket);
  void Remove(Stream& stream);
  void Unqueue(Stream& stream);
  void Queue(Stream& stream);
  void Leave(Stream& stream);
  void ResetStream(Stream& stream);
  void OnSocket(Stream& stream, uint32_t events);
  void Deliver(Stream& stream, std::span<const iovec> parts);
  void Flush(Stream& stream);
  // Sends `parts` to the socket. Returns how many bytes it took.
  static size_t Send(Stream& stream, std::span<const iovec> parts);
  void HostIsDeaf(Stream& stream);

  void Work();
  Status TakeFromGuest(size_t limit);
  Status OnPacket(const Virtqueue::Chain& chain);
  void OnRequest(const Header& header, uint64_t key);
  void OnStreamPacket(Stream& stream, const Header& header, const Virtqueue::Chain& chain);
  void OnData(Stream& stream, const Header& header, const Virtqueue::Chain& chain);
  void OnShutdown(Stream& stream, uint32_t flags);

  // The following give the guest packets. False: the guest has no buffer left.
  Status GiveToGuest();
  Result<bool> Give(Stream& stream);
  Result<bool> GiveData(Stream& stream);
  Result<bool> GivePacket(Stream& stream, uint16_t op, uint32_t flags = 0);
  Result<bool> GiveReset(const Reset& reset);
  Result<bool> PopToGuest(Virtqueue::Chain& chain);
  Header HeaderOf(Stream& stream, uint16_t op);

  EventLoop& loop_;
  const uint64_t guest_cid_;
  Virtqueue& to_guest_;
  Virtqueue& from_guest_;
  const VsockDevice::Handler handler_;
  const VsockDevice::Limits limits_;
  const std::function<void(Error)> broken_;
  std::function<void()> delivered_;
  bool closed_ = false;
  bool scheduled_ = false;
  bool blocked_ = false;  // the guest's packets wait until it has taken resets
  uint32_t next_port_;
  Table streams_;
  // Streams in State::kLeaving, by address.
  std::unordered_map<Stream*, std::unique_ptr<Stream>> leaving_;
  std::deque<Stream*> ready_;  // streams with packets for the guest, in the order of their turns
  std::deque<Reset> resets_;
  Virtqueue::Chain taken_;               // reused
  std::vector<Virtqueue::Chain> given_;  // reused
  std::vector<iovec> parts_;             // reused
  Guard guard_;
};

}  // namespace atl::vsock
