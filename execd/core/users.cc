#include "execd/core/users.h"

#include <linux/openat2.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

#include "runtime/base/sys.h"

namespace atl::execd {

std::optional<uint32_t> ParseId(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  // (uid_t)-1 means "unchanged" in setresuid and chown.
  if (value == 0xFFFFFFFFU) return {};
  return value;
}

namespace {

constexpr size_t kMaxAccountsFile = 4 << 20;
constexpr size_t kMaxGroups = 1024;
constexpr const char* kPasswd = "/etc/passwd";
constexpr const char* kGroup = "/etc/group";

// Removes the next field up to `separator` from `rest` and returns it.
std::string_view Field(std::string_view* rest, char separator) {
  const size_t end = rest->find(separator);
  const std::string_view field = rest->substr(0, end);
  *rest = end == std::string_view::npos ? std::string_view() : rest->substr(end + 1);
  return field;
}

struct PasswdEntry {
  std::string_view name, home;
  uint32_t uid = 0, gid = 0;
};

std::optional<PasswdEntry> ParsePasswd(std::string_view line) {
  PasswdEntry entry;
  entry.name = Field(&line, ':');
  Field(&line, ':');
  const auto uid = ParseId(Field(&line, ':')), gid = ParseId(Field(&line, ':'));
  Field(&line, ':');
  entry.home = Field(&line, ':');
  if (entry.name.empty() || !uid || !gid) return {};
  entry.uid = *uid;
  entry.gid = *gid;
  return entry;
}

struct GroupEntry {
  std::string_view name, members;
  uint32_t gid = 0;
};

std::optional<GroupEntry> ParseGroup(std::string_view line) {
  GroupEntry entry;
  entry.name = Field(&line, ':');
  Field(&line, ':');
  const auto gid = ParseId(Field(&line, ':'));
  entry.members = Field(&line, ':');
  if (entry.name.empty() || !gid) return {};
  entry.gid = *gid;
  return entry;
}

std::string ReadTable(const char* path) {
  auto text = ReadSmallFile(path, kMaxAccountsFile);
  return text ? std::move(*text) : std::string();
}

template <typename F>
void EachLine(std::string_view text, F f) {
  while (!text.empty()) {
    if (!f(Field(&text, '\n'))) return;
  }
}

// Fills name, home and gid from the entry of the uid or the name. Returns false if there is none.
bool FillFromPasswd(std::optional<uint32_t> uid, std::string_view name, Identity* identity) {
  const std::string text = ReadTable(kPasswd);
  bool found = false;
  EachLine(text, [&](std::string_view line) {
    const auto entry = ParsePasswd(line);
    if (!entry || (uid ? entry->uid != *uid : entry->name != name)) return true;
    identity->uid = entry->uid;
    identity->gid = entry->gid;
    identity->name = entry->name;
    if (!entry->home.empty()) identity->home = entry->home;
    found = true;
    return false;
  });
  return found;
}

std::vector<gid_t> SupplementaryGroups(std::string_view user) {
  std::vector<gid_t> groups;
  if (user.empty()) return groups;
  const std::string text = ReadTable(kGroup);
  EachLine(text, [&](std::string_view line) {
    const auto entry = ParseGroup(line);
    if (!entry) return true;
    std::string_view members = entry->members;
    while (!members.empty()) {
      if (Field(&members, ',') == user) {
        groups.push_back(entry->gid);
        break;
      }
    }
    return groups.size() < kMaxGroups;
  });
  return groups;
}

Result<gid_t> ResolveGroup(std::string_view group) {
  std::optional<gid_t> gid;
  const std::string text = ReadTable(kGroup);
  EachLine(text, [&](std::string_view line) {
    const auto entry = ParseGroup(line);
    if (entry && entry->name == group) gid = entry->gid;
    return !gid;
  });
  if (gid) return *gid;
  const auto number = ParseId(group);
  if (number) return *number;
  return Fail(Code::kNotFound, "group '" + std::string(group) + "': no entry in /etc/group");
}

}  // namespace

Result<std::string> ReadSmallFile(const std::string& path, size_t limit) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_NO_MAGICLINKS;
  UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
  if (!fd) return FailSys("open " + path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return FailSys("fstat " + path);
  if (!S_ISREG(info.st_mode)) {
    return Fail(Code::kInvalidArgument, path + ": not a regular file");
  }
  return sys::ReadAll(fd.get(), limit);
}

Result<Identity> ResolveUser(std::string_view user) {
  Identity identity;
  std::string_view group = user;
  const std::string_view name = Field(&group, ':');
  const bool has_group = user.find(':') != std::string_view::npos && !group.empty();
  const auto number = ParseId(name);
  if (name.empty()) {
    FillFromPasswd(0, {}, &identity);
  } else if (!FillFromPasswd({}, name, &identity)) {
    if (!number) {
      return Fail(Code::kNotFound, "user '" + std::string(name) + "': no entry in /etc/passwd");
    }
    if (!FillFromPasswd(number, {}, &identity)) identity.uid = *number;
  }
  if (has_group) {
    ATOLL_ASSIGN(identity.gid, ResolveGroup(group));
  } else {
    identity.groups = SupplementaryGroups(identity.name);
  }
  return identity;
}

Result<Identity> ResolveIds(const RequestIds& ids) {
  Identity identity;
  identity.uid = ids.uid;
  identity.gid = ids.uid;
  if (FillFromPasswd(ids.uid, {}, &identity)) identity.groups = SupplementaryGroups(identity.name);
  if (ids.gid) identity.gid = *ids.gid;
  if (CanBe(identity)) return identity;
  return Fail(Code::kInvalidArgument, "uid " + std::to_string(identity.uid) + " and gid " +
                                          std::to_string(identity.gid) +
                                          " are not both within the ids of this sandbox");
}

void NameTable::Reload(Table* table) {
  struct stat info;
  if (::stat(table->path, &info) != 0) info = {};
  if (info.st_ino == table->inode && info.st_size == table->size &&
      info.st_mtim.tv_sec == table->mtime.tv_sec && info.st_mtim.tv_nsec == table->mtime.tv_nsec) {
    return;
  }
  table->inode = info.st_ino;
  table->size = info.st_size;
  table->mtime = info.st_mtim;
  table->by_name.clear();
  table->by_id.clear();
  const std::string text = ReadTable(table->path);
  EachLine(text, [&](std::string_view line) {
    const std::string_view name = Field(&line, ':');
    Field(&line, ':');
    const auto id = ParseId(Field(&line, ':'));
    if (name.empty() || !id) return true;
    table->by_name.emplace(name, *id);
    table->by_id.emplace(*id, name);
    return true;
  });
}

void NameTable::Refresh() {
  Reload(&users_);
  Reload(&groups_);
}

const std::string& NameTable::Name(Table* table, uint32_t id) {
  const auto found = table->by_id.find(id);
  if (found != table->by_id.end()) return found->second;
  // Not cached, because a tree with a different owner for each file must not fill execd's memory.
  static std::string number;
  number = std::to_string(id);
  return number;
}

const std::string& NameTable::UserName(uid_t uid) {
  return Name(&users_, uid);
}
const std::string& NameTable::GroupName(gid_t gid) {
  return Name(&groups_, gid);
}

Result<uint32_t> NameTable::Id(Table* table, std::string_view name, const char* what) {
  const auto found = table->by_name.find(name);
  if (found != table->by_name.end()) return found->second;
  const auto number = ParseId(name);
  if (number) return *number;
  return Fail(Code::kNotFound,
              std::string(what) + " '" + std::string(name) + "': no entry in " + table->path);
}

Result<uid_t> NameTable::UserId(std::string_view name) {
  return Id(&users_, name, "user");
}
Result<gid_t> NameTable::GroupId(std::string_view name) {
  return Id(&groups_, name, "group");
}

namespace {
// True while a FileIdentity exists. A nested one changes nothing.
bool g_switched = false;
}  // namespace

namespace {

constexpr auto kUnchanged = static_cast<uid_t>(-1);

// gVisor has no file ids (gvisor.dev/issue/260). The effective ones do there what file ids do on
// Linux, where they would also open this process to signals and to ptrace.
bool HasFileIds() {
  static const bool kHas = ::syscall(SYS_setfsuid, kUnchanged) >= 0;
  return kHas;
}

// Raw system calls, because the C library would change every thread.
bool TakeFileIds(uid_t uid, gid_t gid) {
  if (!HasFileIds()) {
    return ::syscall(SYS_setresgid, kUnchanged, gid, kUnchanged) == 0 &&
           ::syscall(SYS_setresuid, kUnchanged, uid, kUnchanged) == 0;
  }
  // These calls return the previous id whether or not they succeed, so the result is read back.
  ::setfsgid(gid);
  ::setfsuid(uid);
  return static_cast<uid_t>(::setfsuid(kUnchanged)) == uid &&
         static_cast<gid_t>(::setfsgid(kUnchanged)) == gid;
}

void GiveFileIdsBack() {
  if (!HasFileIds()) {
    ATOLL_CHECK(::syscall(SYS_setresuid, kUnchanged, 0, kUnchanged) == 0 &&
                ::syscall(SYS_setresgid, kUnchanged, 0, kUnchanged) == 0);
    return;
  }
  ::setfsuid(0);
  ::setfsgid(0);
}

}  // namespace

bool CanBe(const Identity& identity) {
  // A process in a virtual machine may have a higher id, but no file there has one.
  constexpr uid_t kLastId = 65535;
  if (identity.uid > kLastId || identity.gid > kLastId) return false;
  const bool can = TakeFileIds(identity.uid, identity.gid);
  GiveFileIdsBack();
  return can;
}

// Raw system calls, because the C library's setgroups would signal every thread.
FileIdentity::FileIdentity(const Identity& identity)
    : switched_((identity.uid != 0 || identity.gid != 0) && !g_switched) {
  if (!switched_) return;
  g_switched = true;
  ::syscall(SYS_setgroups, identity.groups.size(), identity.groups.data());
  ATOLL_CHECK(TakeFileIds(identity.uid, identity.gid));
}

FileIdentity::~FileIdentity() {
  if (!switched_) return;
  g_switched = false;
  const int saved = errno;
  GiveFileIdsBack();
  ::syscall(SYS_setgroups, 0, nullptr);
  errno = saved;
}

}  // namespace atl::execd
