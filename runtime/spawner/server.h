// The spawner's conversation with the daemon: one connection, requests in, replies out.
#pragma once

#include <deque>
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
  void OnConnection();
  void OnMessage();
  void OnSignal();
  void BeginTrial();
  void OnTrial(int status);
  void CloseConnection();
  void Handle(const wire::Request& request, std::vector<UniqueFd> fds);
  void HandleBuild(const wire::Request& request);
  Status KeepRules(std::vector<UniqueFd> fds);
  void HandleVolume(const wire::Request& request);
  void HandleUnpack(const wire::Request& request, std::vector<UniqueFd> fds);
  void SendHello(uint64_t connection, uint64_t number);
  // To the connection that asked: a reply to an earlier daemon's request is dropped. One that does
  // not fit into the socket now is sent later.
  void Send(uint64_t connection, const wire::Reply& reply, UniqueFd fd = {});
  void SendWaiting();
  // Reads on unless too many replies wait, and writes while some do.
  void AwaitConnection();
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
  UniqueFd rules_;  // the daemon's, or of the one before: never used, only open
  struct Outgoing {
    std::string bytes;
    UniqueFd fd;
  };
  std::deque<Outgoing> outgoing_;  // of this connection
  bool full_ = false;              // the socket was, when last written to
  uint64_t connection_number_ = 0;
  bool ending_ = false;  // kStop was asked: nothing new is begun
  std::optional<End> end_;
  std::optional<Successor> successor_;  // none where systemd starts us again
  Trial trial_;                         // of a new program
};

}  // namespace atl::spawner
