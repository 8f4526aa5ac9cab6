// A compromised daemon asks the spawner for things that it must not get.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/sys.h"
#include "runtime/wire/spawner.h"
#include "tests/priv/priv_test.h"
#include "tests/priv/spawner_fixture.h"

namespace atl::priv {
namespace {

Error BuildError(SpawnerFixture& spawner, const std::function<void(wire::Plan&)>& change) {
  wire::Plan plan = SpawnerFixture::PlanFor(1);
  change(plan);
  auto built = spawner.Build(plan);
  EXPECT_FALSE(built);
  return built ? Error(Code::kInternal, "built") : built.error();
}

PRIV_TEST(HostileDaemon, PlansAreChecked) {
  SpawnerFixture spawner;
  ASSERT_TRUE(spawner.Prepare(1));
  const auto code = [&](const std::function<void(wire::Plan&)>& change) {
    return CodeName(BuildError(spawner, change).code());
  };
  EXPECT_EQ(code([](wire::Plan& plan) { plan.id = "../../etc"; }), "invalid_argument");
  EXPECT_EQ(code([](wire::Plan& plan) { plan.id = ""; }), "invalid_argument");
  EXPECT_EQ(code([](wire::Plan& plan) { plan.slot = 2; }), "failed_precondition");
  EXPECT_EQ(code([](wire::Plan& plan) { plan.layers = {}; }), "invalid_argument");
  EXPECT_EQ(code([](wire::Plan& plan) { plan.layers = {1, 77}; }), "not_found");
  EXPECT_EQ(code([](wire::Plan& plan) { plan.hostname = "a,lowerdir=/"; }), "invalid_argument");
  EXPECT_EQ(code([](wire::Plan& plan) { plan.hostname = std::string(65, 'a'); }),
            "invalid_argument");
  EXPECT_EQ(code([](wire::Plan& plan) { plan.hosts = std::string(9000, '#'); }),
            "invalid_argument");
  EXPECT_EQ(code([](wire::Plan& plan) { plan.volumes = {{.target = "/a/../b"}}; }),
            "invalid_argument");
  // The operator gives this spawner no devices.
  EXPECT_EQ(code([](wire::Plan& plan) { plan.devices = {"0"}; }), "not_found");
  EXPECT_EQ(code([](wire::Plan& plan) { plan.devices = {"/dev/kmsg"}; }), "not_found");
  // The refused plans have changed nothing: the slot is still there.
  auto sandbox = spawner.Build(SpawnerFixture::PlanFor(1));
  EXPECT_TRUE(sandbox);
}

// A sandbox without limits could use up the whole host.
PRIV_TEST(HostileDaemon, LimitsAreNotLeftOut) {
  SpawnerFixture spawner;
  const auto& kept = spawner.hello().limits_available;
  for (const char* name : {"memory", "pids", "cpu"}) {
    ASSERT_NE(std::find(kept.begin(), kept.end(), name), kept.end()) << name;
  }
  ASSERT_TRUE(spawner.Prepare(1));
  auto sandbox = spawner.Build(2);
  ASSERT_TRUE(sandbox);
  std::vector<cgroup::Limits> wrongs;
  const auto wrong = [&](const cgroup::LimitField& field, uint64_t value) {
    wrongs.push_back(SpawnerFixture::DefaultLimits());
    wrongs.back().*field.value = value;
  };
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    if (field.need == cgroup::LimitNeed::kRequired) wrong(field, 0);
    if (field.smallest > 1) wrong(field, field.smallest - 1);
    wrong(field, field.largest + 1);
  }
  for (size_t i = 0; i < wrongs.size(); ++i) {
    const cgroup::Limits& limits = wrongs[i];
    const Status prepared = spawner.TryPrepare(3, limits);
    EXPECT_TRUE(!prepared && prepared.error().code() == Code::kInvalidArgument) << "slot " << i;
    EXPECT_EQ(CodeName(BuildError(spawner, [&](wire::Plan& plan) { plan.limits = limits; }).code()),
              "invalid_argument")
        << i;
  }
  EXPECT_TRUE(spawner.Destroy(sandbox->plan.id));
}

std::string ChangeLimits(SpawnerFixture& spawner, const std::string& id,
                         const cgroup::Limits& limits) {
  std::optional<Status> answer;
  spawner.client().Ask(wire::ChangeLimits{id, limits},
                       [&](Status changed) { answer = std::move(changed); });
  spawner.loop().RunUntil([&] { return answer.has_value(); });
  return answer && !*answer ? std::string(CodeName(answer->error().code())) : "changed";
}

PRIV_TEST(HostileDaemon, ChangesOfLimitsAreChecked) {
  SpawnerFixture spawner;
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox);
  const std::string& id = sandbox->plan.id;
  const cgroup::Limits usual = SpawnerFixture::DefaultLimits();
  EXPECT_EQ(ChangeLimits(spawner, "../../etc", usual), "not_found");
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    cgroup::Limits limits = usual;
    limits.*field.value = field.largest + 1;
    EXPECT_EQ(ChangeLimits(spawner, id, limits), "invalid_argument") << field.name;
    limits.*field.value = 0;
    if (field.need != cgroup::LimitNeed::kRequired) continue;
    EXPECT_EQ(ChangeLimits(spawner, id, limits), "invalid_argument") << field.name;
  }
  // The refused requests have changed nothing.
  cgroup::Limits small = usual;
  small.nofile = 1000;
  EXPECT_EQ(ChangeLimits(spawner, id, small), "changed");
  EXPECT_EQ(ChangeLimits(spawner, id, usual), "failed_precondition") << "open files";
  EXPECT_EQ(ChangeLimits(spawner, id, small), "failed_precondition") << "failed half-way";
  auto other = spawner.Build(2);
  ASSERT_TRUE(other);
  spawner.KillProcess();
  spawner.StartProcess();
  spawner.Connect();
  EXPECT_EQ(ChangeLimits(spawner, other->plan.id, usual), "failed_precondition") << "adopted";
  EXPECT_TRUE(spawner.Destroy(id));
  EXPECT_EQ(ChangeLimits(spawner, id, usual), "not_found");
}

