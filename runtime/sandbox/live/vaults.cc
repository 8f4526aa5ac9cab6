#include "runtime/sandbox/live/vaults.h"

#include <utility>

#include "netpolicy/vault/policy_cover.h"

namespace atl::sandbox {

const vault::Vault* Vaults::Find(const std::string& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second.process->vault();
}

void Vaults::Set(const Sandbox& sandbox, vault::Vault vault, std::function<void(Status)> done) {
  const bool is_new = !entries_.contains(sandbox.id);
  if (is_new && !places_.HasRoomFor(sandbox.tenant)) {
    return done(Fail(
        Code::kResourceExhausted,
        sandbox.tenant.empty()
            ? "there are " + std::to_string(kMaxVaults) +
                  " credential vaults, the limit of this host"
            : "tenant " + sandbox.tenant + " has used its share of this host's credential vaults"));
  }
  Entry& entry = entries_[sandbox.id];
  if (is_new) {
    entry.place = places_.Take(sandbox.tenant);
    entry.process = std::make_shared<InterceptorProcess>(loop_, spawner_, authorities_, sandbox.id,
                                                         sandbox.authority);
  }
  const auto process = entry.process;
  Attach(sandbox.id, sandbox.slot);
  // The callback captures the bare pointer: the process holds the callback until its answer, and
  // must not hold itself.
  process->SetVault(std::move(vault), [this, is_new, id = sandbox.id, asked = process.get(),
                                       done = std::move(done)](const Status& status) {
    const auto found = entries_.find(id);
    if (!status && is_new && found != entries_.end() && found->second.process.get() == asked) {
      network_.SetInterceptor(found->second.slot, nullptr);
      // Deferred, because the process must not be destroyed within its own callback.
      loop_.Post([ended = std::move(found->second.process)] {});
      entries_.erase(found);
    }
    done(status);
  });
}

void Vaults::Remove(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  // Open connections hold the process and go on.
  found->second.process->Empty();
  network_.SetInterceptor(found->second.slot, nullptr);
  entries_.erase(found);
}

void Vaults::Attach(const std::string& id, uint32_t slot) {
  const auto found = entries_.find(id);
  if (found != entries_.end()) {
    found->second.slot = slot;
    found->second.process->Follow(slot);
  }
  // The former owner of the slot must not keep its interceptor there.
  network_.SetInterceptor(slot, found != entries_.end() ? found->second.process : nullptr);
}

Status Vaults::CheckPolicy(const std::string& id, const netpolicy::Egress& egress) const {
  const vault::Vault* vault = Find(id);
  return vault != nullptr ? CheckCovered(*vault, egress) : Status();
}

Status CheckCovered(const vault::Vault& vault, const netpolicy::Egress& egress) {
  // Without a rule for a host name, the network judges connections by address and reads no names,
  // so no credential could be matched.
  if (!egress.has_names() && !vault.bindings.empty()) {
    return Fail(Code::kInvalidArgument,
                "credentials are bound to host names, and the network policy has no rule for one: "
                "add {\"action\": \"allow\", \"target\": \"" +
                    vault.bindings[0].match.hosts[0] + "\"}");
  }
  return vault::CheckCovered(vault, [&egress](std::string_view name, uint16_t port) {
    return egress.JudgeName(name).Allows({netpolicy::Transport::kTcp, port});
  });
}

}  // namespace atl::sandbox
