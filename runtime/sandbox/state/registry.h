// Every sandbox that there is, by its id, its host id and its name, and the ids of those that were.
//
// A `Sandbox&` or `Sandbox*` from here stays valid until Remove or Clear, whatever else is added or
// removed. So the parts keep what they know of a sandbox by its address, and drop it in OnRemove.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/sqlite.h"
#include "runtime/sandbox/record/caller.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/names.h"
#include "runtime/sandbox/store/gone_ids.h"

namespace atl::sandbox {

// Whether it is one of those that the caller has to do with, whatever its state.
bool MaySee(const Caller& caller, const Sandbox& sandbox);

class Registry {
 public:
  // `socket_directory`: see socket_path.h. `instance`: the host's networks (addresses.h).
  Registry(std::string socket_directory, uint32_t instance)
      : socket_directory_(std::move(socket_directory)), instance_(instance) {}
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Remembers ids of removed records in `db`, which outlives it. Before the first can be removed.
  Status Open(sqlite::Db& db);

  // For requests: a sandbox that its caller may see, and that exists for clients. It does not until
  // it has what it asks for, while it waits in the stock of a template, and once it was deleted.
  // Null: there is none.
  const Sandbox* Find(const Caller& caller, const std::string& id) const;
  // The same to be changed. kNotFound.
  Result<Sandbox*> Get(const Caller& caller, const std::string& id);
  // All of them, in no order.
  std::vector<const Sandbox*> All(const Caller& caller) const;
  // Whether there was a sandbox of that id, and is none any more. Of the newest GoneIds::kKept.
  bool IsGone(const Caller& caller, const std::string& id) const;

  // For the parts, which have the id from the registry: whatever its state. Null: it is gone.
  Sandbox* Look(const std::string& id);
  const Sandbox* Look(const std::string& id) const;
  Sandbox* ByHost(const std::string& host_id);
  using Map = std::unordered_map<std::string, Sandbox>;
  Map::iterator begin() { return sandboxes_.begin(); }
  Map::iterator end() { return sandboxes_.end(); }
  Map::const_iterator begin() const { return sandboxes_.begin(); }
  Map::const_iterator end() const { return sandboxes_.end(); }
  size_t size() const { return sandboxes_.size(); }

  Sandbox& Add(Sandbox sandbox);
  // Ends all references to it, or to all of them, behind what OnRemove has registered.
  void Remove(const Sandbox& sandbox);
  void Clear();
  // Calls `removed` before a sandbox goes: whoever keeps something by its address drops it, and
  // does nothing else.
  void OnRemove(std::function<void(const Sandbox&)> removed) {
    on_remove_.push_back(std::move(removed));
  }
  // The sandbox is `next` from now on, of the same id. Returns what it was.
  Sandbox Exchange(Sandbox& sandbox, Sandbox next);
  // From now on its processes are known by that host id.
  void SetHostId(Sandbox& sandbox, const std::string& host_id);
  // Exchanges its labels for `metadata`.
  void SwapMetadata(Sandbox& sandbox, std::map<std::string, std::string>* metadata);
  // kAlreadyExists: the sandbox, which need not be here yet, asks to be the only one of its name,
  // and is not.
  Status CheckName(const Sandbox& sandbox) const;

  // The id by which a sandbox's processes, their socket and their log are known; `id` itself if
  // there is no such sandbox.
  std::string HostIdOf(const std::string& id) const;
  // The socket at which its execd listens.
  std::string SocketPathOf(const std::string& id) const { return SocketPathOfHost(HostIdOf(id)); }
  std::string SocketPathOfHost(const std::string& host_id) const;
  const std::string& socket_directory() const { return socket_directory_; }
  // Its IPv4 and IPv6 address; empty if it has none (any more).
  std::vector<std::string> AddressesOf(const Sandbox& sandbox) const;

 private:
  const std::string socket_directory_;
  const uint32_t instance_;
  Map sandboxes_;
  Names names_;                                            // of sandboxes_
  std::unordered_map<std::string, std::string> host_ids_;  // to ids, of those that differ
  std::unique_ptr<GoneIds> gone_;                          // from Open on
  std::vector<std::function<void(const Sandbox&)>> on_remove_;
};

}  // namespace atl::sandbox