PRIV_TEST(HostileDaemon, OnlySocketsGoIn) {
  SpawnerFixture spawner;
  auto directory = sys::Open("/", O_RDONLY | O_DIRECTORY);
  auto stream = sys::UnixPair(SOCK_STREAM);
  auto packets = sys::UnixPair(SOCK_SEQPACKET);
  ASSERT_TRUE(directory && stream && packets);
  const auto refused = [&](int control, int listener) {
    const Status prepared = spawner.Prepare(1, SpawnerFixture::DefaultLimits(), control, listener);
    return !prepared && prepared.error().code() == Code::kPermissionDenied;
  };
  EXPECT_TRUE(refused(directory->get(), stream->a.get()));
  EXPECT_TRUE(refused(stream->a.get(), directory->get()));
  EXPECT_TRUE(refused(stream->a.get(), stream->b.get())) << "not listening";
  EXPECT_TRUE(refused(packets->a.get(), stream->b.get()));
  // The refused requests have changed nothing: the slot is still free.
  EXPECT_TRUE(spawner.Build(1));
}

// The spawner swaps out only frozen sandboxes, and only if the operator allows it.
PRIV_TEST(HostileDaemon, WhatRunsIsNotReclaimed) {
  const auto reclaim = [](SpawnerFixture& spawner, const std::string& id) {
    std::optional<Result<wire::Reclaimed>> answer;
    spawner.client().Ask(wire::Reclaim{id},
                         [&](Result<wire::Reclaimed> reclaimed) { answer = std::move(reclaimed); });
    spawner.loop().RunUntil([&] { return answer.has_value(); });
    return answer && !*answer ? std::string(CodeName(answer->error().code())) : "reclaimed";
  };
  {
    SpawnerFixture without;
    EXPECT_EQ(without.hello().swap_bytes, 0U);
    EXPECT_EQ(reclaim(without, "../../etc"), "unimplemented");
  }
  SpawnerFixture spawner("ATOLL_START_AND_EXEC", {}, {"--swap-size", "16777216"});
  EXPECT_EQ(spawner.hello().swap_bytes, uint64_t{16} << 20);
  EXPECT_EQ(reclaim(spawner, "../../etc"), "not_found");
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox);
  EXPECT_EQ(reclaim(spawner, sandbox->plan.id), "failed_precondition");
}

