#include "runtime/daemon/privileges.h"

#include <grp.h>
#include <pwd.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "runtime/base/core_dump.h"

namespace atl::daemon {
namespace {

struct CapFree {
  void operator()(cap_t caps) const { ::cap_free(caps); }
};
using Caps = std::unique_ptr<std::remove_pointer_t<cap_t>, CapFree>;

constexpr cap_value_t kKept = CAP_NET_ADMIN;

Status Prctl(const char* what, int option, unsigned long value) {
  if (::prctl(option, value, 0, 0, 0) != 0) return FailSys(std::string("prctl ") + what);
  return {};
}

// Goes up to the first number that the kernel does not know, because it may know more than our
// headers.
Status DropBoundingSet() {
  for (unsigned long cap = 0; ::prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; ++cap) {
    ATOLL_TRY(Prctl("PR_CAPBSET_DROP", PR_CAPBSET_DROP, cap));
  }
  return {};
}

Status SetCapabilities() {
  const Caps caps(::cap_init());
  if (!caps) return FailSys("cap_init");
  if (::cap_set_flag(caps.get(), CAP_PERMITTED, 1, &kKept, CAP_SET) != 0 ||
      ::cap_set_flag(caps.get(), CAP_EFFECTIVE, 1, &kKept, CAP_SET) != 0) {
    return FailSys("cap_set_flag");
  }
  if (::cap_set_proc(caps.get()) != 0) return FailSys("cap_set_proc");
  return {};
}

Status Verify(const User& user) {
  const auto fail = [](const char* what) {
    return Fail(Code::kInternal, std::string("privileges were not dropped: ") + what);
  };
  uid_t uids[3];
  gid_t gids[3];
  if (::getresuid(&uids[0], &uids[1], &uids[2]) != 0 ||
      ::getresgid(&gids[0], &gids[1], &gids[2]) != 0) {
    return FailSys("getresuid");
  }
  for (uid_t uid : uids) {
    if (uid != user.uid) return fail("a uid differs");
  }
  for (gid_t gid : gids) {
    if (gid != user.gid) return fail("a gid differs");
  }
  if (::getgroups(0, nullptr) != 0) return fail("supplementary groups remain");
  if (::setuid(0) == 0) return fail("root can be regained");
  const Caps have(::cap_get_proc());
  const Caps want(::cap_init());
  if (!have || !want) return FailSys("cap_get_proc");
  if (::cap_set_flag(want.get(), CAP_PERMITTED, 1, &kKept, CAP_SET) != 0 ||
      ::cap_set_flag(want.get(), CAP_EFFECTIVE, 1, &kKept, CAP_SET) != 0) {
    return FailSys("cap_set_flag");
  }
  if (::cap_compare(have.get(), want.get()) != 0) return fail("capabilities differ");
  for (unsigned long cap = 0;; ++cap) {
    const int in_set = ::prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
    if (in_set < 0) break;
    if (in_set != 0) return fail("the bounding set is not empty");
  }
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) return fail("no_new_privs is off");
  if (::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0) return fail("the memory can be dumped");
  return {};
}

}  // namespace

Status RequireRoot() {
  if (::geteuid() == 0) return {};
  return Fail(Code::kPermissionDenied,
              "atolld must be started as root: it starts the spawner, opens the network and then "
              "changes to its own user");
}

Result<User> FindUser(const std::string& name) {
  errno = 0;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before there are threads.
  const passwd* entry = ::getpwnam(name.c_str());
  if (entry == nullptr) {
    return Fail(Code::kNotFound, "there is no user '" + name +
                                     "' on this host; create it: useradd --system --no-create-home "
                                     "--shell /usr/sbin/nologin " +
                                     name);
  }
  if (entry->pw_uid == 0) {
    return Fail(Code::kInvalidArgument,
                "runtime.user '" + name + "' is root; use a user without privileges");
  }
  return User{entry->pw_uid, entry->pw_gid};
}

Status AsUser(const User& user, const std::function<Status()>& work) {
  if (::setegid(user.gid) != 0) return FailSys("setegid");
  Status done = ::seteuid(user.uid) == 0 ? Status() : FailSys("seteuid");
  if (done) done = work();
  if (::seteuid(0) != 0 || ::setegid(0) != 0) return FailSys("seteuid 0");
  return done;
}

Status DropPrivileges(const User& user) {
  // KEEPCAPS, because setresuid would clear the permitted set, and the capability to keep with it.
  ATOLL_TRY(Prctl("PR_SET_KEEPCAPS", PR_SET_KEEPCAPS, 1));
  ATOLL_TRY(DropBoundingSet());
  if (::setgroups(0, nullptr) != 0) return FailSys("setgroups");
  if (::setresgid(user.gid, user.gid, user.gid) != 0) return FailSys("setresgid");
  if (::setresuid(user.uid, user.uid, user.uid) != 0) return FailSys("setresuid");
  ATOLL_TRY(SetCapabilities());
  ATOLL_TRY(Prctl("PR_SET_KEEPCAPS", PR_SET_KEEPCAPS, 0));
  ATOLL_TRY(Prctl("PR_SET_NO_NEW_PRIVS", PR_SET_NO_NEW_PRIVS, 1));
  // Called after the last change of ids and capabilities, which would undo it.
  ATOLL_TRY(ForbidCoreDumps());
  return Verify(user);
}

}  // namespace atl::daemon
