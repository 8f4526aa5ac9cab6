#include "runtime/launch/spawner_link.h"

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"

namespace atl::sandbox {
namespace {

// An upgraded spawner answers after some 20 ms.
constexpr int64_t kFirstRetryUs = 10 * 1000;
// An attempt costs one connect(2).
constexpr int64_t kLastRetryUs = 40 * 1000;
// Adopting a thousand sandboxes takes less.
constexpr int64_t kPatienceUs = 10 * 1000 * 1000;

constexpr char kSilent[] =
    "the spawner does not answer: is it stopped? kill -CONT resumes it; after kill -KILL another "
    "one is started";

}  // namespace

SpawnerLink::~SpawnerLink() {
  if (loop_ == nullptr) return;
  loop_->Cancel(timer_);
  loop_->Cancel(patience_);
}

void SpawnerLink::Start(Loop& loop, std::function<void(const wire::SandboxRecord&)> on_exit,
                        std::function<void()> on_lost) {
  loop_ = &loop;
  on_exit_ = std::move(on_exit);
  on_lost_ = std::move(on_lost);
  StartClient();
}

void SpawnerLink::StartClient() {
  client_->OnVolumeLost([this](const wire::VolumeLost& lost) {
    if (on_volume_lost_) on_volume_lost_(lost);
  });
  client_->Start(
      *loop_, [this](const wire::SandboxRecord& record) { on_exit_(record); },
      // Posted, because Lost destroys the client, which is calling here.
      [this] { loop_->Post([this] { Lost(); }); });
}

void SpawnerLink::Lost() {
  if (!std::exchange(client_, nullptr) || (stopping_ && !stopped_)) return;
  // A stopped spawner accepts connections, but sends no Greeting.
  if (!std::exchange(greeted_, false)) return Retry(kLastRetryUs);
  absent_ = false;
  why_ = texts_.gone;
  on_lost_();
  patience_ = loop_->After(kPatienceUs, [this] {
    patience_ = 0;
    absent_ = true;
    if (why_ == texts_.gone) why_ = texts_.absent;
    on_lost_();
    const Answered stopped = std::exchange(stopped_, nullptr);
    if (stopped) stopped(wire::Failed{.code = Code::kUnavailable, .message = why_});
  });
  // Looks at once, because a stopped spawner still accepts connections, and calls that fail from
  // now on then report that.
  Look(kFirstRetryUs);
}

void SpawnerLink::Retry(int64_t delay_us) {
  timer_ = loop_->After(delay_us, [this, delay_us] {
    timer_ = 0;
    Look(std::min(delay_us * 2, kLastRetryUs));
  });
}

void SpawnerLink::Look(int64_t again_us) {
  auto client = connect_();
  // kDeadlineExceeded means that it exists but is stopped: its queue of connections is full.
  const bool there = client || client.error().code() == Code::kDeadlineExceeded;
  why_ = there ? kSilent : absent_ ? texts_.absent : texts_.gone;
  if (!client) return Retry(again_us);
  client_ = std::move(*client);
  StartClient();
  Greet();
}

void SpawnerLink::Greet() {
  client_->Ask(wire::Hello(), [this](Result<wire::Greeting> hello) {
    if (!hello) {
      if (std::exchange(refused_, hello.error().message()) != refused_) {
        LogLine(LogLevel::kError, "cannot use the spawner").Add(hello.error());
      }
      // If the connection was not lost, Lost is posted, because the client is calling here.
      if (hello.error().code() != Code::kUnavailable) loop_->Post([this] { Lost(); });
      return;
    }
    greeted_ = true;
    loop_->Cancel(std::exchange(patience_, 0));
    refused_.clear();
    LogLine(LogLevel::kInfo, "connected to a new spawner")
        .Add("sandboxes", static_cast<uint64_t>(hello->sandboxes.size()));
    if (stopping_) return AskStop();
    if (on_reconnected_) on_reconnected_(*hello);
  });
}

void SpawnerLink::AskStop() {
  client_->Send(wire::Stop(), [this](wire::Answer answer) {
    const auto* failed = std::get_if<wire::Failed>(&answer);
    // The spawner ended without an answer; the next one gets the Stop.
    if (failed != nullptr && failed->code == Code::kUnavailable) return;
    const Answered stopped = std::exchange(stopped_, nullptr);
    if (stopped) stopped(std::move(answer));
  });
}

void SpawnerLink::Send(wire::Message message, Answered answered) {
  const bool stops = std::holds_alternative<wire::Stop>(message);
  if (stopping_ || (!greeted_ && (absent_ || !stops))) {
    loop_->Post([answered = std::move(answered),
                 refused = wire::Failed{.code = Code::kUnavailable, .message = why_}] {
      answered(refused);
    });
    return;
  }
  if (!stops) return client_->Send(std::move(message), std::move(answered));
  // Requests after this one would end with the spawner.
  stopping_ = true;
  stopped_ = std::move(answered);
  if (greeted_) AskStop();
}

}  // namespace atl::sandbox
