// Shows why there are no families. A family would be a warmed process that is forked into sandboxes
// of its own, copy on write.
//
// The kernel lets a process enter only namespaces that lie below its own user namespace, and only
// if it has CAP_SYS_ADMIN there. So the warmed process itself needs the capability and the
// descriptors, although it runs its tenant's code and everything that the code has loaded. Its fork
// would have to drop both before it goes on. These cases build a family from the parts of sandboxes
// and play both forks: one that drops them, and one that does not.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>

#include "runtime/base/sys.h"
#include "runtime/spawner/rules/seccomp.h"
#include "tests/priv/priv_test.h"

namespace atl::priv {
namespace {

constexpr int kIdsOfASandbox = 65'536;
constexpr int kMembers = 2;
constexpr uint64_t kPass = 0x5eed;
constexpr const char* kSecret = "/mnt/secret";

// One side of a rendezvous between two processes.
class Signal {
 public:
  Signal() { ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()); }
  void Give() const { EXPECT_EQ(::write(ends_[0], "", 1), 1); }
  void Await() const {
    char byte;
    EXPECT_EQ(::read(ends_[1], &byte, 1), 1);
  }

 private:
  std::array<int, 2> ends_{};
};

std::string Read(const char* path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text;
}

void Keep(uint64_t capabilities) {
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
    if ((capabilities >> capability & 1) == 0) ::prctl(PR_CAPBSET_DROP, capability);
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const auto low = static_cast<uint32_t>(capabilities);
  const auto high = static_cast<uint32_t>(capabilities >> 32);
  __user_cap_data_struct data[2] = {{low, low, 0}, {high, high, 0}};
  EXPECT_EQ(::syscall(SYS_capset, &header, data), 0) << errno;
}

template <typename Body>
pid_t Fork(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  return pid;
}

template <typename Body>
void InAFork(Body body) {
  int status = 0;
  const pid_t pid = Fork(body);
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Forks a child in a user namespace with the ids of `map`. `body` runs in the child as that
// namespace's root.
template <typename Body>
pid_t ForkWithIds(unsigned more, const std::string& map, Body body) {
  const Signal apart, mapped;
  const pid_t pid = Fork([&] {
    EXPECT_EQ(::unshare(static_cast<int>(CLONE_NEWUSER | more)), 0) << errno;
    apart.Give();
    mapped.Await();
    EXPECT_EQ(::setresgid(0, 0, 0) | ::setresuid(0, 0, 0), 0) << errno;
    ::prctl(PR_SET_DUMPABLE, 1);  // the parent opens its namespaces below /proc
    body();
  });
  apart.Await();
  for (const char* ids : {"/uid_map", "/gid_map"}) {
    const Status written = sys::WriteFileAt(AT_FDCWD, "/proc/" + std::to_string(pid) + ids, map);
    EXPECT_TRUE(written) << written.error().message();
  }
  mapped.Give();
  return pid;
}

struct Member {
  pid_t pid;
  int user, mounts;
};

// Starts the relevant parts of a sandbox: ids below the family's, mounts of its own, and a file in
// them.
Member StartMember(int number) {
  const Signal ready;
  const std::string map =
      "0 " + std::to_string(kIdsOfASandbox * (number + 1)) + " " + std::to_string(kIdsOfASandbox);
  const pid_t pid = ForkWithIds(CLONE_NEWNS, map, [&] {
    EXPECT_EQ(::mount("member", "/mnt", "tmpfs", 0, nullptr), 0) << errno;
    std::ofstream(kSecret) << "of member " << number;
    ready.Give();
    ::pause();
  });
  ready.Await();
  const std::string links = "/proc/" + std::to_string(pid) + "/ns/";
  return {pid, ::open((links + "user").c_str(), O_RDONLY | O_CLOEXEC),
          ::open((links + "mnt").c_str(), O_RDONLY | O_CLOEXEC)};
}

// Uses the pass, because the filter of sandboxes allows setns for execd alone. A family's filter
// would allow it for all.
bool Enter(int fd, int type) {
  return ::syscall(SYS_setns, fd, type, 0, 0, 0, kPass) == 0;
}
bool Enter(const Member& member) {
  return Enter(member.user, CLONE_NEWUSER) && Enter(member.mounts, CLONE_NEWNS);
}

// Runs `warmed` as the family's process. It has CAP_SYS_ADMIN in the family's namespace and nothing
// else, the filter of a sandbox plus setns, and the namespaces of the members that it is asked to
// fork into.
void InAFamily(void (*warmed)(const std::array<Member, kMembers>&)) {
  int status = 0;
  const std::string map = "0 500000000 " + std::to_string(kIdsOfASandbox * (kMembers + 1));
  const pid_t family = ForkWithIds(0, map, [&] {
    std::array<Member, kMembers> members{};
    for (int number = 0; number < kMembers; ++number)
      members[static_cast<size_t>(number)] = StartMember(number);
    InAFork([&] {
      Keep(1ULL << CAP_SYS_ADMIN);
      ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      const Status loaded =
          spawner::LoadFilter(spawner::WithPass(spawner::BuildSandboxFilter(), kPass));
      ASSERT_TRUE(loaded) << loaded.error().message();
      EXPECT_EQ(::unshare(CLONE_NEWNS), -1) << "the filter is on";
      warmed(members);
    });
    for (const Member& member : members) {
      ::kill(member.pid, SIGKILL);
      ::waitpid(member.pid, nullptr, 0);
    }
  });
  EXPECT_EQ(::waitpid(family, &status, 0), family);
  EXPECT_EQ(status, 0);
}

PRIV_TEST(FamilyAttack, AForkThatIsInOneReachesNoOther) {
  InAFamily([](const std::array<Member, kMembers>& members) {
    InAFork([&] {
      EXPECT_TRUE(Enter(members[0])) << errno;
      EXPECT_EQ(Read(kSecret), "of member 0");
      EXPECT_FALSE(Enter(members[1]));
      EXPECT_EQ(errno, EPERM);
    });
  });
}

// The fork for member 1 also runs the tenant's code. Nothing outside sees which member it enters.
PRIV_TEST(FamilyAttack, AForkForOneMemberReadsAnother) {
  InAFamily([](const std::array<Member, kMembers>& members) {
    InAFork([&] {
      EXPECT_TRUE(Enter(members[0])) << errno;
      EXPECT_EQ(Read(kSecret), "of member 0");
    });
  });
}

// The fork enters the right member, but with all rights of the member's root. Sandboxes have no
// CAP_SYS_ADMIN.
PRIV_TEST(FamilyAttack, AForkKeepsEveryCapabilityInItsSandbox) {
  InAFamily([](const std::array<Member, kMembers>& members) {
    InAFork([&] {
      EXPECT_TRUE(Enter(members[1])) << errno;
      __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
      __user_cap_data_struct data[2] = {};
      EXPECT_EQ(::syscall(SYS_capget, &header, data), 0);
      EXPECT_NE(data[0].effective & (1U << CAP_SYS_ADMIN), 0U);
      EXPECT_NE(data[0].effective & (1U << CAP_NET_ADMIN), 0U);
      EXPECT_EQ(::prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN), 1);
    });
  });
}

// The warmed process keeps the descriptors that it was handed, so it can read members that already
// run.
PRIV_TEST(FamilyAttack, TheWarmedProcessItselfReadsEveryMember) {
  InAFamily([](const std::array<Member, kMembers>& members) {
    for (int number = 0; number < kMembers; ++number) {
      InAFork([&] {
        EXPECT_TRUE(Enter(members[static_cast<size_t>(number)])) << errno;
        EXPECT_EQ(Read(kSecret), "of member " + std::to_string(number));
        std::ofstream(kSecret) << "changed";
        EXPECT_EQ(Read(kSecret), "changed");
      });
    }
  });
}

}  // namespace
}  // namespace atl::priv
