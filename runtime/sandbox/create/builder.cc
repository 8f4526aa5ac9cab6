#include "runtime/sandbox/create/builder.h"

#include <algorithm>
#include <utility>

#include "runtime/base/signal_word.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/create/slot_sockets.h"
#include "runtime/sandbox/record/environment.h"
#include "runtime/wire/plan.h"

namespace atl::sandbox {
namespace {

std::string HostnameOf(const std::string& id) {
  std::string name;
  for (char c : id) {
    if (c != '-' && name.size() < 12) name.push_back(c);
  }
  return name;
}

// A device's variable replaces the image's. Its libraries come behind the directories that are
// searched anyway.
void SetVariable(const std::string& entry, std::vector<std::string>* env) {
  const std::string name = entry.substr(0, entry.find('=') + 1);
  for (std::string& other : *env) {
    if (!other.starts_with(name)) continue;
    other = name == "LD_LIBRARY_PATH=" && other != name ? other + ":" + entry.substr(name.size())
                                                        : entry;
    return;
  }
  env->push_back(entry);
}

}  // namespace

wire::Plan PlanOf(const Sandbox& sandbox, const netpolicy::SlotAddresses& addresses) {
  wire::Plan plan;
  plan.id = HostId(sandbox);
  plan.slot = sandbox.slot;
  plan.layers = sandbox.layers;
  plan.hostname = HostnameOf(sandbox.id);
  plan.hosts =
      "127.0.0.1\tlocalhost\n"
      "::1\tlocalhost ip6-localhost ip6-loopback\n" +
      addresses.ipv4 + "\t" + plan.hostname + "\n" + addresses.ipv6 + "\t" + plan.hostname + "\n";
  plan.resolv_conf = "nameserver " + addresses.gateway_ipv4 + "\n";
  plan.limits = sandbox.spec.limits;
  plan.volumes = sandbox.spec.volumes;
  plan.readonly_root = sandbox.spec.readonly_root;
  plan.tier = TierOf(sandbox.spec);
  plan.devices = sandbox.devices;
  return plan;
}

wire::StartMessage StartMessageOf(const Sandbox& sandbox) {
  wire::StartMessage message;
  message.sandbox_id = sandbox.id;
  message.argv = sandbox.spec.entrypoint;
  message.env = EnvironmentOf(sandbox);
  for (const std::string& entry : sandbox.device_env) SetVariable(entry, &message.env);
  message.env.push_back(std::string(kIdVariable) + "=" + sandbox.id);
  message.cwd = sandbox.config.working_dir;
  message.user = sandbox.config.user;
  message.access_token = sandbox.access_token;
  message.hooks = sandbox.spec.hooks;
  // The image is untrusted, and the start message has a size limit.
  constexpr size_t kMostVolumes = 64, kLongestPath = 4095;
  for (const std::string& path : sandbox.config.volumes) {
    if (message.directories.size() == kMostVolumes) break;
    if (path.size() <= kLongestPath) message.directories.push_back(path);
  }
  message.stop_signal = static_cast<uint32_t>(SignalNumber(sandbox.config.stop_signal));
  message.authority = {sandbox.authority.certificate, sandbox.authority.link};
  return message;
}

Status Builder::Build(const Sandbox& sandbox, UniqueFd control, Done done) {
  auto channel = std::make_unique<ControlChannel>(loop_, std::move(control));
  ATOLL_TRY(channel->Send(StartMessageOf(sandbox)));
  return Ask(sandbox, std::move(channel), std::move(done));
}

Status Builder::Park(const Sandbox& sandbox, UniqueFd control, Done done) {
  return Ask(sandbox, std::make_unique<ControlChannel>(loop_, std::move(control)), std::move(done));
}

void Builder::ChangeLimits(const Sandbox& claimed, std::function<void(Status)> done) {
  spawner_.Ask(wire::ChangeLimits{HostId(claimed), claimed.spec.limits}, std::move(done));
}

Status Builder::Ask(const Sandbox& sandbox, std::unique_ptr<ControlChannel> channel, Done done) {
  ATOLL_TRY(NameSlotSocket(socket_directory_, sandbox.slot, HostId(sandbox)));
  // std::function requires copyable captures.
  auto shared = std::make_shared<std::unique_ptr<ControlChannel>>(std::move(channel));
  wire::Plan plan = PlanOf(sandbox, netpolicy::AddressesOf(instance_, sandbox.slot));
  plan.link = netpolicy::LinkName(instance_, sandbox.slot);
  spawner_.Ask(wire::Build{std::move(plan)},
               [shared, done = std::move(done)](Result<wire::Built> built) {
                 if (!built) return done(Fail(std::move(built).error()));
                 done(BuiltSandbox{*built, std::move(*shared)});
               });
  return {};
}

}  // namespace atl::sandbox
