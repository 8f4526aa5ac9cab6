// Files of the sandbox, for its clients: names, attributes, and safe ways to open, replace and
// walk.
//
// Whatever a path leads to was made by the sandbox, and execd must not be turned against itself:
// every path is resolved by openat2 without magic links (so /proc/self/fd/5/… is no way to what
// execd holds open), nothing but a regular file is ever read or written (a FIFO would block, a
// device would act), nothing is read beyond the size that stat gave (procfs files have none), and
// every call runs with the identity of the image's user, or of whom the route names.
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

// Absolute, without ".", ".." and double slashes, by text alone (Go's filepath.Abs).
std::string AbsolutePath(const Core& core, std::string_view path);
std::string_view BaseName(std::string_view absolute_path);

// open(2) by openat2 with RESOLVE_NO_MAGICLINKS.
Result<UniqueFd> OpenNoMagic(const std::string& path, int flags, mode_t mode = 0);

// A directory and a name in it that is not followed.
struct Place {
  UniqueFd dir;
  std::string name;
};
// The parent must exist.
Result<Place> FindPlace(const std::string& absolute_path);
// Regular files only: anything else is an error that says what it is. Links in the path are
// followed, magic links are not.
Result<UniqueFd> OpenRegular(const std::string& path, int flags, struct stat* info);
// lstat.
Result<struct stat> Attributes(const std::string& path);

// --- Attributes.

// {"path": …, "type": …, …}
void AppendFileInfo(std::string* out, NameTable* names, std::string_view path,
                    const struct stat& info);

struct Permission {
  static constexpr uint32_t kLeave = 0xFFFFFFFF;  // as chown(2) has it
  uid_t owner = kLeave;
  gid_t group = kLeave;
  mode_t mode = 0;  // 0: leave
};
// `owner` and `group` in JSON are names or numbers, and `mode` is a decimal number that spells
// octal digits: 755 is 0755. kInvalidArgument: the sandbox has no user or group of that name.
Result<Permission> ParsePermission(const JsonValue& object, NameTable* names);
// To an O_PATH or other descriptor.
Status ApplyOwner(int fd, const Permission& permission);
Status ApplyPermission(int fd, const Permission& permission);

// --- Answers.

// 404 FILE_NOT_FOUND for what is not there, else 500 RUNTIME_ERROR.
void RespondFileError(Exchange* exchange, const Error& error);

// Produces an answer piece by piece, a few milliseconds a turn, never far ahead of the client.
class Producer {
 public:
  virtual ~Producer() = default;
  // Appends something to `out`; false if there is no more. Called again soon, so brief.
  virtual bool Produce(std::string* out) = 0;
};
// Streams what `producer` makes; an answer below 64 KiB gets a Content-Length.
void RunProducer(EventLoop* loop, const std::shared_ptr<Exchange>& exchange,
                 std::unique_ptr<Producer> producer, HeaderList headers);

// --- Lines of a file (files_lines.cc).

// Whether a download's query asks for lines: offset (from 1), limit.
bool WantsLines(const Exchange& exchange);
// Streams them, or answers why not. `size` bytes of the file are looked at.
void SendLines(Core* core, const std::shared_ptr<Exchange>& exchange, const Actor& actor,
               UniqueFd file, int64_t size);

// The routes of /files and /directories that read or change attributes and names.
class FileRoutes {
 public:
  explicit FileRoutes(Core* core) : core_(*core) {}
  using Ptr = std::shared_ptr<Exchange>;

  void Info(const Ptr& exchange, const Actor& actor);               // GET /files/info
  void Delete(const Ptr& exchange, const Actor& actor);             // DELETE /files
  void Permissions(const Ptr& exchange, const Actor& actor);        // POST /files/permissions
  void Move(const Ptr& exchange, const Actor& actor);               // POST /files/mv
  void Search(const Ptr& exchange, const Actor& actor);             // GET /files/search
  void Grep(const Ptr& exchange);                                   // GET /files/grep (ours)
  void Replace(const Ptr& exchange, const Actor& actor);            // POST /files/replace
  void Download(const Ptr& exchange, const Actor& actor);           // GET /files/download
  void MakeDirectories(const Ptr& exchange, const Actor& actor);    // POST /directories
  void DeleteDirectories(const Ptr& exchange, const Actor& actor);  // DELETE /directories
  void ListDirectory(const Ptr& exchange, const Actor& actor);      // GET /directories/list

 private:
  // The body's members: a path, and what it is to have once `open` has found or made it. A member
  // that says nonsense is refused before anything is done.
  using Opener = std::function<Result<UniqueFd>(const std::string& path, const Permission&)>;
  void Permit(const Ptr& exchange, const Actor& actor, Opener open);

  Core& core_;
};

}  // namespace atl::execd
