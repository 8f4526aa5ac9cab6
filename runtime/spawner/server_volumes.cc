// Requests about volumes.
#include "runtime/spawner/server.h"
#include "runtime/spawner/volume_sources.h"

namespace atl::spawner {

void Server::HandleVolume(const wire::Request& request) {
  using wire::RequestType;
  const uint64_t number = request.number;
  const auto done = StatusSender(number);
  if (request.type == RequestType::kCheckVolume) {
    const auto volume = wire::DecodeVolume(request.volume);
    return done(volume ? CheckVolumeSource(host_, *volume) : Fail(volume.error()));
  }
  const std::string& name = request.id;
  if (!wire::ValidVolumeName(name)) {
    return done(Fail(Code::kInvalidArgument, "'" + name.substr(0, 64) + "' is no volume's name"));
  }
  if (request.type == RequestType::kMakeVolume) {
    return done(host_.store.MakeVolume(host_.instance, name, request.limits.disk_bytes));
  }
  if (request.type == RequestType::kRemoveVolume) {
    // Sandboxes that still have it mounted keep an ever emptier directory: the daemon does not ask
    // for that.
    Status removed = janitor_.Discard(host_.store.root(), Store::VolumeDirectory(name));
    if (removed) removed = host_.store.SyncVolumes();
    return done(removed);
  }
  volume_uses_.Count(
      name, [this, connection = connection_number_, number](const Result<wire::VolumeUse>& use) {
        if (!use) return SendStatus(connection, number, Fail(use.error()));
        wire::Reply reply;
        reply.number = number;
        reply.volume_use = *use;
        Send(connection, reply);
      });
}

}  // namespace atl::spawner
