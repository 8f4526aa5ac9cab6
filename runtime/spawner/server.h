// The spawner's conversation with the daemon: one connection, requests in, replies out.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/acceptor.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/buckets/object_mounts.h"
#include "runtime/spawner/copies/copies.h"
#include "runtime/spawner/host/disk_use.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/host/tier.h"
#include "runtime/spawner/layers/unpacks.h"
#include "runtime/spawner/memory/paused_memory.h"
#include "runtime/spawner/root/volume_work.h"
#include "runtime/spawner/sandboxes/sandboxes.h"
#include "runtime/spawner/sessions/sessions.h"
#include "runtime/spawner/slot/slots.h"
#include "runtime/spawner/store/janitor.h"
#include "runtime/spawner/successor.h"
#include "runtime/spawner/trial.h"
#include "runtime/wire/spawner.h"

namespace atl::spawner {

class Server {
 public:
  Server(Host& host, EventLoop& loop, Janitor janitor, UniqueFd records, UniqueFd ends);

  // Adopts, binds <run_dir>/spawner.sock and begins to serve.
  Status Start();
  // Serves until a Stop request has been carried out, until SIGTERM or SIGINT (sandboxes live on),
  // or until SIGHUP has asked for the upgrade and the new program has passed its trial.
  enum class End { kStopped, kTerminated, kUpgrade };
  Result<End> Run();

 private:
  void OnAccept(UniqueFd connection);
  void OnConnection();
  void OnMessage();
  void OnSignal();
  // Notifies systemd, if it expects that (sd_watchdog_enabled(3)).
  void GiveSignOfLife();
  void BeginTrial();
  void OnTrial(int status);
  void ReplaceSuccessor();
  void ReplaceJanitor();
  void CloseConnection();
  void OnObjectsLost(uint32_t slot, uint32_t index);
  // Sends a reply to the connection that asked; a reply to an earlier daemon's request is dropped.
  // A reply that finds the socket full is sent later.
  void Send(uint64_t connection, wire::Reply reply);
  void SendWaiting();
  // Watches the connection for requests unless too many replies wait, and for room while some do.
  void AwaitConnection();

  // Handlers of the messages (server_requests.cc). Each calls `answer` once, now or later.
  template <typename Message>
  using Answer = std::function<void(Result<typename Message::Reply>)>;
  void Handle(wire::Request request);
  void Do(wire::Hello, const Answer<wire::Hello>& answer);
  void Do(wire::Ping, const Answer<wire::Ping>& answer);
  void Do(wire::PrepareSlot message, Answer<wire::PrepareSlot> answer);
  void Do(wire::DropSlot message, const Answer<wire::DropSlot>& answer);
  void Do(wire::Build message, Answer<wire::Build> answer);
  void Do(wire::ChangeLimits message, const Answer<wire::ChangeLimits>& answer);
  void Do(wire::Freeze message, Answer<wire::Freeze> answer);
  void Do(wire::Reclaim message, Answer<wire::Reclaim> answer);
  void Do(wire::Destroy message, Answer<wire::Destroy> answer);
  void Do(wire::SettleEnds message, const Answer<wire::SettleEnds>& answer);
  void Do(wire::MeasureDisks message, const Answer<wire::MeasureDisks>& answer);
  void Do(wire::SplitArchive message, Answer<wire::SplitArchive> answer);
  void Do(wire::ExtractLayer message, Answer<wire::ExtractLayer> answer);
  void Do(wire::PackLayer message, Answer<wire::PackLayer> answer);
  void Do(wire::CopyUpper message, Answer<wire::CopyUpper> answer);
  void Do(wire::DiffUpper message, Answer<wire::DiffUpper> answer);
  void Do(wire::PublishLayer message, const Answer<wire::PublishLayer>& answer);
  void Do(wire::RemoveLayer message, const Answer<wire::RemoveLayer>& answer);
  void Do(wire::MakeVolume message, const Answer<wire::MakeVolume>& answer);
  void Do(wire::RemoveVolume message, const Answer<wire::RemoveVolume>& answer);
  void Do(wire::MeasureVolume message, Answer<wire::MeasureVolume> answer);
  void Do(wire::CheckLayers message, const Answer<wire::CheckLayers>& answer);
  void Do(wire::MeasureSandbox message, Answer<wire::MeasureSandbox> answer);
  void Do(wire::CheckVolume message, Answer<wire::CheckVolume> answer);
  void Do(wire::MountObjects message, Answer<wire::MountObjects> answer);
  void Do(wire::KeepRules message, const Answer<wire::KeepRules>& answer);
  void Do(wire::MakeSession message, Answer<wire::MakeSession> answer);
  void Do(wire::EndSession message, Answer<wire::EndSession> answer);
  void Do(wire::StartInterceptor message, const Answer<wire::StartInterceptor>& answer);
  void Do(wire::Stop, Answer<wire::Stop> answer);

  Host& host_;
  EventLoop& loop_;
  Janitor janitor_;
  const Tiers tiers_;
  Sandboxes sandboxes_;
  Slots slots_;
  ObjectMounts objects_;
  VolumeWork volume_work_;
  Unpacks unpacks_;
  Copies copies_;
  Sessions sessions_;
  PausedMemory paused_memory_;
  DiskUses disk_uses_;
  UniqueFd listener_;
  std::unique_ptr<Acceptor> acceptor_;
  UniqueFd signals_;
  UniqueFd connection_;
  EventLoop::Id connection_watch_ = 0;
  UniqueFd rules_;                    // held open for the present daemon or the previous one
  std::deque<wire::Reply> outgoing_;  // replies to this connection
  uint64_t connection_number_ = 0;
  bool ending_ = false;  // Stop was asked for: nothing new is begun
  std::optional<End> end_;
  std::optional<Successor> successor_;  // none where systemd restarts the spawner
  Trial trial_;                         // the trial of a new program
};

}  // namespace atl::spawner
