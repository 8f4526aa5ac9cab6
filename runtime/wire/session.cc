#include "runtime/wire/session.h"

#include <set>
#include <string>
#include <string_view>

#include "cgroup/limits.h"
#include "runtime/base/disk_full.h"
#include "runtime/wire/volume.h"

namespace atl::wire {

Status CheckForm(const SessionSpec& spec) {
  if (spec.number == 0 || spec.number > kMaxSessions) {
    return Fail(Code::kInvalidArgument, "session " + std::to_string(spec.number) + ": use 1 to " +
                                            std::to_string(kMaxSessions));
  }
  size_t overlays = 0;
  std::set<std::string_view> targets;
  for (const SessionMount& mount : spec.mounts) {
    for (const std::string* path : {&mount.source, &mount.target}) {
      if (path->size() <= kMaxSessionPath && PlainAbsolutePath(*path)) continue;
      return Fail(Code::kInvalidArgument,
                  "session: '" + path->substr(0, 64) +
                      "' is not an absolute path without '.', '..' and trailing slash");
    }
    if (!targets.insert(mount.target).second) {
      return Fail(Code::kInvalidArgument, "session: two mounts on " + mount.target.substr(0, 64));
    }
    for (const char* own : {"/dev", "/proc", "/sys"}) {
      if (mount.target != own && !mount.target.starts_with(std::string(own) + "/")) continue;
      return Fail(Code::kInvalidArgument, std::string("session: ") + own + " is its own");
    }
    overlays += mount.kind >= SessionMount::Kind::kOverlay ? 1 : 0;
  }
  if (overlays > kMaxSessionOverlays) {
    return Fail(Code::kInvalidArgument, "session: too many overlays");
  }
  return {};
}

Status CheckForm(const SessionTerms& terms) {
  cgroup::Limits limits;
  limits.memory_bytes = terms.memory_bytes;
  limits.pids = terms.pids;
  limits.cpu_millis = terms.cpu_millis;
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    const uint64_t value = limits.*field.value;
    if (value == 0 || (value >= field.smallest && value <= field.largest)) continue;
    return Fail(Code::kInvalidArgument, std::string("session: ") + field.name + " " +
                                            std::to_string(value) + " is not from " +
                                            std::to_string(field.smallest) + " to " +
                                            std::to_string(field.largest));
  }
  return {};
}

Status CheckForm(const SessionUser& user) {
  for (const uint32_t id : {user.uid, user.gid, user.sandbox_uid, user.sandbox_gid}) {
    if (id != UINT32_MAX) continue;
    return Fail(Code::kInvalidArgument, "session: " + std::to_string(id) + " is not an id");
  }
  return {};
}

SessionReply ReplyOf(const Status& outcome) {
  SessionReply reply{.done = outcome.has_value(), .message = {}};
  if (outcome) return reply;
  reply.code = outcome.error().code();
  if (reply.code == Code::kResourceExhausted && !IsDiskFull(outcome.error())) {
    reply.code = Code::kUnavailable;
  }
  reply.message = outcome.error().message().substr(0, kMaxSessionReply / 2);
  return reply;
}

}  // namespace atl::wire
