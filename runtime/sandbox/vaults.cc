#include "runtime/sandbox/vaults.h"

#include <utility>

#include "intercept/vault/policy_cover.h"

namespace atl::sandbox {

const vault::Vault* Vaults::Find(const std::string& id) const {
  const auto found = processes_.find(id);
  return found == processes_.end() ? nullptr : &found->second->vault();
}

void Vaults::Set(const Sandbox& sandbox, vault::Vault vault, std::function<void(Status)> done) {
  std::shared_ptr<InterceptorProcess> process;
  const auto found = processes_.find(sandbox.id);
  const bool is_new = found == processes_.end();
  if (is_new && processes_.size() >= kMaxVaults) {
    return done(Fail(Code::kResourceExhausted, "there are " + std::to_string(kMaxVaults) +
                                                   " credential vaults, as many as there may be"));
  }
  if (is_new) {
    process = std::make_shared<InterceptorProcess>(loop_, program_, sandbox.id, sandbox.authority);
    processes_.emplace(sandbox.id, process);
  } else {
    process = found->second;
  }
  network_.SetInterceptor(sandbox.slot, process);
  process->SetVault(std::move(vault), [this, is_new, id = sandbox.id, slot = sandbox.slot, process,
                                       done = std::move(done)](const Status& status) {
    // Not from within its own callback, which may be under way.
    if (!status && is_new) {
      const auto entry = processes_.find(id);
      if (entry != processes_.end() && entry->second == process) {
        processes_.erase(entry);
        network_.SetInterceptor(slot, nullptr);
      }
      loop_.Post([process] {});
    }
    done(status);
  });
}

void Vaults::Remove(const Sandbox& sandbox) {
  const auto found = processes_.find(sandbox.id);
  if (found == processes_.end()) return;
  // Connections under way keep it, and go on.
  found->second->Empty();
  processes_.erase(found);
  if (sandbox.slot != 0) network_.SetInterceptor(sandbox.slot, nullptr);
}

void Vaults::Attach(const std::string& id, uint32_t slot) {
  const auto found = processes_.find(id);
  if (found != processes_.end()) network_.SetInterceptor(slot, found->second);
}

Status Vaults::CheckPolicy(const std::string& id, const netpolicy::Egress& egress) const {
  const vault::Vault* vault = Find(id);
  return vault != nullptr ? CheckCovered(*vault, egress) : Status();
}

Status CheckCovered(const vault::Vault& vault, const netpolicy::Egress& egress) {
  // Without a rule for a name connections are judged by their addresses, and nobody reads names.
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
