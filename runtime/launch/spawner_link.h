// A connection to the spawner that survives its spawner: the rest of the daemon uses this one
// SpawnerClient for its whole life. While there is no spawner, or it is stopped, every call fails
// with kUnavailable. The next spawner is looked for several times a second. The daemon cannot start
// one, because it has no privilege; the spawner's successor or systemd does.
//
// Stop is special: it waits for the next spawner, at most ten seconds, and is sent again if a
// spawner ends without an answer, because one that is being upgraded has not read it.
//
// Thread rule: on the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/launch/spawner_client.h"

namespace atl::sandbox {

class SpawnerLink final : public launch::SpawnerClient {
 public:
  using Connect = std::function<Result<std::unique_ptr<launch::SpawnerClient>>()>;
  // Error texts for calls while there is no spawner: `gone` while the next one may still come,
  // which clients are to try again for; `absent` after none has come within ten seconds, with what
  // to do.
  struct Texts {
    std::string gone, absent;
  };
  SpawnerLink(std::unique_ptr<launch::SpawnerClient> first, Connect connect, Texts texts)
      : client_(std::move(first)), connect_(std::move(connect)), texts_(std::move(texts)) {}
  SpawnerLink(const SpawnerLink&) = delete;
  SpawnerLink& operator=(const SpawnerLink&) = delete;
  ~SpawnerLink() override;

  // Sets the callback for the Greeting of every later spawner, before anything else is sent to it.
  void OnReconnected(std::function<void(const wire::Greeting&)> reconnected) {
    on_reconnected_ = std::move(reconnected);
  }
  bool connected() const { return greeted_; }
  // Says why it is not connected.
  const std::string& why() const { return why_; }

  // `on_lost` is called once more if no spawner has come within ten seconds.
  void Start(Loop& loop, std::function<void(const wire::SandboxRecord&)> on_exit,
             std::function<void()> on_lost) override;
  void OnVolumeLost(std::function<void(const wire::VolumeLost&)> on_volume_lost) override {
    on_volume_lost_ = std::move(on_volume_lost);
  }
  void Send(wire::Message message, Answered answered) override;

 private:
  void StartClient();
  void Greet();
  void Lost();
  void AskStop();
  // Looks for a spawner, and again after `again_us` if there is none.
  void Look(int64_t again_us);
  void Retry(int64_t delay_us);

  std::unique_ptr<launch::SpawnerClient> client_;
  bool greeted_ = true;  // the spawner has sent its Greeting
  Connect connect_;
  const Texts texts_;
  bool absent_ = false;
  Loop* loop_ = nullptr;
  std::function<void(const wire::SandboxRecord&)> on_exit_;
  std::function<void()> on_lost_;
  std::function<void(const wire::VolumeLost&)> on_volume_lost_;
  std::function<void(const wire::Greeting&)> on_reconnected_;
  Loop::Id timer_ = 0;
  Loop::Id patience_ = 0;
  std::string why_ = "the spawner is being stopped";  // the error while no call is possible
  std::string refused_;                               // the reason that was logged last
  bool stopping_ = false;
  Answered stopped_;  // the callback of Stop, until it is answered
};

}  // namespace atl::sandbox