PRIV_TEST(HostileDaemon, OnlyRulesAreKept) {
  SpawnerFixture spawner;
  const UniqueFd rules(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  const UniqueFd routes(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  auto directory = sys::Open("/", O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(rules && routes && directory);
  const auto keep = [&](int fd) {
    std::optional<Status> kept;
    spawner.client().Ask(wire::KeepRules{std::move(*launch::Copy(fd))},
                         [&](Status status) { kept = std::move(status); });
    spawner.loop().RunUntil([&] { return kept.has_value(); });
    return *kept;
  };
  for (const int fd : {routes.get(), directory->get()}) {
    const Status kept = keep(fd);
    EXPECT_TRUE(!kept && kept.error().code() == Code::kPermissionDenied);
  }
  EXPECT_TRUE(keep(rules.get()));
}

PRIV_TEST(HostileDaemon, UnpackTakesNoOpenDoors) {
  SpawnerFixture spawner;
  auto directory = sys::Open("/tmp", O_RDONLY | O_DIRECTORY);
  auto passwd = sys::Open("/etc/passwd", O_RDWR);
  ASSERT_TRUE(directory && passwd);
  const auto split = [&](int input, int output) {
    Result<wire::Unpacked> report = wire::Unpacked();
    bool answered = false;
    wire::SplitArchive asked{std::move(*launch::Copy(input)), std::move(*launch::Copy(output))};
    spawner.client().Ask(std::move(asked), [&](Result<wire::Unpacked> answer) {
      answered = true;
      report = std::move(answer);
    });
    spawner.loop().RunUntil([&] { return answered; });
    return report ? "done" : std::string(CodeName(report.error().code()));
  };
  EXPECT_EQ(split(passwd->get(), directory->get()), "permission_denied") << "open for writing";
  EXPECT_EQ(split(directory->get(), directory->get()), "permission_denied");
  // The opposite direction: the file that a layer is written to.
  auto terminal = sys::Open("/dev/full", O_WRONLY);
  auto reading = sys::Open("/etc/passwd", O_RDONLY);
  ASSERT_TRUE(terminal && reading);
  const auto pack = [&](wire::LayerId layer, int file) {
    Result<wire::Unpacked> report = wire::Unpacked();
    bool answered = false;
    spawner.client().Ask(wire::PackLayer{layer, std::move(*launch::Copy(file))},
                         [&](Result<wire::Unpacked> answer) {
                           answered = true;
                           report = std::move(answer);
                         });
    spawner.loop().RunUntil([&] { return answered; });
    return report ? "done" : std::string(CodeName(report.error().code()));
  };
  constexpr wire::LayerId layer = 1;  // the layer of the fixture
  EXPECT_EQ(pack(layer, reading->get()), "permission_denied") << "open for reading";
  EXPECT_EQ(pack(layer, terminal->get()), "permission_denied") << "a device";
  EXPECT_EQ(pack(layer, directory->get()), "permission_denied");
  EXPECT_EQ(pack(layer + 1000, passwd->get()), "not_found");
}

PRIV_TEST(HostileDaemon, CopiesAreChecked) {
  SpawnerFixture spawner;
  const auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox);
  const auto copy = [&](const std::string& id, wire::LayerId layer, uint64_t most) {
    std::string outcome;
    spawner.client().Ask(wire::CopyUpper{id, layer, most}, [&](Result<wire::Copied> answer) {
      outcome = answer ? "done" : CodeName(answer.error().code());
    });
    spawner.loop().RunUntil([&] { return !outcome.empty(); });
    return outcome;
  };
  EXPECT_EQ(copy("../../etc", 7, 1 << 20), "failed_precondition");
  EXPECT_EQ(copy("", 7, 1 << 20), "failed_precondition");
  EXPECT_EQ(copy(sandbox->plan.id, 1, 1 << 20), "already_exists");
  // A refused or failed copy leaves nothing in the place of the next one.
  EXPECT_EQ(copy(sandbox->plan.id, 7, 1 << 20), "done");
  EXPECT_TRUE(spawner.Destroy(sandbox->plan.id));
  EXPECT_EQ(copy(sandbox->plan.id, 8, 1 << 20), "failed_precondition");
}

// A session's user must be one of the sandbox's ids. The next host id belongs to another sandbox.
PRIV_TEST(HostileDaemon, SessionsAreNoneOfTheHostsUsers) {
  SpawnerFixture spawner;
  const auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox);
  const auto make = [&](const wire::SessionUser& user) {
    auto control = sys::UnixPair(SOCK_STREAM), connections = sys::UnixPair(SOCK_STREAM);
    EXPECT_TRUE(control && connections);
    wire::MakeSession message{.id = sandbox->plan.id, .mapped = true, .user = user};
    message.spec.number = 1;
    message.control = std::move(control->b);
    message.connections = std::move(connections->b);
    std::string outcome;
    spawner.client().Ask(std::move(message), [&](const Status& made) {
      outcome = made ? "done" : CodeName(made.error().code());
    });
    spawner.loop().RunUntil([&] { return !outcome.empty(); });
    return outcome;
  };
  for (const uint32_t id : {65536U, 2 * 65536U, UINT32_MAX - 65536, UINT32_MAX}) {
    EXPECT_EQ(make({.sandbox_uid = id}), "invalid_argument") << id;
    EXPECT_EQ(make({.sandbox_gid = id}), "invalid_argument") << id;
  }
  EXPECT_EQ(make({.uid = UINT32_MAX}), "invalid_argument");
  // The refused sessions have left nothing.
  EXPECT_EQ(make({.uid = UINT32_MAX - 1, .sandbox_uid = 65535}), "done");
}

PRIV_TEST(HostileDaemon, DifferencesAreChecked) {
  SpawnerFixture spawner;
  const auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox);
  const std::string& id = sandbox->plan.id;
  const std::vector<wire::LayerId>& layers = sandbox->plan.layers;
  const auto diff = [&](const std::string& of, const std::vector<wire::LayerId>& against,
                        UniqueFd out) {
    std::string outcome;
    spawner.client().Ask(wire::DiffUpper{of, against, false, std::move(out)},
                         [&](Result<wire::Unpacked> answer) {
                           outcome = answer ? "done" : CodeName(answer.error().code());
                         });
    spawner.loop().RunUntil([&] { return !outcome.empty(); });
    return outcome;
  };
  const auto pipe = [] {
    sys::Pipe made = std::move(*sys::MakePipe());
    static UniqueFd reader;
    reader = std::move(made.read);
    return std::move(made.write);
  };
  EXPECT_EQ(diff(id, layers, pipe()), "done");
  EXPECT_EQ(diff("../../etc", layers, pipe()), "failed_precondition");
  EXPECT_EQ(diff(id, {4711}, pipe()), "not_found");
  EXPECT_EQ(diff(id, layers, std::move(*sys::Open("/etc/passwd", O_RDONLY))), "permission_denied");
  EXPECT_TRUE(spawner.Destroy(id));
  EXPECT_EQ(diff(id, layers, pipe()), "failed_precondition");
}

