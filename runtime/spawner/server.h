// The spawner's conversation with the daemon: one connection, requests in, replies out.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host.h"
#include "runtime/spawner/janitor.h"
#include "runtime/spawner/poller.h"
#include "runtime/spawner/sandboxes.h"
#include "runtime/spawner/slots.h"
#include "runtime/spawner/successor.h"
#include "runtime/spawner/trial.h"
#include "runtime/spawner/unpacks.h"
#include "runtime/spawner/volume_use.h"
#include "runtime/wire/spawner.h"

namespace atl::spawner {

class Server {
 public:
  Server(Host& host, Poller& poller, Janitor janitor, UniqueFd records);

  // Adopts, binds <run_dir>/spawner.sock and begins to serve.
  Status Start();
  // Serves until a kStop request has been carried out, until SIGTERM or SIGINT (sandboxes live on),
  // or until SIGHUP has asked for the upgrade and the new program has passed its trial.
  enum class End { kStopped, kTerminated, kUpgrade };
  Result<End> Run();

 private:
  void OnAccept();
  void OnMessage();
  void OnSignal();
  void BeginTrial();
  void OnTrial(int status);
  void CloseConnection();
  void Handle(const wire::Request& request, std::vector<UniqueFd> fds);
  void HandleBuild(const wire::Request& request);
  void HandleVolume(const wire::Request& request);
  void HandleUnpack(const wire::Request& request, std::vector<UniqueFd> fds);
  wire::Reply Hello() const;
  // To the connection that asked: a reply to an earlier daemon's request is dropped.
  void Send(uint64_t connection, const wire::Reply& reply, int fd = -1);
  void SendStatus(uint64_t connection, uint64_t number, const Status& status);
  std::function<void(Status)> StatusSender(uint64_t number);

  Host& host_;
  Poller& poller_;
  Janitor janitor_;
  Sandboxes sandboxes_;
  Slots slots_;
  Unpacks unpacks_;
  VolumeUses volume_uses_;
  UniqueFd listener_;
  UniqueFd signals_;
  UniqueFd connection_;
  uint64_t connection_number_ = 0;
  bool ending_ = false;  // kStop was asked: nothing new is begun
  std::optional<End> end_;
  std::optional<Successor> successor_;  // none where systemd starts us again
  Trial trial_;                         // of a new program
};

}  // namespace atl::spawner
