// The buckets mounted for sandboxes, from the daemon's request to the end of the server behind
// each.
//
// A mount is made for a slot before the sandbox in it is built, because it takes as long as a
// stranger's store takes to answer. The build moves the mount into the sandbox's root. Each server
// has a cgroup of its own, `m<slot>-<index>`, and that name is the only record of it. The next
// spawner finds the server by the name and keeps it if the slot's sandbox lives, else ends it. A
// server is never started a second time: its open files are gone with its connection to the kernel,
// and so are credentials that came with a request.
//
// A process that uses a mount waits in the kernel until the server answers. If its request has been
// read, it waits on even when it is killed. Only the end of the server releases it: everybody who
// waits then gets ECONNABORTED. So the servers of a sandbox that is to end are ended too, a little
// later than its processes, so that files that they have closed can still be stored.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/buckets/object_group.h"
#include "runtime/spawner/buckets/object_server.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/slot/slots.h"
#include "runtime/wire/request.h"

namespace atl::spawner {

class ObjectMounts {
 public:
  using Done = std::function<void(Status)>;
  // Called when a server has ended by itself.
  using Lost = std::function<void(uint32_t slot, uint32_t index)>;

  // `host` and `loop` outlive this object.
  ObjectMounts(const Host& host, EventLoop& loop, Lost lost)
      : host_(host), loop_(loop), lost_(std::move(lost)) {}

  // Call at start. Keeps the servers of `slots` and ends all others.
  Status Adopt(const SlotSet& slots);

  // Mounts a bucket for a slot in stock. Calls `done` when the store has shown what is in the
  // bucket, or, after a failure, when nothing is left of the attempt.
  void Mount(const wire::MountObjects& wanted, Done done);
  // Returns the mount that was made for that volume, borrowed, for the build of a sandbox in
  // `slot`. kFailedPrecondition: there is none.
  Result<int> Find(uint32_t slot, uint32_t index, const wire::Volume& volume) const;
  // The build has taken the slot's mounts, or has failed.
  void Built(uint32_t slot);
  // The slot's sandbox has been killed. Its servers end after some time, or when Release is called.
  void Dismiss(uint32_t slot);
  // The slot is empty: ends its servers now.
  void Release(uint32_t slot);
  // The daemon has gone: ends servers that are still starting, and those of slots that were not
  // built. Keeps all others.
  void Abandon();
  // Ends all servers, and waits for that.
  void Finish();
  // Calls `lost` again for each server that has ended by itself.
  void TellLost() const;

 private:
  using Key = ObjectKey;
  enum class State : uint8_t { kMaking, kMade, kServing, kLost, kEnding };
  struct Entry {
    State state = State::kMaking;
    wire::Volume volume;
    UniqueFd mount;  // until a build has taken it
    UniqueFd said, log;
    UniqueFd events;  // cgroup.events of its cgroup
    EventLoop::Id said_watch = 0, events_watch = 0, patience = 0;
    std::string text;                     // the log so far
    wire::ObjectCredentials credentials;  // until mounted: no error may show them
    Done done;
  };
  Status Begin(const wire::MountObjects& wanted, Entry* entry);
  Status Watch(Key key, Entry* entry);
  void OnSaid(Key key);
  void OnEvents(Key key);
  void Failed(Key key, Error error);
  void End(Key key);
  // Returns false if something of it has not ended yet.
  bool TryRemove(Key key);
  void Sweep();
  void ForEach(uint32_t slot, const std::function<void(Key, Entry&)>& each);
  void StopWatching(Entry& entry);

  const Host& host_;
  EventLoop& loop_;
  Lost lost_;
  std::map<Key, Entry> entries_;
  bool sweeping_ = false;
};

}  // namespace atl::spawner
