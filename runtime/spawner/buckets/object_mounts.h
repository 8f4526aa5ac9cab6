// The buckets that are mounted for sandboxes, from the daemon's wish to the end of what serves
// them.
//
// A mount is made for a slot, before the sandbox in it is built, because it takes as long as a
// stranger's store takes to answer; the build moves it in. What serves it has a group of its own,
// `m<slot>-<index>`: that name is all that is kept of it. The next spawner finds it by that, has
// the slot's sandbox keep it, or ends it. There is no second start: what was open is gone with the
// connection to the kernel, and so are the credentials of a request.
//
// Whoever uses a mount waits in the kernel until its server answers, and a process that is killed
// waits on if its request has been read. Ending the server is what lets it go: everybody who waits
// is told ECONNABORTED. So a sandbox that is to end has its servers ended first, a little later
// than its processes, so that what they have closed can still be stored.
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
  // What serves one has ended by itself.
  using Lost = std::function<void(uint32_t slot, uint32_t index)>;

  // Both outlive it.
  ObjectMounts(const Host& host, EventLoop& loop, Lost lost)
      : host_(host), loop_(loop), lost_(std::move(lost)) {}

  // At start: those of `slots` are kept, all others ended.
  Status Adopt(const SlotSet& slots);

  // For a slot in stock. `done` when the store has shown what is in the bucket, or nothing is left.
  void Mount(const wire::MountObjects& wanted, Done done);
  // For the build of a sandbox in `slot`: the mount that was made for that volume, borrowed.
  // kFailedPrecondition: there is none.
  Result<int> Find(uint32_t slot, uint32_t index, const wire::Volume& volume) const;
  // The build has taken the slot's, or will not.
  void Built(uint32_t slot);
  // The slot's sandbox has been killed: its servers end when it had some time, or Release is
  // called.
  void Dismiss(uint32_t slot);
  // Nobody is in the slot any more.
  void Release(uint32_t slot);
  // Nobody waits for those that are being made, or will build in their slots. Others are kept.
  void Abandon();
  // Ends all, and waits.
  void Finish();
  // Each of those that are lost, again.
  void TellLost() const;

 private:
  using Key = ObjectKey;
  enum class State : uint8_t { kMaking, kMade, kServing, kLost, kEnding };
  struct Entry {
    State state = State::kMaking;
    wire::Volume volume;
    UniqueFd mount;  // until a build has taken it
    UniqueFd said, log;
    UniqueFd events;  // cgroup.events of its group
    EventLoop::Id said_watch = 0, events_watch = 0, patience = 0;
    std::string text;                     // of the log
    wire::ObjectCredentials credentials;  // until it is made: an error must not show them
    Done done;
  };
  Status Begin(const wire::MountObjects& wanted, Entry* entry);
  Status Watch(Key key, Entry* entry);
  void OnSaid(Key key);
  void OnEvents(Key key);
  void Failed(Key key, Error error);
  void End(Key key);
  // False: something of it is still on its way out.
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
