// A spawner connection that survives its spawner: to everyone else one SpawnerClient for the
// daemon's whole life. While no spawner answers, or the one that is there is stopped, every call
// fails with kUnavailable; the next one is looked for a few times a second (the daemon cannot start
// one: it has no privilege by then; the spawner's successor or systemd does). Stop alone waits for
// the next one, for ten seconds at most, and is asked again if a spawner ends without an answer:
// one that is being upgraded has not heard it.
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
  // Answers to a call while there is no spawner, with what to do about it: `gone` as long as the
  // next one may be on its way, `absent` when none has come within ten seconds.
  struct Texts {
    std::string gone, absent;
  };
  SpawnerLink(std::unique_ptr<launch::SpawnerClient> first, Connect connect, Texts texts)
      : client_(std::move(first)), connect_(std::move(connect)), texts_(std::move(texts)) {}
  SpawnerLink(const SpawnerLink&) = delete;
  SpawnerLink& operator=(const SpawnerLink&) = delete;
  ~SpawnerLink() override;

  // Called with every later spawner's hello, before anything else is asked of it.
  void OnReconnected(std::function<void(const wire::Greeting&)> reconnected) {
    on_reconnected_ = std::move(reconnected);
  }
  bool connected() const { return greeted_; }
  // While it is not: why.
  const std::string& why() const { return why_; }

  // `on_lost` is called once more when no spawner has come within ten seconds.
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
  // Looks for another one, and if there is none again after `again_us`.
  void Look(int64_t again_us);
  void Retry(int64_t delay_us);

  std::unique_ptr<launch::SpawnerClient> client_;
  bool greeted_ = true;  // it has said what it holds
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
  std::string why_ = "the spawner is being stopped";  // nobody can use it, when so
  std::string refused_;                               // why it is not used, as last logged
  bool stopping_ = false;
  Answered stopped_;  // of Stop, until it is answered
};

}  // namespace atl::sandbox
