#include "tests/unit/sandbox/fakes.h"

#include <fcntl.h>
#include <poll.h>

#include "runtime/wire/plan.h"

namespace atl::sandbox {
namespace {

// Answers the oldest call of a kind. Returns its request.
template <typename Calls, typename Answer>
auto AnswerFirst(Calls& calls, Answer answer) {
  auto [what, done] = std::move(calls.front());
  calls.pop_front();
  done(std::move(answer));
  return std::move(what);
}

}  // namespace

FakeLoop::FakeLoop(FakeClock& clock) : clock_(clock) {}
FakeLoop::~FakeLoop() = default;

void FakeLoop::Poll() {
  std::vector<std::pair<Id, uint32_t>> ready;
  for (const auto& [id, watch] : watches_) {
    pollfd wait{watch.fd, static_cast<short>(watch.events), 0};
    if (::poll(&wait, 1, 0) == 1) ready.emplace_back(id, static_cast<uint32_t>(wait.revents));
  }
  for (const auto& [id, events] : ready) {
    const auto found = watches_.find(id);
    if (found == watches_.end()) continue;
    const FdCallback callback = found->second.callback;
    callback(events);
  }
  Run();
}

FakeSpawner::FakeSpawner(FakeLoop& its_loop) : loop(its_loop) {}
FakeSpawner::~FakeSpawner() = default;

void FakeSpawner::Send(wire::Message message, Answered answered) {
  if (on_message) on_message(message);
  std::visit(
      [&]<typename Message>(Message& asked) {
        using Reply = typename Message::Reply;
        Do(std::move(asked), Done<Reply>([answered = std::move(answered)](Result<Reply> reply) {
             answered(wire::AnswerOf(std::move(reply)));
           }));
      },
      message);
}

void FakeSpawner::Do(wire::Build asked, Done<wire::Built> done) {
  PendingBuild build{asked.plan->id, asked.plan->slot, std::move(asked.plan), {}, std::move(done)};
  build.control = std::move(controls[build.slot]);
  builds.push_back(std::move(build));
}

std::string FakeSpawner::AnswerVolume(Status status) {
  return AnswerFirst(volume_calls, std::move(status));
}

wire::MountObjects FakeSpawner::AnswerMount(Status status) {
  return AnswerFirst(mounts, std::move(status));
}

void FakeSpawner::AnswerPrepare() {
  if (prepares.empty()) return;
  auto [slot, done] = std::move(prepares.front());
  prepares.pop_front();
  if (prepare_error) return done(Fail(*prepare_error));
  done(wire::PreparedSlot{{}, 0, UniqueFd(::fcntl(0, F_DUPFD_CLOEXEC, 3))});
}

FakeSpawner::PendingBuild FakeSpawner::AnswerBuild(Result<wire::Built> built) {
  PendingBuild build = std::move(builds.front());
  builds.pop_front();
  build.done(std::move(built));
  return build;
}

wire::ChangeLimits FakeSpawner::AnswerLimits(Status status) {
  return AnswerFirst(limits, std::move(status));
}

std::string FakeSpawner::AnswerFreeze(Status status) {
  return AnswerFirst(freezes, std::move(status));
}

std::string FakeSpawner::AnswerReclaim(Result<wire::Reclaimed> reclaimed) {
  return AnswerFirst(reclaims, std::move(reclaimed));
}

std::string FakeSpawner::AnswerDestroy(Result<wire::Destroyed> destroyed) {
  return AnswerFirst(destroys, std::move(destroyed));
}

wire::Copied FakeSpawner::Report(uint64_t bytes) {
  return {"diff_id \ncontent \nentries 3\nbytes " + std::to_string(bytes) +
              "\nskipped_devices 0\nskipped_entries 0\ndropped_xattrs 0\nreplaced_owners "
              "0\nopaque_root 0\n",
          700};
}

wire::CopyUpper FakeSpawner::AnswerCopy(Result<wire::Copied> copied) {
  return AnswerFirst(copies, std::move(copied));
}

wire::LayerId FakeSpawner::AnswerPublish(Status status) {
  return AnswerFirst(publishes, std::move(status));
}

void FakeSpawner::AnswerHello(Result<wire::Greeting> hello) {
  const auto done = std::move(hellos.front());
  hellos.pop_front();
  done(std::move(hello));
}

FakeNetwork::FakeNetwork() = default;
FakeNetwork::~FakeNetwork() = default;

FakePuller::FakePuller() = default;
FakePuller::~FakePuller() = default;

FakeImages::FakeImages() {
  image.name = "busybox:latest";
  image.digest = "sha256:00";
  image.config.env = {"PATH=/bin", "LANG=C"};
  image.config.working_dir = "/srv";
  image.config.user = "1000";
  image.config.architecture = "amd64";
  image.layers = {2, 1};
}
FakeImages::~FakeImages() = default;

}  // namespace atl::sandbox
