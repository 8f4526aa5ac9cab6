#include "runtime/spawner/buckets/object_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

#include "runtime/base/move_descriptors.h"
#include "runtime/base/resource_limit.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/buckets/object_root.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/kernel/worker.h"
#include "runtime/spawner/rules/seccomp.h"
#include "runtime/wire/start.h"
#include "runtime/wire/volume.h"

namespace atl::spawner {
namespace {

constexpr uid_t kFirstUser = 0x71000000;

// Above the numbers that Place assigns.
constexpr int kAbove = 16;

// Descriptors of the spawner that the processes of one server keep.
struct Ends {
  int fuse, mount, said, log, host_mounts;
};

Status DropPrivileges(uid_t user) {
  // A core would hold keys. Not even the program of a piped core_pattern gets to see it
  // (execd_process.cc).
  const rlimit no_core{1, 1};
  if (::setrlimit(RLIMIT_CORE, &no_core) != 0) return FailSys("setrlimit CORE");
  ATOLL_TRY(LimitResource(RLIMIT_NOFILE, 1024));
  if (::setgroups(0, nullptr) != 0) return FailSys("setgroups");
  if (::setresgid(user, user, user) != 0) return FailSys("setresgid");
  if (::setresuid(user, user, user) != 0) return FailSys("setresuid");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return FailSys("PR_SET_NO_NEW_PRIVS");
  return {};
}

// The filter of sandboxes allows more than enough. Nobody is told the pass.
Status FilterCalls(const Host& host) {
  uint64_t pass = 0;
  if (::getrandom(&pass, sizeof pass, 0) != sizeof pass) return FailSys("getrandom");
  return LoadFilter(WithPass(host.filter, pass));
}

// Closes all descriptors of ours but `kept`, which become 3 and so on and stay open for the
// program.
Status Place(std::initializer_list<int> kept, int output) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return FailSys("open /dev/null");
  std::vector<DescriptorMove> moves = {
      {null.get(), STDIN_FILENO}, {output, STDOUT_FILENO}, {output, STDERR_FILENO}};
  for (const int fd : kept) moves.push_back({fd, static_cast<int>(moves.size())});
  return MoveDescriptors(moves);
}

[[noreturn]] void ExecuteWith(const char* program, std::vector<std::string> words,
                              std::initializer_list<const char*> environment) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (const char* each : environment) envp.push_back(const_cast<char*>(each));
  envp.push_back(nullptr);
  ::execve(program, argv.data(), envp.data());
  ::_exit(127);
}

// Writes to the log, from which the error of the mount is made.
[[noreturn]] void GiveUp(int log, const Status& failed) {
  const std::string text = failed.error().message() + "\n";
  [[maybe_unused]] const ssize_t n = ::write(log, text.data(), text.size());
  ::_exit(1);
}

// Calls an ioctl on an interface of this network namespace.
Status SetInterface(int socket, unsigned long request, ifreq& wanted, const char* name) {
  std::strncpy(wanted.ifr_name, name, IFNAMSIZ - 1);
  if (::ioctl(socket, request, &wanted) != 0) return FailSys(std::string("ioctl ") + name);
  return {};
}

// Gives loopback, in a new network namespace, every address that s3fs is going to connect to, and
// listens on all of them.
Result<UniqueFd> Listen(const wire::ObjectStore& store) {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return FailSys("socket");
  ifreq up{};
  up.ifr_flags = IFF_UP | IFF_RUNNING;
  ATOLL_TRY(SetInterface(listener.get(), SIOCSIFFLAGS, up, "lo"));
  in_addr literal{};
  const bool is_address = ::inet_pton(AF_INET, store.host.c_str(), &literal) == 1;
  if (is_address && (ntohl(literal.s_addr) >> 24) != 127) {
    ifreq alias{};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr = literal;
    std::memcpy(&alias.ifr_addr, &address, sizeof address);
    ATOLL_TRY(SetInterface(listener.get(), SIOCSIFADDR, alias, "lo:1"));
  }
  sockaddr_in all{};
  all.sin_family = AF_INET;
  all.sin_port = htons(store.port);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&all), sizeof all) != 0 ||
      ::listen(listener.get(), 64) != 0) {
    return FailSys("listen for s3fs");
  }
  return listener;
}