PRIV_TEST(HostileDaemon, GarbageClosesTheConnectionOnly) {
  SpawnerFixture spawner;
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox);
  const auto null = sys::Open("/dev/null", O_RDONLY);
  ASSERT_TRUE(null);
  const int fds[] = {null->get(), null->get(), null->get()};
  const auto closes = [&](const std::string& bytes, size_t descriptors) {
    const UniqueFd socket = SpawnerFixture::RawConnection(spawner.run_dir());
    EXPECT_TRUE(sys::SendMessage(socket.get(), bytes, std::span(fds, descriptors)));
    char byte;
    return ::read(socket.get(), &byte, 1) == 0;
  };
  for (const std::string& garbage :
       {std::string("x"), std::string(90'000, '\xff'), std::string(64, '\0')}) {
    EXPECT_TRUE(closes(garbage, 0)) << "still open";
  }
  wire::Plan plan = SpawnerFixture::PlanFor(1);
  plan.layers.resize(wire::kMaxLayers + 1);
  EXPECT_TRUE(closes(wire::EncodeFields(wire::Request{1, wire::Build{plan}}), 0));
  // Descriptors that the message does not name, or fewer than it names.
  const std::string ping = wire::EncodeFields(wire::Request{1, wire::Ping()});
  EXPECT_TRUE(closes(ping, 1));
  const std::string split = wire::EncodeFields(wire::Request{1, wire::SplitArchive()});
  for (const size_t descriptors : {0, 1, 3}) EXPECT_TRUE(closes(split, descriptors)) << descriptors;
  EXPECT_FALSE(closes(ping, 0));
  EXPECT_FALSE(closes(split, 2));
  spawner.Connect();
  EXPECT_EQ(spawner.hello().sandboxes.size(), 1u);
  EXPECT_TRUE(spawner.Destroy(sandbox->plan.id));
}

PRIV_TEST(HostileDaemon, NothingIsBuiltBehindAStop) {
  SpawnerFixture spawner;
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox && spawner.Prepare(2));
  bool stopped = false;
  spawner.client().Ask(wire::Stop(), [&](const Status&) { stopped = true; });
  EXPECT_EQ(CodeName(BuildError(spawner, [](wire::Plan& plan) { plan.slot = 2; }).code()),
            "unavailable");
  EXPECT_TRUE(spawner.loop().RunUntil([&] { return stopped; }));
  spawner.AwaitEnd();
}

PRIV_TEST(HostileDaemon, StrangersAreRefused) {
  SpawnerFixture spawner;
  // Connects as a user that is neither root nor the daemon's. The test opens up the socket's mode,
  // so that only the spawner's own check remains.
  ASSERT_EQ(::chmod((spawner.run_dir() + "/..").c_str(), 0755), 0);
  ASSERT_EQ(::chmod((spawner.run_dir() + "/spawner.sock").c_str(), 0666), 0);
  ASSERT_EQ(::seteuid(1), 0);
  const UniqueFd socket = SpawnerFixture::RawConnection(spawner.run_dir());
  ASSERT_EQ(::seteuid(0), 0);
  char byte;
  EXPECT_EQ(::read(socket.get(), &byte, 1), 0) << "not refused";
}

}  // namespace
}  // namespace atl::priv
