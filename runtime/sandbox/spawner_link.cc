#include "runtime/sandbox/spawner_link.h"

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"

namespace atl::sandbox {
namespace {

// An upgraded spawner answers after some 20 ms.
constexpr int64_t kFirstRetryUs = 10 * 1000;
// A look is one connect(2).
constexpr int64_t kRetryUs = 40 * 1000;

constexpr char kSilent[] =
    "the spawner does not answer: is it stopped? kill -CONT lets it go on; killed, it is started "
    "again";

}  // namespace

SpawnerLink::~SpawnerLink() {
  if (loop_ != nullptr) loop_->Cancel(timer_);
}

void SpawnerLink::Start(Loop& loop, std::function<void(const wire::SandboxRecord&)> on_exit,
                        std::function<void()> on_lost) {
  loop_ = &loop;
  on_exit_ = std::move(on_exit);
  on_lost_ = std::move(on_lost);
  StartClient();
}

void SpawnerLink::StartClient() {
  client_->Start(
      *loop_, [this](const wire::SandboxRecord& record) { on_exit_(record); },
      // From the loop: the client is destroyed, which it must not be while it calls.
      [this] { loop_->Post([this] { Lost(); }); });
}

void SpawnerLink::Lost() {
  if (!std::exchange(client_, nullptr) || stopping_) return;
  // One that is stopped accepts, but does not greet.
  if (!std::exchange(greeted_, false)) return Retry(kRetryUs);
  why_ = gone_;
  on_lost_();
  // At once: one that is stopped takes connections, and whoever is refused from now on hears that.
  Look(kFirstRetryUs);
}

void SpawnerLink::Retry(int64_t delay_us) {
  timer_ = loop_->After(delay_us, [this, delay_us] {
    timer_ = 0;
    Look(std::min(delay_us * 2, kRetryUs));
  });
}

void SpawnerLink::Look(int64_t again_us) {
  auto client = connect_();
  // A stopped one accepts nobody: its queue is full in the end.
  const bool there = client || client.error().code() == Code::kDeadlineExceeded;
  why_ = there ? kSilent : gone_;
  if (!client) return Retry(again_us);
  client_ = std::move(*client);
  StartClient();
  Greet();
}

void SpawnerLink::Greet() {
  client_->Hello([this](Result<wire::Reply> hello) {
    if (!hello) {
      if (std::exchange(refused_, hello.error().message()) != refused_) {
        LogLine(LogLevel::kError, "the spawner cannot be used").Add(hello.error());
      }
      // If it was not lost: from the loop, as it is calling us.
      if (hello.error().code() != Code::kUnavailable) loop_->Post([this] { Lost(); });
      return;
    }
    greeted_ = true;
    refused_.clear();
    LogLine(LogLevel::kInfo, "connected to a new spawner")
        .Add("sandboxes", static_cast<uint64_t>(hello->sandboxes.size()));
    if (on_reconnected_) on_reconnected_(*hello);
  });
}

void SpawnerLink::Hello(Done<wire::Reply> done) {
  if (!usable()) return Refuse(std::move(done));
  client_->Hello(std::move(done));
}

template <typename Callback>
void SpawnerLink::Refuse(Callback done) {
  loop_->Post(
      [done = std::move(done), error = Error(Code::kUnavailable, why_)] { done(Fail(error)); });
}

void SpawnerLink::PrepareSlot(uint32_t slot, const cgroup::Limits& limits, int control,
                              int listener, Done<launch::PreparedSlot> done) {
  if (!usable()) return Refuse(std::move(done));
  client_->PrepareSlot(slot, limits, control, listener, std::move(done));
}

void SpawnerLink::DropSlot(uint32_t slot, Finished done) {
  if (!usable()) return Refuse(std::move(done));
  client_->DropSlot(slot, std::move(done));
}

void SpawnerLink::Build(const wire::Plan& plan, Done<launch::Built> done) {
  if (!usable()) return Refuse(std::move(done));
  client_->Build(plan, std::move(done));
}

void SpawnerLink::Freeze(const std::string& id, bool frozen, Finished done) {
  if (!usable()) return Refuse(std::move(done));
  client_->Freeze(id, frozen, std::move(done));
}

void SpawnerLink::Destroy(const std::string& id, Finished done) {
  if (!usable()) return Refuse(std::move(done));
  client_->Destroy(id, std::move(done));
}

void SpawnerLink::SplitArchive(int archive, int directory, Done<std::string> done) {
  if (!usable()) return Refuse(std::move(done));
  client_->SplitArchive(archive, directory, std::move(done));
}

void SpawnerLink::ExtractLayer(int blob, wire::LayerId layer, Done<std::string> done) {
  if (!usable()) return Refuse(std::move(done));
  client_->ExtractLayer(blob, layer, std::move(done));
}

void SpawnerLink::PublishLayer(wire::LayerId layer, Finished done) {
  if (!usable()) return Refuse(std::move(done));
  client_->PublishLayer(layer, std::move(done));
}

void SpawnerLink::RemoveLayer(wire::LayerId layer, Finished done) {
  if (!usable()) return Refuse(std::move(done));
  client_->RemoveLayer(layer, std::move(done));
}

void SpawnerLink::ListLayers(Done<std::vector<wire::LayerId>> done) {
  if (!usable()) return Refuse(std::move(done));
  client_->ListLayers(std::move(done));
}

void SpawnerLink::MakeVolume(const std::string& name, uint64_t disk_bytes, Finished done) {
  if (!usable()) return Refuse(std::move(done));
  client_->MakeVolume(name, disk_bytes, std::move(done));
}

void SpawnerLink::RemoveVolume(const std::string& name, Finished done) {
  if (!usable()) return Refuse(std::move(done));
  client_->RemoveVolume(name, std::move(done));
}

void SpawnerLink::VolumeUse(const std::string& name, Done<wire::VolumeUse> done) {
  if (!usable()) return Refuse(std::move(done));
  client_->VolumeUse(name, std::move(done));
}

void SpawnerLink::CheckVolume(const wire::Volume& volume, Finished done) {
  if (!usable()) return Refuse(std::move(done));
  client_->CheckVolume(volume, std::move(done));
}

void SpawnerLink::KeepRules(int nfnetlink, Finished done) {
  if (!usable()) return Refuse(std::move(done));
  client_->KeepRules(nfnetlink, std::move(done));
}

void SpawnerLink::Stop(Finished done) {
  if (!usable()) return Refuse(std::move(done));
  stopping_ = true;  // what came behind it would end with the spawner
  client_->Stop(std::move(done));
}

}  // namespace atl::sandbox
