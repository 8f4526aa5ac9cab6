#include "runtime/sandbox/volumes/object_volumes.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/launch/spawner_client.h"

namespace atl::sandbox {
namespace {

bool IsBucket(const wire::Volume& volume) {
  return volume.kind == wire::Volume::Kind::kObjects;
}

bool MayMount(const tenants::Caller& caller, const tenants::Tenant* tenant,
              const std::string& store) {
  if (caller.tenant.empty()) return true;
  return tenant != nullptr && std::find(tenant->object_stores.begin(), tenant->object_stores.end(),
                                        store) != tenant->object_stores.end();
}

Error Bad(Code code, const VolumeMount& mount, const std::string& why) {
  return Error(code, "volume at '" + mount.volume.target.substr(0, 128) + "': " + why);
}

}  // namespace

Result<wire::BucketName> ObjectVolumes::Find(const tenants::Caller& caller,
                                             const tenants::Tenant* tenant,
                                             const VolumeMount& mount) const {
  const std::string& bucket = mount.volume.source;
  const std::string endpoint = "'" + mount.bucket.endpoint.substr(0, 128) + "'";
  const bool by_reference = !mount.volume.own_credentials;
  bool endpoint_known = false, bucket_allowed = false;
  for (const wire::ObjectStore& store : stores_) {
    if (!MayMount(caller, tenant, store.name)) continue;
    if (!wire::IsAt(store, mount.bucket.endpoint)) continue;
    endpoint_known = true;
    if (!wire::AllowsBucket(store, bucket)) continue;
    bucket_allowed = true;
    const std::string& asked = mount.bucket.credentials_of;
    if (by_reference && (store.credentials.empty() || (!asked.empty() && asked != store.name))) {
      continue;
    }
    return wire::BucketName{store.name, bucket};
  }
  if (!endpoint_known) {
    return Fail(Bad(Code::kPermissionDenied, mount,
                    "the endpoint " + endpoint +
                        " is not allowed by the operator; a line of object_stores in [storage] "
                        "allows one: NAME https://ENDPOINT bucket=NAME"));
  }
  if (!bucket_allowed) {
    return Fail(Bad(Code::kInvalidArgument, mount,
                    "the bucket '" + bucket.substr(0, 128) + "' of " + endpoint +
                        " is not allowed by the operator; bucket=NAME in its line of object_stores "
                        "in [storage] allows one"));
  }
  return Fail(Bad(Code::kFailedPrecondition, mount,
                  "the operator has set no credentials for " + endpoint +
                      " (credentials=/FILE of its line in object_stores of [storage]): send "
                      "accessKeyId and accessKeySecret"));
}

Result<std::vector<wire::Volume>> ObjectVolumes::Resolve(
    const tenants::Caller& caller, const tenants::Tenant* tenant,
    const std::vector<VolumeMount>& mounts) const {
  std::vector<wire::Volume> volumes;
  for (const VolumeMount& mount : mounts) {
    wire::Volume& volume = volumes.emplace_back(mount.volume);
    if (!IsBucket(volume)) continue;
    ATOLL_ASSIGN(const wire::BucketName name, Find(caller, tenant, mount));
    volume.source = wire::SourceOf(name);
  }
  return volumes;
}

void ObjectVolumes::Keep(const std::string& sandbox, const std::vector<VolumeMount>& mounts) {
  for (const VolumeMount& mount : mounts) {
    if (!mount.volume.own_credentials) continue;
    credentials_[sandbox][mount.volume.target] = mount.bucket.credentials;
  }
}

void ObjectVolumes::Share(const std::string& from, const std::string& to) {
  const auto found = credentials_.find(from);
  if (found == credentials_.end()) return;
  const auto kept = found->second;
  credentials_[to] = kept;
}

Status ObjectVolumes::Check(const Sandbox& sandbox) const {
  const auto found = credentials_.find(sandbox.id);
  for (const wire::Volume& volume : sandbox.spec.volumes) {
    if (!volume.own_credentials) continue;
    if (found != credentials_.end() && found->second.contains(volume.target)) continue;
    return Fail(Code::kFailedPrecondition,
                "the bucket at " + volume.target.substr(0, 128) +
                    " cannot be mounted again: its credentials were the request's, and are gone "
                    "with the daemon of that time; credentials by reference are not");
  }
  return {};
}

bool ObjectVolumes::Wanted(const Sandbox& sandbox) {
  const auto& volumes = sandbox.spec.volumes;
  return std::any_of(volumes.begin(), volumes.end(), IsBucket);
}

void ObjectVolumes::Mount(const Sandbox& sandbox, uint32_t slot, std::function<void(Status)> done) {
  struct Round {
    size_t waiting = 1;  // includes this function, until it has asked for all buckets
    Status status;
    std::function<void(Status)> done;
  };
  auto round = std::make_shared<Round>();
  round->done = std::move(done);
  const auto answered = [round](Status mounted) {
    if (round->status) round->status = std::move(mounted);
    if (--round->waiting == 0) round->done(std::move(round->status));
  };
  if (Status known = Check(sandbox); !known) return answered(std::move(known));
  const std::vector<wire::Volume>& volumes = sandbox.spec.volumes;
  for (uint32_t i = 0; i < volumes.size(); ++i) {
    if (!IsBucket(volumes[i])) continue;
    wire::MountObjects message{.slot = slot, .index = i, .volume = volumes[i], .credentials = {}};
    if (volumes[i].own_credentials) {
      message.credentials = credentials_.at(sandbox.id).at(volumes[i].target);
    }
    ++round->waiting;
    spawner_.Ask(std::move(message), answered);
  }
  answered({});
}

}  // namespace atl::sandbox
