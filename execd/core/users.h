// Users and groups of the sandbox, by its own /etc/passwd and /etc/group. execd parses these files
// itself, because the C library's functions would load the image's libnss (CVE-2019-14271), and a
// static program has none.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::execd {

// The user, groups and home directory of a process.
struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary
  std::string name;           // empty if the uid has no entry
  std::string home = "/";
};

// Parses a decimal uid or gid. (uid_t)-1 means "no id" and is refused.
std::optional<uint32_t> ParseId(std::string_view text);

// Resolves the User of an OCI image: "", "name", "uid", "name:group", "uid:gid" and the mixed
// forms. Empty means root. A number needs no entry. If a group is given, there are no supplementary
// groups, as in Docker. kNotFound: a name has no entry.
Result<Identity> ResolveUser(std::string_view user);

// The ids in a request.
struct RequestIds {
  uid_t uid = 0;
  std::optional<gid_t> gid;
};
// Returns the identity for the ids of a request. The passwd entry of the uid gives the primary and
// supplementary groups; `gid`, if set, replaces the primary group. A uid without entry gets the
// bare ids. kInvalidArgument: the sandbox's user namespace does not have these ids. The sandbox can
// write passwd, so its ids are checked as well.
Result<Identity> ResolveIds(const RequestIds& ids);

// Names of ids for listings, and ids of names for the owner and group members of requests. Reads
// the files again when they have changed. Thread rule: one thread.
class NameTable {
 public:
  // Returns the name, or the number as text.
  const std::string& UserName(uid_t uid);
  const std::string& GroupName(gid_t gid);
  // Resolves a name or a number. kNotFound: it is neither.
  Result<uid_t> UserId(std::string_view name);
  Result<gid_t> GroupId(std::string_view name);
  // Checks whether the files have changed. Call once per request.
  void Refresh();

 private:
  struct Table {
    const char* path;
    timespec mtime{};
    ino_t inode = 0;
    off_t size = -1;
    std::map<std::string, uint32_t, std::less<>> by_name;
    std::map<uint32_t, std::string> by_id;
  };
  static void Reload(Table* table);
  static const std::string& Name(Table* table, uint32_t id);
  static Result<uint32_t> Id(Table* table, std::string_view name, const char* what);
  Table users_{"/etc/passwd"};
  Table groups_{"/etc/group"};
};

// The identity for work on files. Shared, because the work may outlive the request.
using Actor = std::shared_ptr<const Identity>;

// Returns true if FileIdentity can switch to this identity: false for ids that the sandbox's user
// namespace does not have.
bool CanBe(const Identity& identity);

// Switches this thread's file calls to an identity for a scope: ownership of new files, permission
// checks, and supplementary groups. A non-root fsuid has no CAP_DAC_OVERRIDE, see credentials(7)
// and capabilities(7). Does nothing if `identity` is root. If the switch fails, the process exits,
// because the work must not continue as root.
class FileIdentity {
 public:
  explicit FileIdentity(const Identity& identity);
  FileIdentity(const FileIdentity&) = delete;
  FileIdentity& operator=(const FileIdentity&) = delete;
  ~FileIdentity();

 private:
  bool switched_;
};

// Returns the content of a regular file, at most `limit` bytes. Never blocks on a FIFO or device in
// its place, and never follows the magic links of /proc.
Result<std::string> ReadSmallFile(const std::string& path, size_t limit);

}  // namespace atl::execd
