// The client behind a request, or the daemon itself. The API makes the Caller when it authorises
// the request and passes it along. Every look-up by an id or name from a request requires a Caller,
// so no look-up can skip the tenant check.
#pragma once

#include <memory>
#include <string>

#include "runtime/tenants/identity.h"
#include "runtime/tenants/role.h"

namespace atl::tenants {

struct Caller {
  // Owner of what the caller makes, and of the names that it gives. Empty: the host itself. That is
  // every caller of a daemon without tenants, and an admin who belongs to no tenant.
  std::string tenant = {};
  std::string key_id = {};  // name of the caller's key in the log and audit; empty: no key
  Role role = Role::kAdmin;
  // The caller reaches the objects of all tenants. The row of the route sets it (rights.h), so the
  // same key may see all sandboxes on one route and only its own on another.
  bool sees_all = false;
  // Answers show names and states only: no contents, no env, no values of labels.
  bool names_only = false;
  std::shared_ptr<const Narrowing> narrowing = nullptr;  // the caller's key's; null: none
  std::string subject = {};  // an identity provider's name of the person; empty: a key calls

  // Returns true if the caller may know of an object of that owner. If not, the answer is the one
  // for an unknown id.
  bool Sees(const std::string& owner) const { return sees_all || owner == tenant; }

  // The daemon itself: background work.
  static const Caller& Daemon() {
    static const Caller caller{.sees_all = true};
    return caller;
  }
};

}  // namespace atl::tenants
