#include "runtime/guard/vsock/vsock_device.h"

#include <fcntl.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/base/acceptor.h"
#include "runtime/base/guard.h"
#include "runtime/guard/vsock/streams.h"
#include "runtime/guard/vsock/vhost_user.h"

namespace atl::vsock {
namespace {

constexpr uint64_t kFirstGuestCid = 3, kLastGuestCid = 0xfffffffe;

class Device final : public VsockDevice, private VhostUser::Device {
 public:
  Device(EventLoop& loop, UniqueFd listener, uint64_t guest_cid, Handler handler, Ended ended,
         const Limits& limits)
      : loop_(loop),
        listener_(std::move(listener)),
        ended_(std::move(ended)),
        limits_(limits),
        monitor_(loop, std::string(reinterpret_cast<const char*>(&guest_cid), sizeof guest_cid),
                 *this),
        streams_(loop, guest_cid, monitor_.to_guest(), monitor_.from_guest(), std::move(handler),
                 limits, [this](Error why) { Stop(Fail(std::move(why))); }) {}
  ~Device() override { loop_.Cancel(timer_); }

  Status Begin() {
    ATOLL_ASSIGN(acceptor_, Acceptor::Start(loop_, listener_.get(), {.name = "vsock", .at_once = 1},
                                            [this](Acceptor::Connection& connection) {
                                              OnMonitor(std::move(connection.socket));
                                            }));
    return {};
  }

  void Connect(uint32_t port, UniqueFd socket) override {
    streams_.Connect(port, std::move(socket));
  }

 private:
  void OnMonitor(UniqueFd socket) {
    acceptor_.reset();
    listener_.reset();
    if (Status begun = monitor_.Begin(std::move(socket)); !begun) Stop(std::move(begun));
  }

  void OnKick() override { streams_.Wake(); }
  Status OnStop() override { return streams_.Drain(); }
  void OnRestart() override { streams_.Forget(); }

  void OnEnd(Status why) override {
    if (why) why = streams_.Drain();
    if (!why) return Stop(std::move(why));
    monitor_.Close();
    timer_ = loop_.After(limits_.close_us, [this] { Stop({}); });
    streams_.Finish([this] { Stop({}); });
  }

  void Stop(Status why) {
    monitor_.Close();
    streams_.CloseAll();
    loop_.Cancel(std::exchange(timer_, 0));
    if (!ended_) return;
    loop_.Post(
        guard_([ended = std::exchange(ended_, nullptr), why = std::move(why)] { ended(why); }));
  }

  EventLoop& loop_;
  UniqueFd listener_;
  Ended ended_;
  const Limits limits_;
  EventLoop::Id timer_ = 0;  // until host sockets have taken the rest
  std::unique_ptr<Acceptor> acceptor_;
  VhostUser monitor_;
  Streams streams_;
  Guard guard_;
};

}  // namespace

Result<std::unique_ptr<VsockDevice>> VsockDevice::Start(EventLoop& loop, UniqueFd listener,
                                                        uint64_t guest_cid, Handler handler,
                                                        Ended ended, const Limits& limits) {
  if (guest_cid < kFirstGuestCid || guest_cid > kLastGuestCid) {
    return Fail(Code::kInvalidArgument, "virtio socket: not a guest's CID");
  }
  const int flags = ::fcntl(listener.get(), F_GETFL);
  if (flags < 0 || ::fcntl(listener.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return FailSys("fcntl listener");
  }
  auto device = std::make_unique<Device>(loop, std::move(listener), guest_cid, std::move(handler),
                                         std::move(ended), limits);
  ATOLL_TRY(device->Begin());
  return device;
}

}  // namespace atl::vsock
