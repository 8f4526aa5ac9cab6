// Users and groups by the sandbox's own /etc/passwd and /etc/group, parsed here: the C library's
// functions would load the image's libnss (CVE-2019-14271), and a static program has none.
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

// Who a process runs as.
struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary
  std::string name;           // empty if the uid has no entry
  std::string home = "/";
};

// A uid or gid in decimal; (uid_t)-1, which is none, is not one.
std::optional<uint32_t> ParseId(std::string_view text);

// The OCI image's User: "", "name", "uid", "name:group", "uid:gid" and the mixed forms. Empty is
// root. A name that has no entry is kNotFound; a number needs none. With a group given there are no
// supplementary groups, as Docker does it.
Result<Identity> ResolveUser(std::string_view user);

// As whom a request wants something done.
struct RequestIds {
  uid_t uid = 0;
  std::optional<gid_t> gid;
};
// The uid's passwd entry gives primary and supplementary groups; gid, if it is there, replaces the
// primary one. Without an entry the bare ids. kInvalidArgument: nobody can be that in this sandbox,
// whose namespace does not have the ids (passwd is the sandbox's, too).
Result<Identity> ResolveIds(const RequestIds& ids);

// Names for listings, and ids for owner/group members of requests. Reads the files again when they
// have changed. Thread rule: one thread.
class NameTable {
 public:
  // The name, or the number as text.
  const std::string& UserName(uid_t uid);
  const std::string& GroupName(gid_t gid);
  // A name or a number. kNotFound if neither.
  Result<uid_t> UserId(std::string_view name);
  Result<gid_t> GroupId(std::string_view name);
  // Checks whether the files have changed; call once a request.
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

// Whoever work on files is done as; it outlives the request that asked for it.
using Actor = std::shared_ptr<const Identity>;

// Whether FileIdentity can be this one: not for ids that the sandbox's namespace does not have.
bool CanBe(const Identity& identity);

// For the time of a scope, file calls of this thread run with this identity: ownership of what they
// create, and permission checks (a non-root fsuid has no CAP_DAC_OVERRIDE, see credentials(7),
// capabilities(7)). Nothing is done if `identity` is root. The supplementary groups are changed as
// well. One that cannot be taken ends the process: nothing may go on as root instead.
class FileIdentity {
 public:
  explicit FileIdentity(const Identity& identity);
  FileIdentity(const FileIdentity&) = delete;
  FileIdentity& operator=(const FileIdentity&) = delete;
  ~FileIdentity();

 private:
  bool switched_;
};

// A regular file's content, at most `limit` bytes; never blocks on a FIFO or device put in its
// place, never follows /proc's magic links.
Result<std::string> ReadSmallFile(const std::string& path, size_t limit);

}  // namespace atl::execd
