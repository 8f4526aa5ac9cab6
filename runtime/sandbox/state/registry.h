// Every sandbox by its id, its host id and its name, and the ids of removed sandboxes.
//
// A `Sandbox&` or `Sandbox*` from here stays valid until Remove or Clear, whatever else is added or
// removed. So the parts use the address of a sandbox as the key of their own tables, and erase the
// entry in OnRemove.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/sqlite.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/names.h"
#include "runtime/sandbox/store/gone_store.h"
#include "runtime/tenants/caller.h"

namespace atl::sandbox {

// Returns true if the caller's tenant may see the sandbox, whatever its state.
bool MaySee(const tenants::Caller& caller, const Sandbox& sandbox);

class Registry {
 public:
  // `socket_directory`: see socket_path.h. `instance`: the number of the host's networks
  // (addresses.h).
  Registry(std::string socket_directory, uint32_t instance)
      : socket_directory_(std::move(socket_directory)), instance_(instance) {}
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Has `db` remember the ids of removed records. `db` outlives this object. Call before the first
  // removal.
  Status Open(sqlite::Db& db);
  // Returns the store of what is gone. Call after Open.
  GoneStore& gone() { return *gone_; }

  // Look-up for requests. Returns null unless the caller may see the sandbox and clients know it.
  // Clients do not know a sandbox while it acquires its resources, while it waits in the stock of a
  // template, and after its deletion.
  const Sandbox* Find(const tenants::Caller& caller, const std::string& id) const;
  // Like Find, for a change of the sandbox. kNotFound: Find returns null.
  Result<Sandbox*> Get(const tenants::Caller& caller, const std::string& id);
  // Returns all sandboxes that Find would return, in no order.
  std::vector<const Sandbox*> All(const tenants::Caller& caller) const;
  // Returns true if a sandbox of that id existed, is gone, and the caller might see it. Covers the
  // newest GoneStore::kKept.
  bool IsGone(const tenants::Caller& caller, const std::string& id) const;

  // Look-up for the daemon's parts, whose ids come from the registry: ignores the state. Null: the
  // sandbox is gone.
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
  // Calls the functions registered by OnRemove, then destroys the sandbox, or all of them.
  // References to it become invalid.
  void Remove(const Sandbox& sandbox);
  void Clear();
  // Registers a function that is called before a sandbox is destroyed. It erases what its part
  // keeps by the sandbox's address and does nothing else.
  void OnRemove(std::function<void(const Sandbox&)> removed) {
    on_remove_.push_back(std::move(removed));
  }
  // Replaces the sandbox by `next`, which has the same id; the address stays. Returns the former
  // value.
  Sandbox Exchange(Sandbox& sandbox, Sandbox next);
  // Sets the host id, by which the sandbox's processes are known from now on.
  void SetHostId(Sandbox& sandbox, const std::string& host_id);
  // Swaps the sandbox's labels with `metadata`.
  void SwapMetadata(Sandbox& sandbox, std::map<std::string, std::string>* metadata);
  // kAlreadyExists: the sandbox asks for a unique name, and another sandbox of its tenant has the
  // name. The sandbox need not be in the registry.
  Status CheckName(const Sandbox& sandbox) const;

  // Returns the owner of a removed sandbox; nothing for an id that is not remembered.
  std::optional<std::string> OwnerOfGone(const std::string& id) const;

  // Returns the id by which a sandbox's processes, socket and log are known; `id` itself if there
  // is no such sandbox.
  std::string HostIdOf(const std::string& id) const;
  // Returns the path of the socket at which the sandbox's execd listens.
  std::string SocketPathOf(const std::string& id) const { return SocketPathOfHost(HostIdOf(id)); }
  std::string SocketPathOfHost(const std::string& host_id) const;
  const std::string& socket_directory() const { return socket_directory_; }
  // Returns the sandbox's IPv4 and IPv6 address; empty if it has no slot.
  std::vector<std::string> AddressesOf(const Sandbox& sandbox) const;

 private:
  const std::string socket_directory_;
  const uint32_t instance_;
  Map sandboxes_;
  Names names_;                                            // names of the sandboxes in sandboxes_
  std::unordered_map<std::string, std::string> host_ids_;  // id by host id, if they differ
  std::unique_ptr<GoneStore> gone_;                        // set by Open
  std::vector<std::function<void(const Sandbox&)>> on_remove_;
};

}  // namespace atl::sandbox
