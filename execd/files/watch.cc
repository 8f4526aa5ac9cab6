#include "execd/files/watch.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <map>

#include "execd/files/file_writer.h"
#include "execd/files/files.h"
#include "execd/files/tree_walk.h"
#include "runtime/base/clock.h"
#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

// inotify's own limits apply to a user and are shared by all sandboxes of the host. This limit
// keeps one request from using all of them.
constexpr size_t kMaxWatches = 4096;
constexpr int64_t kWatchPingUs = 15'000'000;
constexpr uint32_t kMask = IN_CREATE | IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_DELETE |
                           IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF |
                           IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK;

const char* EventName(uint32_t mask) {
  if (mask & IN_CREATE) return "create";
  if (mask & (IN_CLOSE_WRITE | IN_MODIFY)) return "modify";
  if (mask & IN_ATTRIB) return "attributes";
  if (mask & IN_DELETE) return "delete";
  if (mask & IN_MOVED_FROM) return "moved_from";
  if (mask & IN_MOVED_TO) return "moved_to";
  return nullptr;
}

class FileWatch : public std::enable_shared_from_this<FileWatch> {
 public:
  FileWatch(Core* core, std::shared_ptr<Exchange> exchange, UniqueFd inotify, bool recursive)
      : core_(*core),
        exchange_(std::move(exchange)),
        inotify_(std::move(inotify)),
        recursive_(recursive) {}

  // Adds watches. Fails if the root cannot be watched; directories below that cannot be watched are
  // skipped.
  Status Begin(const std::string& path) {
    const FileIdentity as(core_.user);
    ATOLL_ASSIGN(const UniqueFd dir, OpenDirectory(path, core_.user));
    ATOLL_TRY(AddWatch(dir.get(), path));
    const auto self = shared_from_this();
    ATOLL_ASSIGN(watch_, core_.loop.Watch(inotify_.get(), EPOLLIN,
                                          [self](uint32_t) { self->OnReadable(); }));
    exchange_->StartStream(200, {{"Content-Type", "application/x-ndjson"},
                                 {"Cache-Control", "no-cache"},
                                 {"X-Accel-Buffering", "no"}});
    exchange_->OnClosed([self] { self->End(); });
    exchange_->OnWritable([self] { self->Resume(); });
    root_ = path;
    if (recursive_) {
      AddBelow(path, false);
    } else {
      ready_ = true;
      Line("ready", path, false);
      Send();
    }
    ping_ = core_.loop.After(kWatchPingUs, [this] { Ping(); });
    return {};
  }

 private:
  struct Walk {
    TreeWalk tree;
    std::string path;
    bool report;
  };

  Status AddWatch(int dir, const std::string& path) {
    if (paths_.size() >= kMaxWatches) {
      return Fail(Code::kResourceExhausted, "more than 4096 directories to watch");
    }
    // Watches the descriptor's path, so that no link can replace the directory that was checked.
    const std::string name = sys::FdPath(dir);
    const int id = ::inotify_add_watch(inotify_.get(), name.c_str(), kMask & ~IN_DONT_FOLLOW);
    if (id < 0) return FailSys("inotify_add_watch " + path);
    paths_[id] = path;
    return {};
  }

  // Watches all directories below `path`. `report` reports everything found there, because it was
  // created before the watch.
  void AddBelow(const std::string& path, bool report) {
    auto root = OpenDirectory(path, core_.user);
    auto dir = root ? sys::OpenAt(root->get(), ".", O_RDONLY | O_DIRECTORY) : std::move(root);
    if (!dir) return;
    walks_.push_back({TreeWalk(std::move(*dir), 0), path, report});
    if (walks_.size() > 1) return;
    core_.loop.Slice([self = shared_from_this()] { return self->StepWalks(); });
  }

  bool StepWalks() {
    const FileIdentity as(core_.user);
    const int64_t end = MonotonicMicros() + kSliceUs;
    while (inotify_ && !walks_.empty() && MonotonicMicros() < end) {
      if (!StepWalk(&walks_.front())) walks_.pop_front();
    }
    if (!inotify_) return false;
    if (walks_.empty() && !ready_) {
      ready_ = true;
      Line("ready", root_, false);
    }
    Send();
    return !walks_.empty();
  }

  bool StepWalk(Walk* walk) {
    TreeWalk::Entry entry;
    if (!walk->tree.Next(&entry)) return false;
    const std::string full = (walk->path == "/" ? walk->path : walk->path + "/") + entry.path;
    if (walk->report) Line("create", full, S_ISDIR(entry.info.st_mode));
    if (!S_ISDIR(entry.info.st_mode)) return true;
    auto sub =
        sys::OpenAt(walk->tree.dir(), std::string(entry.name), O_PATH | O_DIRECTORY | O_NOFOLLOW);
    const Status added = sub ? AddWatch(sub->get(), full) : Status(Fail(sub.error()));
    if (added || added.error().code() != Code::kResourceExhausted) return true;
    // Reported once per walk, so that the client knows that it does not see everything.
    Line("limit", full, true);
    return false;
  }

