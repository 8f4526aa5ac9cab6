#include "runtime/sandbox/state/registry.h"

#include "netpolicy/address/addresses.h"
#include "runtime/base/log.h"
#include "runtime/sandbox/record/socket_path.h"

namespace atl::sandbox {
namespace {

bool IsVisible(const tenants::Caller& caller, const Sandbox& sandbox) {
  return MaySee(caller, sandbox) && sandbox.state != State::kAcquiring &&
         !IsLeaving(sandbox.state) && !sandbox.stocked;
}

}  // namespace

bool MaySee(const tenants::Caller& caller, const Sandbox& sandbox) {
  return caller.Sees(sandbox.tenant);
}

Status Registry::Open(sqlite::Db& db) {
  ATOLL_ASSIGN(gone_, GoneStore::Open(db));
  return {};
}

const Sandbox* Registry::Find(const tenants::Caller& caller, const std::string& id) const {
  const Sandbox* const sandbox = Look(id);
  return sandbox != nullptr && IsVisible(caller, *sandbox) ? sandbox : nullptr;
}

Result<Sandbox*> Registry::Get(const tenants::Caller& caller, const std::string& id) {
  Sandbox* const sandbox = Look(id);
  if (sandbox != nullptr && IsVisible(caller, *sandbox)) return sandbox;
  return Fail(Code::kNotFound, "sandbox " + id + " not found");
}

std::vector<const Sandbox*> Registry::All(const tenants::Caller& caller) const {
  std::vector<const Sandbox*> all;
  all.reserve(sandboxes_.size());
  for (const auto& [id, sandbox] : sandboxes_) {
    if (IsVisible(caller, sandbox)) all.push_back(&sandbox);
  }
  return all;
}

bool Registry::IsGone(const tenants::Caller& caller, const std::string& id) const {
  if (const Sandbox* const sandbox = Look(id)) {
    return MaySee(caller, *sandbox) && IsLeaving(sandbox->state);
  }
  const std::optional<std::string> owner = OwnerOfGone(id);
  return owner && caller.Sees(*owner);
}

std::optional<std::string> Registry::OwnerOfGone(const std::string& id) const {
  if (!gone_) return std::nullopt;
  auto owner = gone_->OwnerOf(id);
  if (owner) return *std::move(owner);
  LogLine(LogLevel::kWarning, "cannot look for a gone sandbox").Add(owner.error());
  return std::nullopt;
}

Sandbox* Registry::Look(const std::string& id) {
  const auto found = sandboxes_.find(id);
  return found == sandboxes_.end() ? nullptr : &found->second;
}

const Sandbox* Registry::Look(const std::string& id) const {
  const auto found = sandboxes_.find(id);
  return found == sandboxes_.end() ? nullptr : &found->second;
}

Sandbox* Registry::ByHost(const std::string& host_id) {
  const auto other = host_ids_.find(host_id);
  Sandbox* const sandbox = Look(other == host_ids_.end() ? host_id : other->second);
  return sandbox != nullptr && HostId(*sandbox) == host_id ? sandbox : nullptr;
}

Sandbox& Registry::Add(Sandbox sandbox) {
  Sandbox& added = sandboxes_[sandbox.id];
  added = std::move(sandbox);
  names_.Add(added);
  if (!added.host_id.empty()) host_ids_[added.host_id] = added.id;
  return added;
}

void Registry::Remove(const Sandbox& sandbox) {
  for (const auto& removed : on_remove_) removed(sandbox);
  names_.Remove(sandbox);
  host_ids_.erase(sandbox.host_id);
  sandboxes_.erase(sandboxes_.find(sandbox.id));
}

void Registry::Clear() {
  for (const auto& [id, sandbox] : sandboxes_) {
    for (const auto& removed : on_remove_) removed(sandbox);
  }
  sandboxes_.clear();
  names_.Clear();
  host_ids_.clear();
}

Sandbox Registry::Exchange(Sandbox& sandbox, Sandbox next) {
  names_.Remove(sandbox);
  host_ids_.erase(sandbox.host_id);
  Sandbox former = std::exchange(sandbox, std::move(next));
  names_.Add(sandbox);
  if (!sandbox.host_id.empty()) host_ids_[sandbox.host_id] = sandbox.id;
  return former;
}

void Registry::SetHostId(Sandbox& sandbox, const std::string& host_id) {
  host_ids_.erase(sandbox.host_id);
  sandbox.host_id = host_id;
  host_ids_[host_id] = sandbox.id;
}

void Registry::SwapMetadata(Sandbox& sandbox, std::map<std::string, std::string>* metadata) {
  names_.Remove(sandbox);
  sandbox.metadata.swap(*metadata);
  names_.Add(sandbox);
}

Status Registry::CheckName(const Sandbox& sandbox) const {
  // An ended sandbox holds no name, so it takes none from others either.
  if (!sandbox.spec.unique_name || IsOver(sandbox.state)) return {};
  const auto name = sandbox.metadata.find(kName);
  if (name == sandbox.metadata.end()) return {};
  for (const std::string& id : names_.Find(sandbox.tenant, name->second)) {
    const State state = Look(id)->state;
    if (id == sandbox.id || IsLeaving(state) || IsOver(state)) continue;
    return Fail(Code::kAlreadyExists, "the name '" + name->second + "' is taken by sandbox " + id +
                                          "; delete that one or choose another name");
  }
  return {};
}

std::string Registry::HostIdOf(const std::string& id) const {
  const Sandbox* const sandbox = Look(id);
  return sandbox == nullptr ? id : HostId(*sandbox);
}

std::string Registry::SocketPathOfHost(const std::string& host_id) const {
  return SocketPath(socket_directory_, host_id);
}

std::vector<std::string> Registry::AddressesOf(const Sandbox& sandbox) const {
  if (sandbox.slot == 0) return {};
  const auto addresses = netpolicy::AddressesOf(instance_, sandbox.slot);
  return {addresses.ipv4, addresses.ipv6};
}

}  // namespace atl::sandbox
