#include "execd/files/files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"
#include "runtime/http/ascii.h"

namespace atl::execd {
namespace {

constexpr size_t kWholeAnswer = 64 << 10;

const char* TypeName(mode_t mode) {
  if (S_ISREG(mode)) return "file";
  if (S_ISDIR(mode)) return "directory";
  if (S_ISLNK(mode)) return "symlink";
  return "other";
}

// Converts 0755 to the number 755.
int64_t SpellOctal(mode_t mode) {
  int64_t out = 0;
  for (int shift = 9; shift >= 0; shift -= 3) out = out * 10 + ((mode >> shift) & 7);
  return out;
}

// One answer in progress. The slices and the exchange's callbacks keep it alive.
class Production : public std::enable_shared_from_this<Production> {
 public:
  Production(EventLoop* loop, std::shared_ptr<Exchange> exchange,
             std::unique_ptr<Producer> producer, HeaderList headers)
      : loop_(*loop),
        exchange_(std::move(exchange)),
        producer_(std::move(producer)),
        headers_(std::move(headers)) {}

  void Begin() {
    exchange_->OnClosed([self = shared_from_this()] { self->producer_.reset(); });
    exchange_->OnWritable([self = shared_from_this()] {
      if (!self->queued_) self->Queue();
    });
    if (Step()) Queue();
  }

 private:
  void Queue() {
    queued_ = true;
    loop_.Slice([self = shared_from_this()] {
      self->queued_ = self->Step();
      return self->queued_;
    });
  }

  // Returns true if it must be called again at once.
  bool Step() {
    if (!producer_) return false;
    const int64_t end = MonotonicMicros() + kSliceUs;
    bool more = true;
    while (more && out_.size() < kWholeAnswer && MonotonicMicros() < end) {
      more = producer_->Produce(&out_);
    }
    if (!more && !exchange_->started()) {
      std::string_view type;
      HeaderList rest;
      for (const auto& [name, value] : headers_) {
        if (http::EqualNoCase(name, "content-type")) {
          type = value;
        } else {
          rest.emplace_back(name, value);
        }
      }
      exchange_->Respond(200, type, out_, rest);
    } else if (!more || out_.size() >= kWholeAnswer) {
      exchange_->StartStream(200, headers_);
      exchange_->Write(out_);
      out_.clear();
      if (!more) exchange_->Finish();
    }
    if (!more) {
      producer_.reset();
      return false;
    }
    return exchange_->backlog() <= Exchange::kHighWater;
  }

  EventLoop& loop_;
  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<Producer> producer_;
  HeaderList headers_;
  std::string out_;
  bool queued_ = false;
};

}  // namespace

Result<UniqueFd> OpenNoMagic(const std::string& path, int flags, mode_t mode) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.mode = mode;
  how.resolve = RESOLVE_NO_MAGICLINKS;
  const long fd =
      TEMP_FAILURE_RETRY(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how));
  if (fd < 0) return FailSys("open " + path);
  return UniqueFd(static_cast<int>(fd));
}

std::string AbsolutePath(const Core& core, std::string_view path) {
  std::string joined;
  if (path.empty() || path[0] != '/') joined.append(core.cwd).append("/");
  joined.append(path);
  std::string out;
  std::string_view rest = joined;
  while (!rest.empty()) {
    const size_t end = rest.find('/');
    const std::string_view part = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      out.resize(out.empty() ? 0 : out.rfind('/'));
    } else {
      out.append("/").append(part);
    }
  }
  return out.empty() ? "/" : out;
}

std::string_view BaseName(std::string_view absolute_path) {
  return absolute_path.substr(absolute_path.rfind('/') + 1);
}

Result<Place> FindPlace(const std::string& absolute_path) {
  Place place;
  const size_t slash = absolute_path.rfind('/');
  const std::string parent = slash == 0 ? "/" : absolute_path.substr(0, slash);
  place.name = absolute_path.substr(slash + 1);
  if (place.name.empty()) place.name = ".";
  ATOLL_ASSIGN(place.dir, OpenNoMagic(parent, O_PATH | O_DIRECTORY));
  return place;
}

Result<UniqueFd> OpenRegular(const std::string& path, int flags, struct stat* info) {
  // Opens by O_PATH first, which has no side effects on devices and FIFOs; opening some devices
  // does, and so would O_TRUNC. The name may mean another file the second time, so the type is
  // checked again.
  ATOLL_ASSIGN(const UniqueFd look, OpenNoMagic(path, O_PATH));
  if (::fstat(look.get(), info) != 0) return FailSys("fstat " + path);
  UniqueFd file;
  if (S_ISREG(info->st_mode)) {
    ATOLL_ASSIGN(file, OpenNoMagic(path, flags | O_NONBLOCK | O_NOCTTY));
    if (::fstat(file.get(), info) != 0) return FailSys("fstat " + path);
  }
  if (S_ISDIR(info->st_mode)) return Fail(SysError("open " + path, EISDIR));
  if (!S_ISREG(info->st_mode)) {
    return Fail(Code::kInvalidArgument, path + ": is not a regular file");
  }
  return file;
}

