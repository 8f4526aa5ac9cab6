// Handlers of the daemon's messages.
#include <linux/netlink.h>
#include <sys/socket.h>

#include <optional>
#include <type_traits>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/spawner/copies/stacks.h"
#include "runtime/spawner/host/limit_policy.h"
#include "runtime/spawner/root/volume_sources.h"
#include "runtime/spawner/sandboxes/interceptor.h"
#include "runtime/spawner/server.h"
#include "runtime/wire/plan.h"

namespace atl::spawner {
namespace {

// True for messages that begin something which an ending spawner would leave behind.
template <typename Message, typename... Beginnings>
constexpr bool kIsOneOf = (std::is_same_v<Message, Beginnings> || ...);
template <typename Message>
constexpr bool kBegins =
    kIsOneOf<Message, wire::PrepareSlot, wire::Build, wire::SplitArchive, wire::ExtractLayer,
             wire::PackLayer, wire::CopyUpper, wire::DiffUpper, wire::MakeSession, wire::Reclaim,
             wire::MountObjects, wire::StartInterceptor>;

// The verb that a message asks of a sandbox's tier.
template <typename Message>
constexpr std::optional<Verb> kVerb = std::nullopt;
template <>
constexpr std::optional<Verb> kVerb<wire::ChangeLimits> = Verb::kLimit;
template <>
constexpr std::optional<Verb> kVerb<wire::Freeze> = Verb::kFreeze;
template <>
constexpr std::optional<Verb> kVerb<wire::Reclaim> = Verb::kReclaim;
template <>
constexpr std::optional<Verb> kVerb<wire::CopyUpper> = Verb::kCopy;
template <>
constexpr std::optional<Verb> kVerb<wire::DiffUpper> = Verb::kDiff;
template <>
constexpr std::optional<Verb> kVerb<wire::MakeSession> = Verb::kSession;

}  // namespace

void Server::Handle(wire::Request request) {
  const Status form = wire::CheckForm(request.message);
  std::visit(
      [&]<typename Message>(Message& message) {
        Answer<Message> answer = [this, connection = connection_number_,
                                  number = request.number](Result<typename Message::Reply> result) {
          Send(connection, {number, wire::AnswerOf(std::move(result))});
        };
        if (!form) return answer(Fail(form.error()));
        if (ending_ && kBegins<Message>) {
          return answer(Fail(Code::kUnavailable, "the spawner is stopping"));
        }
        if constexpr (kVerb<Message>) {
          const auto tier = sandboxes_.TierOf(message.id, *kVerb<Message>);
          // The handler answers for a sandbox that does not exist, each in its own words.
          if (!tier && tier.error().code() == Code::kUnimplemented) {
            return answer(Fail(tier.error()));
          }
        }
        Do(std::move(message), std::move(answer));
      },
      request.message);
}

void Server::Do(wire::Hello, const Answer<wire::Hello>& answer) {
  // A daemon that began with us would have no spawner in a moment, and could not start one later.
  if (ending_) return answer(Fail(Code::kUnavailable, "the spawner is ending, with all sandboxes"));
  wire::Greeting greeting;
  greeting.instance = host_.instance;
  greeting.cgroup_v2 = host_.cgroups.host().v2;
  greeting.limits_available = KeptLimits(host_);
  greeting.cgroup_path = host_.cgroups.path();
  greeting.swap_bytes = host_.config.swap_bytes;
  greeting.tiers = tiers_.Available();
  for (const wire::Device& device : host_.config.devices) {
    greeting.devices.push_back({device.name, device.env});
  }
  greeting.prepared_slots = slots_.Stock();
  greeting.loose_slots = sandboxes_.EndLoose();
  greeting.frozen_slots = sandboxes_.FrozenSlots();
  auto strays = slots_.RemoveStrays();
  if (!strays) return answer(Fail(std::move(strays).error()));
  greeting.stray_slots = std::move(*strays);
  for (wire::SandboxRecord& record : sandboxes_.List()) {
    if (greeting.sandboxes.size() == wire::kSandboxesPerReply) {
      greeting.more = true;
      answer(greeting);
      greeting.more = false;
      greeting.sandboxes.clear();
    }
    greeting.sandboxes.push_back(std::move(record));
  }
  answer(std::move(greeting));
  objects_.TellLost();
}

void Server::Do(wire::Ping, const Answer<wire::Ping>& answer) {
  answer({});
}

void Server::Do(wire::PrepareSlot message, Answer<wire::PrepareSlot> answer) {
  slots_.Prepare(std::move(message), std::move(answer));
}

void Server::Do(wire::DropSlot message, const Answer<wire::DropSlot>& answer) {
  answer(slots_.Drop(message.slot));
}

void Server::Do(wire::Build message, Answer<wire::Build> answer) {
  sandboxes_.Build(*message.plan, std::move(answer));
}

void Server::Do(wire::ChangeLimits message, const Answer<wire::ChangeLimits>& answer) {
  answer(sandboxes_.Limit(message.id, message.limits));
}

void Server::Do(wire::Freeze message, Answer<wire::Freeze> answer) {
  paused_memory_.Stop(message.id);
  if (message.frozen) return sandboxes_.Freeze(message.id, true, std::move(answer));
  sandboxes_.Freeze(message.id, false,
                    [this, id = message.id, answer = std::move(answer)](Status thawed) {
                      if (thawed) paused_memory_.Fetch(id);
                      answer(std::move(thawed));
                    });
}

void Server::Do(wire::Reclaim message, Answer<wire::Reclaim> answer) {
  paused_memory_.Reclaim(message.id, std::move(answer));
}

void Server::Do(wire::Destroy message, Answer<wire::Destroy> answer) {
  paused_memory_.Stop(message.id);
  sandboxes_.Destroy(
      message.id, message.keep_reading,
      [this, id = message.id, answer = std::move(answer)](Result<wire::Destroyed> destroyed) {
        if (destroyed) paused_memory_.Forget(id);
        answer(std::move(destroyed));
      });
}

void Server::Do(wire::SettleEnds message, const Answer<wire::SettleEnds>& answer) {
  sandboxes_.SettleEnds(message.ids);
  answer(wire::Ends{message.list ? sandboxes_.OldestEnds() : std::vector<wire::SandboxEnd>()});
}

void Server::Do(wire::MeasureDisks, const Answer<wire::MeasureDisks>& answer) {
  wire::Disks disks;
  disks.counted = host_.store.HasQuota();
  if (disks.counted) {
    disks.disks = sandboxes_.Disks();
    disks.volume_bytes = host_.store.VolumeBytes();
  }
  answer(std::move(disks));
}

void Server::Do(wire::SplitArchive message, Answer<wire::SplitArchive> answer) {
  unpacks_.Start("split", std::move(message.archive), std::move(message.directory),
                 std::move(answer));
}

void Server::Do(wire::ExtractLayer message, Answer<wire::ExtractLayer> answer) {
  auto directory = host_.store.CreatePartialLayer(message.layer);
  if (!directory) return answer(Fail(std::move(directory).error()));
  unpacks_.Start(
      "layer", std::move(message.blob), std::move(*directory),
      [this, layer = message.layer, answer = std::move(answer)](Result<wire::Unpacked> unpacked) {
        if (!unpacked) {
          [[maybe_unused]] const Status gone =
              janitor_.Discard(host_.store.root(), Store::PartialLayerPath(layer));
        }
        answer(std::move(unpacked));
      });
}

void Server::Do(wire::PackLayer message, Answer<wire::PackLayer> answer) {
  auto directory = host_.store.OpenLayer(message.layer);
  if (!directory) return answer(Fail(std::move(directory).error()));
  unpacks_.Start("pack", std::move(message.file), std::move(*directory), std::move(answer));
}

void Server::Do(wire::CopyUpper message, Answer<wire::CopyUpper> answer) {
  copies_.Start(message, std::move(answer));
}

void Server::Do(wire::DiffUpper message, Answer<wire::DiffUpper> answer) {
  auto stacks = OpenStacks(host_, sandboxes_, message);
  if (!stacks) return answer(Fail(std::move(stacks).error()));
  const auto number = [](const char* key, size_t value) { return key + std::to_string(value); };
  unpacks_.Diff(
      {message.archive ? "archive" : "list", number("now=", stacks->now),
       number("was=", stacks->was), number("both=", stacks->both)},
      stacks->layers, std::move(message.out),
      [this, id = message.id, answer = std::move(answer)](Result<wire::Unpacked> told) {
        // Its files may have been deleted during the comparison.
        if (told && sandboxes_.LiveSlot(id) == 0) {
          return answer(Fail(Code::kFailedPrecondition, "sandbox " + id + " has ended meanwhile"));
        }
        answer(std::move(told));
      });
}

void Server::Do(wire::PublishLayer message, const Answer<wire::PublishLayer>& answer) {
  answer(host_.store.PublishLayer(message.layer, message.lasting));
}

void Server::Do(wire::RemoveLayer message, const Answer<wire::RemoveLayer>& answer) {
  if (sandboxes_.LayerInUse(message.layer)) {
    return answer(
        Fail(Code::kFailedPrecondition, "layer " + std::to_string(message.layer) + " is in use"));
  }
  const int store = host_.store.root();
  Status removed = janitor_.Discard(store, Store::LayerPath(message.layer));
  if (removed) removed = janitor_.Discard(store, Store::PartialLayerPath(message.layer));
  answer(std::move(removed));
}

void Server::Do(wire::MakeVolume message, const Answer<wire::MakeVolume>& answer) {
  answer(host_.store.MakeVolume(host_.instance, message.name, message.disk_bytes));
}

void Server::Do(wire::RemoveVolume message, const Answer<wire::RemoveVolume>& answer) {
  // The daemon asks only for volumes that no sandbox uses. A sandbox that had it mounted would keep
  // a directory that gets emptier.
  Status removed = janitor_.Discard(host_.store.root(), Store::VolumeDirectory(message.name));
  if (removed) removed = host_.store.SyncVolumes();
  answer(std::move(removed));
}

void Server::Do(wire::MeasureVolume message, Answer<wire::MeasureVolume> answer) {
  disk_uses_.Count(Store::VolumeDirectory(message.name), std::move(answer));
}

void Server::Do(wire::CheckLayers message, const Answer<wire::CheckLayers>& answer) {
  wire::CheckedLayers checked{.store = host_.store.id(), .missing = {}};
  for (const wire::LayerId layer : message.layers) {
    if (!host_.store.HasLayer(layer)) checked.missing.push_back(layer);
  }
  answer(std::move(checked));
}

void Server::Do(wire::MeasureSandbox message, Answer<wire::MeasureSandbox> answer) {
  const uint32_t slot = sandboxes_.LiveSlot(message.id);
  if (slot == 0) {
    return answer(Fail(Code::kFailedPrecondition, "sandbox " + message.id + " has ended"));
  }
  disk_uses_.Count(Store::UpperPath(slot), std::move(answer));
}

void Server::Do(wire::CheckVolume message, Answer<wire::CheckVolume> answer) {
  volume_work_.Start(
      "", {message.volume}, {},
      [&] {
        RootReport report;
        report.status = CheckVolumeSource(host_, message.volume);
        return report;
      },
      [answer = std::move(answer)](const RootReport& report) { answer(report.status); });
}

void Server::Do(wire::MountObjects message, Answer<wire::MountObjects> answer) {
  if (!slots_.InStock(message.slot)) {
    return answer(Fail(Code::kUnavailable, "slot " + std::to_string(message.slot) +
                                               " is not prepared: no bucket for it"));
  }
  objects_.Mount(message, std::move(answer));
}

void Server::Do(wire::KeepRules message, const Answer<wire::KeepRules>& answer) {
  // The close of another kind of descriptor might block.
  const int socket = message.nfnetlink.get();
  int domain = 0, protocol = 0;
  socklen_t size = sizeof domain;
  if (::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
      ::getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0 ||
      domain != AF_NETLINK || protocol != NETLINK_NETFILTER) {
    return answer(Fail(Code::kPermissionDenied, "rules: needs one NETLINK_NETFILTER socket"));
  }
  rules_ = std::move(message.nfnetlink);
  answer({});
}

void Server::Do(wire::MakeSession message, Answer<wire::MakeSession> answer) {
  sessions_.Make(std::move(message), std::move(answer));
}

void Server::Do(wire::EndSession message, Answer<wire::EndSession> answer) {
  sessions_.End(message.id, message.number, std::move(answer));
}

void Server::Do(wire::StartInterceptor message, const Answer<wire::StartInterceptor>& answer) {
  if (sandboxes_.LiveIn(message.slot).empty()) {
    return answer(Fail(Code::kFailedPrecondition,
                       "no sandbox lives in slot " + std::to_string(message.slot)));
  }
  auto process = StartInterceptor(host_, message.slot, message.line.get());
  if (!process) return answer(Fail(process.error()));
  answer(wire::Interceptor{std::move(*process)});
}

void Server::Do(wire::Stop, Answer<wire::Stop> answer) {
  ending_ = true;
  copies_.Abandon();
  paused_memory_.Abandon();
  sandboxes_.DestroyAll([this, answer = std::move(answer)](const Status& status) {
    paused_memory_.TurnOff([this, answer, status](const Status& off) {
      if (!off) LogLine(LogLevel::kError, "cannot turn the swap area off").Add(off.error());
      slots_.DropAll();
      objects_.Finish();
      auto strays = slots_.RemoveStrays();
      if (!strays) LogLine(LogLevel::kError, "cannot look for strays").Add(strays.error());
      answer(status);
      end_ = End::kStopped;
    });
  });
}

}  // namespace atl::spawner