std::vector<std::string> Arguments(const ObjectServerSpec& spec) {
  const auto number = [](uint64_t value) { return std::to_string(value); };
  std::vector<std::string> words = {kObjectServer,
                                    spec.bucket + (spec.prefix.empty() ? "" : ":/" + spec.prefix),
                                    kObjectMount, "-f"};
  std::vector<std::string> options = {
      "url=" + wire::EndpointOf(spec.store),
      "endpoint=" + spec.store.region,
      "sigv4",
      std::string("passwd_file=") + kObjectPasswords,
      "uid=" + number(spec.owner),
      "gid=" + number(spec.owner),
      // Objects have no owners: every user in the sandbox may have them all.
      "umask=0000",
      std::string("tmpdir=") + kObjectScratch,
      // A store that is dead, or slow without end, becomes EIO. A look at a name is up to four
      // requests with one try each, which s3fs gives up after both of these times together.
      "connect_timeout=5",
      "readwrite_timeout=8",
      "retries=1",
      // Seconds until s3fs sees what others write into the bucket.
      "stat_cache_expire=5",
      // Number of parts that are sent or read at once.
      "multipart_size=10",
      "parallel_count=3",
      "dbglevel=crit",
  };
  if (!spec.store.host_style) options.emplace_back("use_path_request_style");
  if (spec.read_only) options.emplace_back("ro");
  for (std::string& option : options) words.insert(words.end(), {"-o", std::move(option)});
  return words;
}

[[noreturn]] void Serve(const Host& host, const ObjectServerSpec& spec, const Ends& ends) {
  Status ready = MakeObjectRoot(host, spec);
  if (ready) ready = DropPrivileges(spec.user);
  if (ready) ready = Place({ends.fuse}, ends.log);
  if (ready) ready = FilterCalls(host);
  if (!ready) GiveUp(ends.log, ready);
  ExecuteWith(kObjectServer, Arguments(spec), {"PATH=/usr/bin", "HOME=/", "LANG=C"});
}

// Somebody has to ask the store first, and may have to wait for it: this process, not the spawner.
[[noreturn]] void Probe(uid_t user, const Ends& ends) {
  ::close(ends.fuse);  // or the probe would outlive s3fs, and we would wait for ever
  if (const Status dropped = DropPrivileges(user); !dropped) GiveUp(ends.log, dropped);
  const auto directory = sys::OpenAt(ends.mount, ".", O_RDONLY | O_DIRECTORY);
  const Status shown = directory
                           ? sys::EachName(directory->get(), [](const char*) { return false; })
                           : Status(Fail(directory.error()));
  if (!shown) ::_exit(1);
  [[maybe_unused]] const ssize_t n = ::write(ends.said, "+", 1);
  ::_exit(0);
}

Status Begin(const Host& host, const ObjectServerSpec& spec, const Ends& ends) {
  ATOLL_TRY(sys::WriteFileAt(AT_FDCWD, "/proc/self/oom_score_adj", wire::kOomScore));
  if (::setns(ends.host_mounts, CLONE_NEWNS) != 0) return FailSys("setns mount");
  ATOLL_ASSIGN(const UniqueFd outside, sys::Open("/proc/self/ns/net", O_RDONLY));
  if (::unshare(CLONE_NEWNET) != 0) return FailSys("unshare CLONE_NEWNET");
  ATOLL_ASSIGN(const UniqueFd listener, Listen(spec.store));
  const pid_t server = ::fork();
  if (server == 0) Serve(host, spec, ends);
  const pid_t probe = server < 0 ? -1 : ::fork();
  if (probe == 0) Probe(spec.user, ends);
  if (probe < 0) return FailSys("fork");
  if (::setns(outside.get(), CLONE_NEWNET) != 0) return FailSys("setns net");
  ATOLL_TRY(DropPrivileges(spec.user));
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  ATOLL_TRY(Place({listener.get()}, null.get()));
  // A name that nobody answers for must not hold up connections for long.
  ExecuteWith(host.config.objects.c_str(),
              {"atoll-objects", "relay", spec.store.host, std::to_string(spec.store.port),
               std::to_string(server)},
              {"PATH=/usr/bin", "LANG=C", "RES_OPTIONS=timeout:2 attempts:2"});
}

