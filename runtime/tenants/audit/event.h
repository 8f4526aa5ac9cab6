// An event that the audit log records: who did what to which object, and how it ended.
//
// Thread rule: a plain value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace atl::audit {

struct Actor {
  std::string kind = "daemon";  // "key", "oidc", "token", "daemon", "nobody"
  std::string id = {};          // name of the key; never the key itself
  std::string subject = {};     // the identity provider's name of the person
  std::string role = {};
};

struct Source {
  std::string ip = {};
  std::string agent = {};  // User-Agent
  std::string via = {};    // "tls", "plain", "socket"
};

struct Target {
  std::string kind = {};  // "sandbox", "image", "volume", …
  std::string id = {};
  std::string name = {};
  std::string image = {};
};

// A fact of one action. The name is a word of ours; the value may be hostile.
struct Fact {
  std::string_view name;
  std::variant<int64_t, std::string> value;
};

struct Event {
  std::string_view action = {};   // a word of ours, such as "sandbox.create"
  std::string_view outcome = {};  // "success", "refused", "denied", "failed"
  int status = 0;                 // status of the HTTP answer; 0: none
  std::string tenant = {};
  Actor actor = {};
  Source from = {};
  Target target = {};
  std::string request = {};
  std::string trace = {};
  std::vector<Fact> what = {};
  int64_t took_us = -1;  // negative: not measured
};

// Returns the outcome of an HTTP answer.
inline std::string_view OutcomeOf(int status) {
  if (status < 400) return "success";
  if (status == 401 || status == 403) return "denied";
  return status < 500 ? "refused" : "failed";
}

}  // namespace atl::audit
