// Uses up budgets that the kernel counts per user or for the whole host, from inside a sandbox.
// Each argument names one budget. Each line of output is "NAME: COUNT ERRNO": the number that the
// probe got, and the error that ended it. "MORE" means the probe's own bound, which spares a host
// without defence. With "hold" as the last argument, the probe keeps everything until it is killed.
// The program is static, so that it runs in any image.

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace {

// The longest program that a socket or seccomp accepts.
std::array<sock_filter, BPF_MAXINSNS> g_instructions;
sock_fprog LongFilter() {
  for (sock_filter& instruction : g_instructions) {
    instruction = BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1);
  }
  g_instructions.back() = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  return {static_cast<unsigned short>(g_instructions.size()), g_instructions.data()};
}

long AttachFilter(int) {
  const sock_fprog filter = LongFilter();
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  return fd < 0 ? fd : ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

long LoadSeccomp(int) {
  const sock_fprog filter = LongFilter();
  return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
}

long LoadSeccompByPrctl(int) {
  const sock_fprog filter = LongFilter();
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

long LabelFlow(int i) {
  // struct in6_flowlabel_req of linux/in6.h, which cannot be included together with netinet/in.h.
  struct {
    uint8_t destination[16];
    uint32_t label;
    uint8_t action, share;
    uint16_t flags, expires, linger;
    uint32_t pad;
  } request{};
  request.destination[15] = 1;
  request.label = htonl(static_cast<uint32_t>(i) + 1);
  request.flags = 1;  // IPV6_FL_F_CREATE
  request.share = 1;  // IPV6_FL_S_EXCL
  const int fd = ::socket(AF_INET6, SOCK_DGRAM, 0);
  constexpr int kFlowLabelManager = 32;
  return fd < 0 ? fd : ::setsockopt(fd, IPPROTO_IPV6, kFlowLabelManager, &request, sizeof request);
}

long WatchFiles(int) {
  return ::inotify_init1(0);
}

long MakeQueue(int i) {
  mq_attr attributes{};
  attributes.mq_maxmsg = 10;
  attributes.mq_msgsize = 8192;
  const std::string name = "/q" + std::to_string(::getuid()) + "." + std::to_string(i);
  const mqd_t queue = ::mq_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600, &attributes);
  return queue < 0 ? queue : ::mq_unlink(name.c_str());  // the queue exists as long as it is open
}

long QueueSignal(int) {
  return ::sigqueue(::getpid(), SIGRTMIN, sigval{});
}

// Locks shared memory, which the kernel counts per user and not per process.
long LockShared(int) {
  const int segment = ::shmget(IPC_PRIVATE, 1 << 20, 0600);
  if (segment < 0) return segment;
  // The attachment keeps the segment. Nothing of it outlives the probe.
  void* const here = ::shmat(segment, nullptr, 0);
  if (::shmctl(segment, IPC_RMID, nullptr) < 0 || here == reinterpret_cast<void*>(-1)) return -1;
  return ::shmctl(segment, SHM_LOCK, nullptr);
}

long MakeTimer(int) {
  sigevent event{};
  event.sigev_notify = SIGEV_NONE;
  timer_t timer;
  return ::timer_create(CLOCK_MONOTONIC, &event, &timer);
}

// Beyond a user's share, pipes get smaller, not fewer.
long MakePipe(int) {
  int fds[2];
  if (::pipe(fds) != 0) return -1;
  if (::fcntl(fds[0], F_GETPIPE_SZ) == 65536) return 0;
  errno = EDQUOT;
  return -1;
}

// Sends the largest number of descriptors that fits into one message. Nobody receives them.
long SendDescriptors(int) {
  static const std::array<int, 2> pair = [] {
    std::array<int, 2> fds{-1, -1};
    (void)::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data());
    return fds;
  }();
  constexpr size_t kMost = 253;  // SCM_MAX_FD
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMost * sizeof(int))> control{};
  char byte = 0;
  iovec data{&byte, 1};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(kMost * sizeof(int));
  const std::array<int, kMost> fds{};  // standard input, repeated
  ::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
  return ::sendmsg(pair[0], &message, MSG_NOSIGNAL);
}

// An epoll instance can watch a file once, so a thousand instances watch each file.
long WatchByEpoll(int i) {
  constexpr size_t kInstances = 1000;
  static std::vector<int> instances;
  static int file = -1;
  const size_t at = static_cast<size_t>(i) % kInstances;
  if (at == 0) file = ::eventfd(0, 0);
  if (instances.size() < kInstances) instances.push_back(::epoll_create1(0));
  epoll_event event{};
  return file < 0 ? file : ::epoll_ctl(instances[at], EPOLL_CTL_ADD, file, &event);
}

long OpenTerminal(int) {
  return ::open("/dev/ptmx", O_RDWR | O_NOCTTY);
}

long SetUpAio(int) {
  aio_context_t context = 0;
  return ::syscall(SYS_io_setup, 16, &context);
}

long MapHugePages(int) {
  // A huge page size that does not exist, because an empty pool would give the same error as the
  // filter.
  constexpr int kHuge = MAP_HUGETLB | static_cast<int>(63U << MAP_HUGE_SHIFT);
  void* const map = ::mmap(nullptr, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | kHuge, -1, 0);
  return map == MAP_FAILED ? -1 : 0;
}

struct Budget {
  const char* name;
  int most;
  long (*take)(int i);
};
constexpr Budget kBudgets[] = {
    {"socket-filters", 16, AttachFilter},
    {"seccomp-filters", 4, LoadSeccomp},
    {"prctl-filters", 4, LoadSeccompByPrctl},
    {"flow-labels", 16, LabelFlow},
    {"aio-contexts", 4, SetUpAio},
    {"huge-pages", 1, MapHugePages},
    {"terminals", 200, OpenTerminal},
    {"inotify", 1000, WatchFiles},
    {"queues", 1000, MakeQueue},
    {"signals", 40000, QueueSignal},
    {"timers", 40000, MakeTimer},
    {"locked", 32, LockShared},
    {"pipes", 2000, MakePipe},
    {"descriptors", 400, SendDescriptors},
    {"epoll", 40000, WatchByEpoll},
};

void Take(const Budget& budget) {
  int taken = 0;
  const char* end = "MORE";
  for (; taken < budget.most; ++taken) {
    if (budget.take(taken) < 0) {
      end = strerrorname_np(errno);
      break;
    }
  }
  std::printf("%s: %d %s\n", budget.name, taken, end);
}

}  // namespace

int main(int argc, char** argv) {
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGTERM);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);  // a signal that is queued stays queued
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  for (int i = 1; i < argc; ++i) {
    const std::string_view name(argv[i]);
    if (name == "hold") {
      std::puts("held");
      std::fflush(stdout);
      for (;;) ::pause();
    }
    bool known = false;
    for (const Budget& budget : kBudgets) {
      if (name != budget.name) continue;
      known = true;
      Take(budget);
    }
    if (!known) std::printf("%s: no such budget\n", argv[i]);
  }
}