Result<struct stat> Attributes(const std::string& path) {
  ATOLL_ASSIGN(const UniqueFd fd, OpenNoMagic(path, O_PATH | O_NOFOLLOW));
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return FailSys("lstat " + path);
  return info;
}

void AppendFileInfo(std::string* out, NameTable* names, std::string_view path,
                    const struct stat& info) {
  out->append("{\"path\":");
  AppendJsonString(out, path);
  out->append(",\"type\":\"").append(TypeName(info.st_mode)).append("\",\"size\":");
  AppendJsonInteger(out, info.st_size);
  out->append(",\"modified_at\":");
  AppendJsonTime(out, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  // The inode's change time, as in upstream.
  out->append(",\"created_at\":");
  AppendJsonTime(out, info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
  out->append(",\"owner\":");
  AppendJsonString(out, names->UserName(info.st_uid));
  out->append(",\"group\":");
  AppendJsonString(out, names->GroupName(info.st_gid));
  out->append(",\"mode\":");
  AppendJsonInteger(out, SpellOctal(info.st_mode & 07777));
  out->push_back('}');
}

Result<Permission> ParsePermission(const JsonValue& object, NameTable* names) {
  Permission permission;
  if (object.is(JsonType::kNull)) return permission;
  if (!object.is(JsonType::kObject)) {
    return Fail(Code::kInvalidArgument, "must be an object with owner, group and mode");
  }
  ATOLL_ASSIGN(const std::string owner, TextMember(object, "owner"));
  ATOLL_ASSIGN(const std::string group, TextMember(object, "group"));
  if (!owner.empty()) {
    const auto uid = names->UserId(owner);
    if (!uid) return Fail(Code::kInvalidArgument, uid.error().message());
    permission.owner = *uid;
  }
  if (!group.empty()) {
    const auto gid = names->GroupId(group);
    if (!gid) return Fail(Code::kInvalidArgument, gid.error().message());
    permission.group = *gid;
  }
  ATOLL_ASSIGN(int64_t digits, IntegerMember(object, "mode", 0, 7777, 0));
  for (int shift = 0; digits > 0; shift += 3, digits /= 10) {
    if (digits % 10 > 7) {
      return Fail(Code::kInvalidArgument, "mode: must be octal digits, such as 644 or 755");
    }
    permission.mode |= static_cast<mode_t>(digits % 10) << shift;
  }
  return permission;
}

Status ApplyOwner(int fd, const Permission& permission) {
  const auto [owner, group, mode] = permission;
  if (owner == Permission::kLeave && group == Permission::kLeave) return {};
  if (::fchownat(fd, "", owner, group, AT_EMPTY_PATH) == 0) return {};
  const auto text = [](uint32_t id) { return id == Permission::kLeave ? "" : std::to_string(id); };
  return FailSys("chown to '" + text(owner) + "', '" + text(group) + "'");
}

Status ApplyPermission(int fd, const Permission& permission) {
  ATOLL_TRY(ApplyOwner(fd, permission));
  if (permission.mode == 0) return {};
  // After chown, which clears set-id bits. By name, because chmod of an O_PATH descriptor needs
  // Linux 6.6.
  const std::string name = sys::FdPath(fd);
  if (::chmod(name.c_str(), permission.mode) != 0) return FailSys("chmod");
  return {};
}

void RespondFileError(Exchange* exchange, const Error& error) {
  if (error.code() == Code::kNotFound) {
    exchange->RespondError(404, "FILE_NOT_FOUND", error.message());
  } else {
    exchange->RespondError(500, "RUNTIME_ERROR", error.message());
  }
}

void RunProducer(EventLoop* loop, const std::shared_ptr<Exchange>& exchange,
                 std::unique_ptr<Producer> producer, HeaderList headers) {
  std::make_shared<Production>(loop, exchange, std::move(producer), std::move(headers))->Begin();
}

void FileRoutes::Info(const Ptr& exchange, const Actor& actor) {
  // Runs with execd's identity, because names come from the sandbox's files, whoever asks.
  core_.names.Refresh();
  const FileIdentity as(*actor);
  std::string body = "{";
  for (const auto& [name, value] : exchange->query()) {
    if (name != "path") continue;
    const auto path = core_.Path(value);
    const auto info = path ? Attributes(*path) : Fail(path.error());
    if (!info) {
      RespondFileError(exchange.get(), info.error());
      return;
    }
    if (body.size() > 1) body.push_back(',');
    AppendJsonString(&body, value);
    body.push_back(':');
    AppendFileInfo(&body, &core_.names, AbsolutePath(core_, *path), *info);
  }
  body.push_back('}');
  exchange->RespondJson(200, body);
}

void FileRoutes::Delete(const Ptr& exchange, const Actor& actor) {
  const FileIdentity as(*actor);
  for (const auto& [name, value] : exchange->query()) {
    if (name != "path") continue;
    const auto path = core_.Path(value);
    const auto place = path ? FindPlace(AbsolutePath(core_, *path)) : Fail(path.error());
    Status status;
    if (!place) {
      // A missing file needs no deletion.
      if (place.error().code() == Code::kNotFound) continue;
      status = Fail(place.error());
    } else if (::unlinkat(place->dir.get(), place->name.c_str(), 0) != 0 && errno != ENOENT) {
      status = FailSys("delete " + value);
    }
    if (!status) {
      exchange->RespondError(500, "RUNTIME_ERROR", status.error().message());
      return;
    }
  }
  exchange->RespondEmpty();
}

void FileRoutes::Permit(const Ptr& exchange, const Actor& actor, Opener open) {
  core_.names.Refresh();
  const auto read = [this](const JsonValue& member) {
    auto permission = ParsePermission(member, &core_.names);
    if (!permission) permission = Fail(Error(permission.error()).Wrap(std::string(member.name())));
    return permission;
  };
  const auto check = [read](const JsonValue& member) -> Status {
    ATOLL_TRY(read(member));
    return {};
  };
  ForEachInBody(
      &core_.loop, exchange, JsonType::kObject, check,
      [this, actor, read, open = std::move(open)](const JsonValue& member) -> Status {
        const std::string named(member.name());
        ATOLL_ASSIGN(const Permission permission, read(member));
        ATOLL_ASSIGN(const std::string path, core_.Path(named));
        const FileIdentity as(*actor);
        ATOLL_ASSIGN(const UniqueFd fd, open(path, permission));
        auto applied = ApplyPermission(fd.get(), permission);
        if (!applied) return Fail(std::move(applied).error().Wrap(named));
        return {};
      },
      [x = exchange.get()](const Status& status) {
        if (status) {
          x->RespondEmpty();
        } else if (status.error().code() == Code::kInvalidArgument &&
                   status.error().error_number() == 0) {
          x->RespondError(400, "INVALID_REQUEST_BODY", status.error().message());
        } else {
          x->RespondError(500, "RUNTIME_ERROR", status.error().message());
        }
      });
}

void FileRoutes::Permissions(const Ptr& exchange, const Actor& actor) {
  Permit(exchange, actor,
         [](const std::string& path, const Permission&) { return OpenNoMagic(path, O_PATH); });
}

void FileRoutes::Move(const Ptr& exchange, const Actor& actor) {
  ForEachInBody(
      &core_.loop, exchange, JsonType::kArray, {},
      [this, actor](const JsonValue& item) -> Status {
        ATOLL_ASSIGN(const std::string src, TextMember(item, "src"));
        ATOLL_ASSIGN(const std::string dest, TextMember(item, "dest"));
        ATOLL_ASSIGN(const std::string from_path, core_.Path(src));
        ATOLL_ASSIGN(const std::string to_path, core_.Path(dest));
        const FileIdentity as(*actor);
        ATOLL_ASSIGN(const Place from, FindPlace(AbsolutePath(core_, from_path)));
        struct stat info;
        if (::fstatat(from.dir.get(), from.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
          return FailSys("move " + src);
        }
        const std::string to = AbsolutePath(core_, to_path);
        const size_t slash = to.rfind('/');
        ATOLL_ASSIGN(const UniqueFd parent,
                     MakeDirectory(slash == 0 ? "/" : to.substr(0, slash), *actor));
        // One system call, so that a destination that appears meanwhile is not overwritten.
        if (::renameat2(from.dir.get(), from.name.c_str(), parent.get(), to.c_str() + slash + 1,
                        RENAME_NOREPLACE) != 0) {
          // kNotFound is reserved for a missing source.
          Error error = SysError("move " + src + " to " + dest);
          return Fail(Code::kFailedPrecondition, error.message());
        }
        return {};
      },
      [x = exchange.get()](const Status& status) {
        if (status) {
          x->RespondEmpty();
        } else if (status.error().code() == Code::kInvalidArgument) {
          x->RespondError(400, "INVALID_REQUEST_BODY", status.error().message());
        } else {
          RespondFileError(x, status.error());
        }
      });
}

}  // namespace atl::execd
