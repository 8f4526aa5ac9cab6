// A virtual machine from its boot to its end: QEMU, the servers of its devices, and the guest.
//
// It boots without knowing which sandbox it will be. What it takes for that is said to the guest,
// once the root of the sandbox is mounted in the directory that the guest's file servers serve.
//
// Thread rule: on the loop, in a process with one thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/guard/vm/console.h"
#include "runtime/guard/vm/guest.h"
#include "runtime/guard/vm/processes.h"
#include "runtime/guard/vsock/vsock_device.h"
#include "runtime/wire/machine.h"
#include "runtime/wire/vm.h"

namespace atl::guard {

class VirtualMachine {
 public:
  // Called from the loop. They must not destroy the machine.
  struct Events {
    std::function<void()> ready;                          // once: the guest waits for Go
    std::function<Result<UniqueFd>()> execd_control;      // execd dials
    std::function<void(const wire::vm::Synced&)> synced;  // the guest has said so
    std::function<void(int exit_code)> ended;             // the last one: execd has ended
    std::function<void(const std::string& why)> failed;   // the last one: of no use any more
  };

  // `loop` is borrowed.
  VirtualMachine(EventLoop& loop, const wire::Hardware& hardware, Events events);
  VirtualMachine(const VirtualMachine&) = delete;
  VirtualMachine& operator=(const VirtualMachine&) = delete;
  // Kills its processes and waits for their ends.
  ~VirtualMachine();

  // `tap`: borrowed, the machine's end of its network device (tap.h).
  Status Start(int tap);

  const wire::Hardware& hardware() const { return hardware_; }
  bool ready() const { return ready_; }
  // False: a part of it has ended, so it is going to fail.
  bool whole() const { return end_.empty() && !over_; }

  Status Say(const wire::vm::ToGuest& message) { return guest_.Say(message); }
  // Joins a client's socket with execd.
  void Connect(UniqueFd socket) { device_->Connect(wire::vm::kExecPort, std::move(socket)); }

  // The last words of its console, without control characters.
  std::string LastWords() { return console_.Tail(); }

 private:
  struct Part {
    std::string name;
    UniqueFd pidfd;
    EventLoop::Id watch = 0;
  };

  Status StartPart(const Process& process, std::string name);
  void Ended(pid_t pid, int status);
  Result<UniqueFd> StartFileServer(const char* tag, const char* directory, const char* cache,
                                   const UniqueFd& console);
  Result<UniqueFd> Dialled(uint32_t port);
  void Drained(const Status& how);
  void TakeExitCode(int code);
  void End(const std::function<void()>& tell);

  EventLoop& loop_;
  const wire::Hardware hardware_;
  const Events events_;
  Console console_;
  std::map<pid_t, Part> parts_;  // live processes
  Guest guest_;
  std::unique_ptr<vsock::VsockDevice> device_;
  EventLoop::Id last_bytes_ = 0;
  EventLoop::Id power_off_ = 0;
  bool ready_ = false;
  bool device_ended_ = false;
  bool over_ = false;
  std::string end_;  // the part that has ended, and how
  std::optional<int> exit_code_;
};

}  // namespace atl::guard
