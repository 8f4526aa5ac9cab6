#include "execd/core/core.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runtime/base/sandbox_id.h"
#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

Result<UniqueFd> OpenPath(int dirfd, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, dirfd, path.c_str(), &how, sizeof how);
  if (fd < 0) return FailSys("open directory " + path);
  return UniqueFd(static_cast<int>(fd));
}

}  // namespace

Environment Core::CommandEnvironment(const std::vector<std::pair<std::string, std::string>>& extra,
                                     const Identity& who) const {
  TouchEnvsFile();  // the command may come before the loop runs the posted call
  Environment out = env;
  if (!home_given && who.uid != user.uid) out.Set("HOME", who.home);
  const char* file = env.Get("EXECD_ENVS");
  if (file && *file) out.MergeFile(file);
  out.SetAll(extra);
  return out;
}

void Core::TouchEnvsFile() const {
  if (std::exchange(envs_file_touched_, true)) return;
  const char* named = env.Get("EXECD_ENVS");
  const std::string path = named ? named : "";
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) return;  // the image or the root has it already
  const size_t slash = path.rfind('/');
  if (path.empty() || path[0] != '/' || slash + 1 == path.size()) return;
  const auto directory = MakeDirectory(slash == 0 ? "/" : path.substr(0, slash), user);
  if (!directory) return;
  const FileIdentity as(user);
  const UniqueFd file(::openat(directory->get(), path.c_str() + slash + 1,
                               O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
}

std::string_view Core::Home(const Identity& who) const {
  const char* home = home_given || who.uid == user.uid ? env.Get("HOME") : nullptr;
  return home && *home ? std::string_view(home) : std::string_view(who.home);
}

std::string Core::Shell() const {
  std::string shell = FindProgram("bash", env);
  if (shell.empty()) shell = FindProgram("sh", env);
  return shell;
}

bool Core::IsOrphan(pid_t pid) const {
  siginfo_t info;
  return !children_.contains(pid) &&
         ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

void Core::Reap() {
  bool any = false;
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) break;
    any = true;
    const auto found = children_.find(pid);
    if (found == children_.end()) continue;  // an orphan
    OnExit on_exit = std::move(found->second);
    children_.erase(found);
    on_exit(status);
  }
  if (any) leaves.Collect();
}

Result<UniqueFd> OpenDirectory(const std::string& path, const Identity& identity) {
  const FileIdentity as(identity);
  return OpenPath(AT_FDCWD, path);
}

Result<UniqueFd> MakeDirectory(const std::string& path, const Identity& identity,
                               const std::function<Status(int dir)>& on_made) {
  const FileIdentity as(identity);
  auto present = OpenPath(AT_FDCWD, path);
  if (present || present.error().error_number() != ENOENT) return present;
  ATOLL_ASSIGN(UniqueFd dir, OpenPath(AT_FDCWD, path[0] == '/' ? "/" : "."));
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    const bool made = ::mkdirat(dir.get(), part.c_str(), 0755) == 0;
    if (!made && errno != EEXIST) return FailSys("mkdir " + path.substr(0, end));
    ATOLL_ASSIGN(dir, OpenPath(dir.get(), part));
    if (made && on_made) ATOLL_TRY(on_made(dir.get()));
  }
  return dir;
}

Result<UniqueFd> OpenNull() {
  auto null = sys::Open("/dev/null", O_RDWR | O_NOCTTY | O_NONBLOCK);
  struct stat info;
  if (null && ::fstat(null->get(), &info) == 0 && S_ISCHR(info.st_mode)) return null;
  // A read from it returns the end of file at once.
  ATOLL_ASSIGN(sys::Pipe pipe, sys::MakePipe());
  return std::move(pipe.read);
}

std::string NewUuid(bool hyphens) {
  std::string bytes = sys::RandomBytes(16);
  bytes[6] = static_cast<char>((bytes[6] & 0x0F) | 0x40);
  bytes[8] = static_cast<char>((bytes[8] & 0x3F) | 0x80);
  std::string text = HexEncode(bytes);
  if (hyphens) {
    for (const size_t at : {20, 16, 12, 8}) text.insert(at, 1, '-');
  }
  return text;
}

int64_t ParseDuration(std::string_view text) {
  if (text.empty()) return -1;
  double total = 0;
  size_t i = 0;
  while (i < text.size()) {
    double value = 0, scale = 1;
    const size_t start = i;
    bool point = false;
    for (; i < text.size(); ++i) {
      if (text[i] == '.' && !point) {
        point = true;
      } else if (text[i] >= '0' && text[i] <= '9') {
        value = value * 10 + (text[i] - '0');
        if (point) scale *= 10;
      } else {
        break;
      }
    }
    if (i == start) return -1;
    const size_t unit_start = i;
    while (i < text.size() && text[i] != '.' && (text[i] < '0' || text[i] > '9')) ++i;
    const std::string_view unit = text.substr(unit_start, i - unit_start);
    double micros;
    if (unit == "us" || unit == "µs") {
      micros = 1;
    } else if (unit == "ms") {
      micros = 1e3;
    } else if (unit == "s" || (unit.empty() && value == 0)) {
      micros = 1e6;
    } else if (unit == "m") {
      micros = 60e6;
    } else if (unit == "h") {
      micros = 3600e6;
    } else {
      return -1;
    }
    total += value / scale * micros;
  }
  return total < 1e15 ? static_cast<int64_t>(total) : -1;
}

int64_t Core::Count(LimitEvent event) const {
  if (accounts.present()) return accounts.Count(event);
  const UniqueFd& file = limit_files[static_cast<size_t>(event)];
  return file ? ReadCount(file.get(), event) : 0;
}

void Core::Note(LimitEvent event) {
  const int64_t count = Count(event);
  if (count <= Noted(event)) return;
  Noted(event) = count;
  if (note) note(event);
}

}  // namespace atl::execd
