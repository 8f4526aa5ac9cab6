// Volumes that are buckets of object stores: which of the operator's stores a request means, the
// credentials that requests have brought, and the mounts that the spawner makes before a build.
//
// Credentials of a request are kept here, in memory, as long as the sandbox is there, because a
// fork and a rollback mount its buckets anew; they are in no record. After a restart of the daemon
// the mounts go on, and those two are refused. Of credentials by reference nothing is here: the
// spawner reads the operator's file.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/wire/object_store.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class ObjectVolumes {
 public:
  // The spawner outlives it.
  ObjectVolumes(launch::SpawnerClient& spawner, std::vector<wire::ObjectStore> stores)
      : spawner_(spawner), stores_(std::move(stores)) {}
  ObjectVolumes(const ObjectVolumes&) = delete;
  ObjectVolumes& operator=(const ObjectVolumes&) = delete;

  // What a create asks for, with its buckets' stores found. kPermissionDenied: the operator does
  // not allow the endpoint; kInvalidArgument: the bucket; kFailedPrecondition: it names credentials
  // that there are none of.
  Result<std::vector<wire::Volume>> Resolve(const std::vector<VolumeMount>& mounts) const;

  // What its request has brought; what another one of the same volumes has.
  void Keep(const std::string& sandbox, const std::vector<VolumeMount>& mounts);
  void Share(const std::string& from, const std::string& to);
  void Forget(const std::string& sandbox) { credentials_.erase(sandbox); }
  // kFailedPrecondition: it could not be mounted again.
  Status Check(const Sandbox& sandbox) const;

  static bool Wanted(const Sandbox& sandbox);
  // All of its buckets, for the build in `slot`. The first error, when all have been answered.
  void Mount(const Sandbox& sandbox, uint32_t slot, std::function<void(Status)> done);

 private:
  Result<wire::BucketName> Find(const VolumeMount& mount) const;

  launch::SpawnerClient& spawner_;
  const std::vector<wire::ObjectStore> stores_;
  // By sandbox and target.
  std::map<std::string, std::map<std::string, wire::ObjectCredentials>> credentials_;
};

}  // namespace atl::sandbox
