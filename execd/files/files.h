// Operations on files of the sandbox for its clients: names, attributes, and safe ways to open,
// replace and walk.
//
// The sandbox controls every path and file, and must not be able to turn execd against itself:
// - openat2 resolves every path without magic links, so that /proc/self/fd/5/… does not lead to a
// descriptor of execd;
// - execd reads and writes regular files only, because a FIFO would block and a device would act;
// - execd reads no more than the size that stat returned, because procfs files have no size;
// - every call runs with the identity of the image's user, or of the user that the route names.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "execd/core/core.h"
#include "execd/files/body_walk.h"
#include "execd/http/exchange.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

// --- Paths.

// Returns an absolute path without ".", ".." and double slashes. Works on the text only, like Go's
// filepath.Abs.
std::string AbsolutePath(const Core& core, std::string_view path);
std::string_view BaseName(std::string_view absolute_path);

// Like open(2), by openat2 with RESOLVE_NO_MAGICLINKS.
Result<UniqueFd> OpenNoMagic(const std::string& path, int flags, mode_t mode = 0);

// A directory, and a name in it that is not followed if it is a link.
struct Place {
  UniqueFd dir;
  std::string name;
};
// Opens the parent directory, which must exist.
Result<Place> FindPlace(const std::string& absolute_path);
// Opens a regular file. Follows links in the path, except magic links. If it is another kind of
// file, the error says which.
Result<UniqueFd> OpenRegular(const std::string& path, int flags, struct stat* info);
// Returns the result of lstat.
Result<struct stat> Attributes(const std::string& path);

// --- Attributes.

// Appends {"path": …, "type": …, …}.
void AppendFileInfo(std::string* out, NameTable* names, std::string_view path,
                    const struct stat& info);

struct Permission {
  static constexpr uint32_t kLeave = 0xFFFFFFFF;  // unchanged, as in chown(2)
  uid_t owner = kLeave;
  gid_t group = kLeave;
  mode_t mode = 0;  // 0: unchanged
};
// Parses the JSON members `owner` and `group`, which are names or numbers, and `mode`, a decimal
// number that spells octal digits: 755 is 0755. kInvalidArgument: the sandbox has no user or group
// of that name.
Result<Permission> ParsePermission(const JsonValue& object, NameTable* names);
// Apply to a descriptor, which may be O_PATH.
Status ApplyOwner(int fd, const Permission& permission);
Status ApplyPermission(int fd, const Permission& permission);

// --- Answers.

// Answers 404 FILE_NOT_FOUND if the file does not exist, otherwise 500 RUNTIME_ERROR.
void RespondFileError(Exchange* exchange, const Error& error);

// Produces an answer in pieces: a few milliseconds in each turn of the loop, and only a bounded
// amount ahead of the client.
class Producer {
 public:
  virtual ~Producer() = default;
  // Appends a piece to `out`. Returns false at the end. Must be brief; it is called again soon.
  virtual bool Produce(std::string* out) = 0;
};
// Streams the answer of `producer`. An answer below 64 KiB gets a Content-Length.
void RunProducer(EventLoop* loop, const std::shared_ptr<Exchange>& exchange,
                 std::unique_ptr<Producer> producer, HeaderList headers);

// --- Lines of a file (files_lines.cc).

// Returns true if a download's query asks for lines: offset (from 1) or limit.
bool WantsLines(const Exchange& exchange);
// Streams the lines that the query asks for, or answers an error. Reads at most `size` bytes of the
// file.
void SendLines(Core* core, const std::shared_ptr<Exchange>& exchange, const Actor& actor,
               UniqueFd file, int64_t size);

// Routes of /files and /directories that read or change attributes and names.
class FileRoutes {
 public:
  explicit FileRoutes(Core* core) : core_(*core) {}
  using Ptr = std::shared_ptr<Exchange>;

  void Info(const Ptr& exchange, const Actor& actor);               // GET /files/info
  void Delete(const Ptr& exchange, const Actor& actor);             // DELETE /files
  void Permissions(const Ptr& exchange, const Actor& actor);        // POST /files/permissions
  void Move(const Ptr& exchange, const Actor& actor);               // POST /files/mv
  void Search(const Ptr& exchange, const Actor& actor);             // GET /files/search
  void Grep(const Ptr& exchange);                                   // GET /files/grep (extension)
  void Replace(const Ptr& exchange, const Actor& actor);            // POST /files/replace
  void Download(const Ptr& exchange, const Actor& actor);           // GET /files/download
  void MakeDirectories(const Ptr& exchange, const Actor& actor);    // POST /directories
  void DeleteDirectories(const Ptr& exchange, const Actor& actor);  // DELETE /directories
  void ListDirectory(const Ptr& exchange, const Actor& actor);      // GET /directories/list

 private:
  // Applies the permissions in the body: each member is a path with its permission. `open` finds or
  // creates the file. If any member is malformed, refuses the request before any change.
  using Opener = std::function<Result<UniqueFd>(const std::string& path, const Permission&)>;
  void Permit(const Ptr& exchange, const Actor& actor, Opener open);

  Core& core_;
};

}  // namespace atl::execd
