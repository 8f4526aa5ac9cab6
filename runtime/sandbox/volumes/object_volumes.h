// Volumes that are buckets of object stores. Selects the operator's store that a request means,
// keeps the credentials of requests, and has the spawner mount buckets before a build.
//
// A request's credentials stay in memory while the sandbox exists, because a fork or a rollback
// mounts the buckets again. No record has them. After a restart of the daemon the mounts work on,
// but forks and rollbacks are refused. Credentials by reference are not kept here: the spawner
// reads the operator's file.
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
#include "runtime/tenants/caller.h"
#include "runtime/tenants/tenant.h"
#include "runtime/wire/object_store.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class ObjectVolumes {
 public:
  // `spawner` outlives this object.
  ObjectVolumes(launch::SpawnerClient& spawner, std::vector<wire::ObjectStore> stores)
      : spawner_(spawner), stores_(std::move(stores)) {}
  ObjectVolumes(const ObjectVolumes&) = delete;
  ObjectVolumes& operator=(const ObjectVolumes&) = delete;

  // Returns the volumes of a create by the caller, with the stores of its buckets. A tenant has the
  // stores that its definition names; `tenant` null: none. For the host, `tenant` is not used.
  // kPermissionDenied: the operator does not allow the endpoint. kInvalidArgument: the bucket.
  // kFailedPrecondition: the request refers to credentials that do not exist.
  Result<std::vector<wire::Volume>> Resolve(const tenants::Caller& caller,
                                            const tenants::Tenant* tenant,
                                            const std::vector<VolumeMount>& mounts) const;

  // Keep stores the credentials in a sandbox's request. Share copies them to another sandbox with
  // the same volumes.
  void Keep(const std::string& sandbox, const std::vector<VolumeMount>& mounts);
  void Share(const std::string& from, const std::string& to);
  void Forget(const std::string& sandbox) { credentials_.erase(sandbox); }
  // kFailedPrecondition: the sandbox's buckets could not be mounted again.
  Status Check(const Sandbox& sandbox) const;

  static bool Wanted(const Sandbox& sandbox);
  // Mounts all buckets of the sandbox for the build in `slot`. Calls `done` once all mounts are
  // answered, with the first error.
  void Mount(const Sandbox& sandbox, uint32_t slot, std::function<void(Status)> done);

 private:
  Result<wire::BucketName> Find(const tenants::Caller& caller, const tenants::Tenant* tenant,
                                const VolumeMount& mount) const;

  launch::SpawnerClient& spawner_;
  const std::vector<wire::ObjectStore> stores_;
  // Keyed by sandbox id and target.
  std::map<std::string, std::map<std::string, wire::ObjectCredentials>> credentials_;
};

}  // namespace atl::sandbox
