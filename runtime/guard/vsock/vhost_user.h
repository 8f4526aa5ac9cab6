// The monitor's end of a device: the vhost-user protocol, from the backend's side. It maps the
// guest's memory, sets the queues up, and hears their kicks.
//
// Offers VIRTIO_F_VERSION_1 and no more; protocol features CONFIG and REPLY_ACK. A message that is
// malformed, unknown, or belongs to something that was not offered, ends the connection.
//
// Thread rule: the loop's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/guard/vsock/guest_memory.h"
#include "runtime/guard/vsock/virtqueue.h"

namespace atl::vsock {

class VhostUser {
 public:
  // The device that the messages are about. None of the calls may destroy the VhostUser.
  class Device {
   public:
    // A queue has started or was kicked.
    virtual void OnKick() = 0;
    // The queue from the guest stops after this call.
    virtual Status OnStop() = 0;
    // The driver has begun anew.
    virtual void OnRestart() = 0;
    // Called once. Success: the monitor has closed the connection; memory is still mapped.
    virtual void OnEnd(Status why) = 0;

   protected:
    ~Device() = default;
  };

  // `config` is the device's configuration space.
  VhostUser(EventLoop& loop, std::string config, Device& device)
      : loop_(loop), config_(std::move(config)), device_(device) {}
  VhostUser(const VhostUser&) = delete;
  VhostUser& operator=(const VhostUser&) = delete;
  ~VhostUser() { Close(); }

  // `socket` is connected to the monitor, and nonblocking.
  Status Begin(UniqueFd socket);
  // Stops the queues, closes the connection and unmaps the memory.
  void Close();

  Virtqueue& to_guest() { return rings_[0].queue; }
  Virtqueue& from_guest() { return rings_[1].queue; }

 private:
  static constexpr size_t kRings = 3;  // rx, tx, and the one of events, which is not used
  struct Ring {
    Virtqueue queue;
    UniqueFd kick{};
    EventLoop::Id watch = 0;
    bool enabled = false;
  };
  struct Message {
    uint32_t request = 0, flags = 0;
    std::string_view payload;
  };

  void OnReadable();
  // Reads what there is of the next message and handles a whole one. False: there is no whole one.
  Result<bool> Next();
  Status Handle(const Message& message);
  Status HandleOne(const Message& message);
  Status Reply(const Message& message, std::string_view payload);
  Status SetFeatures(uint64_t features);
  Status SetMemory(std::string_view payload);
  Status GetConfig(const Message& message);
  Status HandleRing(const Message& message);
  // Returns the ring, and the descriptor of the message if it is said to have one.
  Result<Ring*> RingOf(std::string_view payload, UniqueFd& descriptor);
  Status SetKick(Ring& ring, UniqueFd kick);
  Status StartIfReady(Ring& ring);
  Status StopRing(Ring& ring);
  Status StopAll();

  EventLoop& loop_;
  UniqueFd socket_;
  const std::string config_;
  Device& device_;
  EventLoop::Id watch_ = 0;
  std::string received_;  // bytes of the message that is not whole yet
  std::vector<UniqueFd> descriptors_;
  uint64_t features_ = 0, protocol_ = 0;
  bool ended_ = false;
  GuestMemory memory_;
  std::array<Ring, kRings> rings_{{{Virtqueue{Virtqueue::Direction::kToGuest}},
                                   {Virtqueue{Virtqueue::Direction::kFromGuest}},
                                   {Virtqueue{Virtqueue::Direction::kToGuest}}}};
};

}  // namespace atl::vsock