  void OnReadable() {
    alignas(inotify_event) char buffer[4096];
    const ssize_t n = ::read(inotify_.get(), buffer, sizeof buffer);
    if (n <= 0) return;
    const FileIdentity as(core_.user);
    for (ssize_t at = 0; at < n;) {
      inotify_event event;
      std::memcpy(&event, buffer + at, sizeof event);
      const char* name = buffer + at + sizeof event;
      at += static_cast<ssize_t>(sizeof event + event.len);
      OnEvent(event, event.len > 0 ? std::string_view(name) : std::string_view());
    }
    Send();
    if (exchange_->backlog() > Exchange::kHighWater && watch_ != 0) {
      // The kernel's queue is bounded and has overflowed.
      core_.loop.Unwatch(watch_);
      watch_ = 0;
    }
  }

  void OnEvent(const inotify_event& event, std::string_view name) {
    if (event.mask & IN_Q_OVERFLOW) {
      Line("overflow", {}, false);
      return;
    }
    const auto found = paths_.find(event.wd);
    if (found == paths_.end()) return;
    if (event.mask & IN_IGNORED) {
      paths_.erase(found);
      return;
    }
    const char* what = EventName(event.mask);
    if (!what || name.starts_with(FileWriter::kTemporaryPrefix)) return;
    std::string path = found->second;
    if (path.back() != '/') path.push_back('/');
    path.append(name);
    const bool directory = (event.mask & IN_ISDIR) != 0;
    // Merges many writes to one file: IN_MODIFY is reported only if the last event was another one.
    if ((event.mask & IN_MODIFY) && path == last_modified_) return;
    last_modified_ = (event.mask & IN_MODIFY) ? path : std::string();
    Line(what, path, directory);
    if (directory && recursive_ && (event.mask & (IN_CREATE | IN_MOVED_TO))) {
      auto dir = OpenDirectory(path, core_.user);
      if (dir && AddWatch(dir->get(), path)) AddBelow(path, true);
    }
  }

  void Line(std::string_view event, std::string_view path, bool directory) {
    out_.append("{\"event\":\"").append(event).append("\"");
    if (!path.empty()) {
      out_.append(",\"path\":");
      AppendJsonString(&out_, path);
      out_.append(directory ? ",\"type\":\"directory\"" : "");
    }
    out_.append(",\"timestamp\":");
    AppendJsonInteger(&out_, UnixMillis());
    out_.append("}\n");
  }
  void Send() {
    exchange_->Write(out_);
    out_.clear();
  }
  // Keeps proxies from closing an idle stream, and detects clients that have disconnected.
  void Ping() {
    Line("ping", {}, false);
    Send();
    ping_ = core_.loop.After(kWatchPingUs, [this] { Ping(); });
  }
  void Resume() {
    if (watch_ != 0) return;
    const auto id = core_.loop.Watch(inotify_.get(), EPOLLIN,
                                     [self = shared_from_this()](uint32_t) { self->OnReadable(); });
    if (id) watch_ = *id;
  }
  void End() {
    core_.loop.Cancel(ping_);
    core_.loop.Unwatch(watch_);
    watch_ = 0;
    inotify_.reset();
  }

  Core& core_;
  std::shared_ptr<Exchange> exchange_;
  UniqueFd inotify_;
  bool recursive_;
  EventLoop::Id watch_ = 0, ping_ = 0;
  std::map<int, std::string> paths_;
  std::deque<Walk> walks_;
  bool ready_ = false;
  std::string root_, out_, last_modified_;
};

}  // namespace

void WatchFiles(Core* core, const std::shared_ptr<Exchange>& exchange) {
  const std::string* given = exchange->QueryValue("path");
  if (!given || given->empty()) {
    exchange->RespondError(400, "MISSING_QUERY", "missing query parameter 'path'");
    return;
  }
  const std::string* recursive = exchange->QueryValue("recursive");
  const auto path = LiteralPath(*given, core->Home());
  UniqueFd inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!path || !inotify) {
    exchange->RespondError(path ? 500 : 400, path ? "RUNTIME_ERROR" : "INVALID_REQUEST_BODY",
                           path ? SysError("inotify_init1").message() : path.error().message());
    return;
  }
  auto watch = std::make_shared<FileWatch>(core, exchange, std::move(inotify),
                                           !(recursive && *recursive == "false"));
  const Status begun = watch->Begin(AbsolutePath(*core, *path));
  if (begun) return;
  if (begun.error().error_number() == ENOTDIR) {
    exchange->RespondError(400, "INVALID_REQUEST_BODY", *given + ": is not a directory");
  } else {
    RespondFileError(exchange.get(), begun.error());
  }
}

}  // namespace atl::execd
