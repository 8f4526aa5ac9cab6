// A session's groups within those of its sandbox, in the host's cgroup layout: v2 in the guest.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "cgroup/tree.h"
#include "runtime/base/sys.h"
#include "tests/priv/priv_test.h"

namespace atl::priv {
namespace {

constexpr uint64_t kMiB = 1 << 20;

cgroup::Limits Memory(uint64_t mebibytes) {
  cgroup::Limits limits;
  limits.memory_bytes = mebibytes * kMiB;
  return limits;
}

class Groups {
 public:
  explicit Groups(const std::string& base) : host_(*cgroup::DetectHost()), base_(base) {
    auto tree = cgroup::Tree::Create(host_, host_.unified, base_, "");
    EXPECT_TRUE(tree);
    tree_ = std::make_unique<cgroup::Tree>(std::move(*tree));
    EXPECT_TRUE(tree_->CreateGroup("s1"));
    EXPECT_TRUE(tree_->DelegateGroup("s1", 0));
  }
  ~Groups() {
    EXPECT_TRUE(tree_->RemoveGroup("s1"));
    EXPECT_TRUE(cgroup::Tree::Remove(host_, host_.unified, base_));
  }
  const cgroup::Tree& tree() const { return *tree_; }
  std::string Base() const { return "/" + base_ + "/"; }
  std::string Path(const std::string& group) const { return tree_->path() + "/" + group; }
  // Returns "" if there is no such file.
  std::string Read(const std::string& file) const {
    const auto text = sys::ReadFileAt(AT_FDCWD, Path(file), 64);
    return text ? text->substr(0, text->find('\n')) : "";
  }
  // Returns the number of v1 groups of its own among those that commands of `group` enter.
  size_t CommandPlaces(const std::string& group) const {
    size_t own = 0;
    const auto tasks = tree_->OpenRunTasks(group);
    EXPECT_TRUE(tasks);
    for (const UniqueFd& file : *tasks) {
      char link[512] = {};
      const std::string name = "/proc/self/fd/" + std::to_string(file.get());
      EXPECT_GT(::readlink(name.c_str(), link, sizeof link - 1), 0);
      if (std::string(link).ends_with("/" + group + "/run/tasks")) ++own;
    }
    return own;
  }
  void Nest(const cgroup::Limits& limits) const {
    ASSERT_TRUE(tree_->CreateNested("s1/run/x1", limits));
    ASSERT_TRUE(tree_->DelegateGroup("s1/run/x1", 0));
    ASSERT_TRUE(tree_->SetLimits("s1/run/x1", {}, limits));
    ASSERT_TRUE(tree_->ShowLimits("s1/run/x1"));
  }