[[noreturn]] void Child(const Host& host, const ObjectServerSpec& spec,
                        const std::vector<UniqueFd>& tasks, Ends ends) {
  for (const UniqueFd& each : tasks) {
    if (::write(each.get(), "0", 1) != 1) ::_exit(125);
    ::close(each.get());
  }
  for (int* const end : {&ends.fuse, &ends.mount, &ends.said, &ends.log, &ends.host_mounts}) {
    const int lifted = ::fcntl(*end, F_DUPFD_CLOEXEC, kAbove);
    if (lifted < 0) ::_exit(125);
    ::close(std::exchange(*end, lifted));
  }
  GiveUp(ends.log, Begin(host, spec, ends));
}

Result<UniqueFd> MountFuse(int device, bool read_only) {
  MountOptions options = {{"fd", std::to_string(device)},
                          {"rootmode", "40000"},
                          {"user_id", "0"},
                          {"group_id", "0"},
                          {"source", "objects"},
                          {"default_permissions", ""},
                          // The users of the sandbox are not the user of the server.
                          {"allow_other", ""}};
  if (read_only) options.emplace_back("ro", "");
  return NewMount("fuse", options,
                  MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                      (read_only ? uint64_t{MOUNT_ATTR_RDONLY} : uint64_t{0}));
}

}  // namespace

uid_t ObjectServerUser(uint32_t instance, uint32_t slot, uint32_t index) {
  return kFirstUser +
         (instance * (kMaxSlot + 1) + slot) * static_cast<uint32_t>(wire::kMaxVolumes) + index;
}

Result<ObjectServer> StartObjectServer(const Host& host, const ObjectServerSpec& spec) {
  auto device = sys::Open("/dev/fuse", O_RDWR);
  if (!device) {
    return Fail(std::move(device).error().Wrap("volumes of buckets need FUSE (modprobe fuse)"));
  }
  ObjectServer server;
  ATOLL_ASSIGN(server.mount, MountFuse(device->get(), spec.read_only));
  ATOLL_ASSIGN(sys::Pipe said, sys::MakePipe());
  ATOLL_ASSIGN(sys::Pipe log, sys::MakePipe());
  ATOLL_ASSIGN(const UniqueFd group, host.cgroups.OpenDir(spec.group, "execd"));
  ATOLL_ASSIGN(const std::vector<UniqueFd> tasks, host.cgroups.OpenTasks(spec.group));
  const Ends ends{device->get(), server.mount.get(), said.write.get(), log.write.get(),
                  host.host_mounts};
  std::vector<int> keep = {ends.fuse, ends.mount, ends.said, ends.log, ends.host_mounts};
  for (const UniqueFd& each : tasks) keep.push_back(each.get());
  ATOLL_ASSIGN(server.pid, StartWorker({.name = "atoll-objects",
                                        .namespaces = CLONE_NEWPID,
                                        .cgroup = group.get(),
                                        .outlives = true},
                                       keep, [&] { Child(host, spec, tasks, ends); }));
  server.said = std::move(said.read);
  server.log = std::move(log.read);
  for (const int fd : {server.said.get(), server.log.get()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  return server;
}

}  // namespace atl::spawner