 private:
  cgroup::Host host_;
  std::string base_;
  std::unique_ptr<cgroup::Tree> tree_;
};

std::string Bytes(uint64_t mebibytes) {
  return std::to_string(mebibytes * kMiB);
}

PRIV_TEST(CgroupNested, FollowsItsSandboxUpAndDown) {
  const Groups groups("atoll-nested-" + std::to_string(::getpid()));
  ASSERT_TRUE(groups.tree().SetLimits("s1", {}, Memory(64)));
  groups.Nest({});
  if (!groups.tree().host().v2) {
    // The session is in its sandbox's own groups and has no limit that could be out of date.
    EXPECT_EQ(groups.CommandPlaces("s1/run/x1"), 0U);
    return;
  }
  ASSERT_EQ(::mkdir(groups.Path("s1/run/x1/run/c1").c_str(), 0755), 0);
  EXPECT_EQ(groups.Read("s1/run/x1/run/memory.max"), Bytes(64));
  ASSERT_TRUE(groups.tree().SetLimits("s1", Memory(64), Memory(256)));
  EXPECT_EQ(groups.Read("s1/run/x1/run/memory.max"), Bytes(256));
  EXPECT_EQ(groups.Read("s1/run/x1/run/c1/memory.max"), Bytes(256));
  EXPECT_EQ(groups.Read("s1/run/x1/memory.max"), "max");
  ASSERT_TRUE(groups.tree().SetLimits("s1", Memory(256), Memory(32)));
  EXPECT_EQ(groups.Read("s1/run/x1/run/memory.max"), Bytes(32));
  EXPECT_EQ(groups.Read("s1/run/x1/run/c1/memory.max"), Bytes(32));
}

PRIV_TEST(CgroupNested, KeepsALimitOfItsOwn) {
  const Groups groups("atoll-nested-" + std::to_string(::getpid()));
  ASSERT_TRUE(groups.tree().SetLimits("s1", {}, Memory(64)));
  cgroup::Limits limits = Memory(128);
  limits.pids = 50;
  limits.cpu_millis = 500;
  groups.Nest(limits);
  if (groups.tree().host().v2) {
    EXPECT_EQ(groups.Read("s1/run/x1/memory.max"),
              std::to_string(128 * kMiB + cgroup::kReserveMemory));
    EXPECT_EQ(groups.Read("s1/run/x1/run/memory.max"), Bytes(64)) << "more than there is";
    EXPECT_EQ(groups.Read("s1/run/x1/run/pids.max"), "50");
    EXPECT_EQ(groups.Read("s1/run/x1/cpu.max"), "50000 100000");
    ASSERT_TRUE(groups.tree().SetLimits("s1", Memory(64), Memory(256)));
    EXPECT_EQ(groups.Read("s1/run/x1/run/memory.max"), Bytes(128));
  } else {
    EXPECT_EQ(groups.CommandPlaces("s1/run/x1"), 2U);
  }
  EXPECT_TRUE(groups.tree().RemoveNested("s1/run/x1"));
}

// The end of a sandbox removes its sessions. Where sessions have limits on v1, their groups are in
// the sandbox's.
PRIV_TEST(CgroupNested, GoesWithItsSandbox) {
  const Groups groups("atoll-nested-" + std::to_string(::getpid()));
  cgroup::Limits limits = Memory(128);
  limits.cpu_millis = 500;
  groups.Nest(limits);
}

// Neither takes the other's memory, and a change of the sandbox's limit keeps the room.
PRIV_TEST(CgroupNested, AnInterceptorHasRoomOfItsOwn) {
  const Groups groups("atoll-nested-" + std::to_string(::getpid()));
  const auto limit = [&](const std::string& group) {
    const cgroup::Host& host = groups.tree().host();
    if (host.v2) return groups.Read(group + "/memory.max");
    const auto text = sys::ReadFileAt(
        AT_FDCWD, host.v1.at("memory") + groups.Base() + group + "/memory.limit_in_bytes", 64);
    return text ? text->substr(0, text->find('\n')) : "";
  };
  const auto expect = [&](uint64_t mebibytes) {
    EXPECT_EQ(limit("s1/run"), Bytes(mebibytes));
    EXPECT_EQ(limit("s1"),
              std::to_string(mebibytes * kMiB + cgroup::kReserveMemory + cgroup::kInterceptMemory));
    EXPECT_EQ(limit("s1/intercept"), std::to_string(cgroup::kInterceptMemory));
  };
  ASSERT_TRUE(groups.tree().KillIntercept("s1")) << "there is none";
  ASSERT_TRUE(groups.tree().SetLimits("s1", {}, Memory(64)));
  ASSERT_TRUE(groups.tree().CreateIntercept("s1"));
  expect(64);
  ASSERT_TRUE(groups.tree().CreateIntercept("s1")) << "again";
  expect(64);
  ASSERT_TRUE(groups.tree().SetLimits("s1", Memory(64), Memory(256)));
  expect(256);
  ASSERT_TRUE(groups.tree().SetLimits("s1", Memory(256), Memory(32)));
  expect(32);
}

PRIV_TEST(CgroupNested, HasABottom) {
  const Groups groups("atoll-nested-" + std::to_string(::getpid()));
  groups.Nest({});
  ASSERT_EQ(::mkdir(groups.Path("s1/run/x1/run/c1").c_str(), 0755), 0);
  EXPECT_NE(::mkdir(groups.Path("s1/run/x1/run/c1/deeper").c_str(), 0755), 0);
  EXPECT_EQ(errno, EAGAIN);
}

}  // namespace
}  // namespace atl::priv
