// atoll cp
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "runtime/base/sparse_file.h"
#include "runtime/base/sys.h"
#include "tools/atoll/archives/copy_tar.h"
#include "tools/atoll/archives/place.h"
#include "tools/atoll/archives/progress.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/interrupt.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

// One side of a copy: a local path, "-", or a path in a sandbox.
struct Side {
  std::string sandbox;  // empty: local
  std::string path;
};

Side ParseSide(const std::string& given) {
  const size_t colon = given.find(':');
  // "./a:b" is a local path, as in docker.
  if (colon == std::string::npos || given.find('/') < colon) return {"", given};
  return {given.substr(0, colon), given.substr(colon + 1)};
}

std::string BaseNameOf(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

std::string ParentOf(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string Join(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

// Warns about entries that cannot be copied: sockets, FIFOs, devices.
void TellSkipped(const Words& names) {
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    std::fprintf(stderr, "atoll: not copied, because it is no file, directory or link: %s\n",
                 Printable(names[i]).c_str());
  }
  if (names.size() > kShown) {
    std::fprintf(stderr, "atoll: and %zu more\n", names.size() - kShown);
  }
}

class Copy {
 public:
  Copy(Api api, ExecdWay way, int cancel_fd)
      : api_(std::move(api)), way_(std::move(way)), cancel_fd_(cancel_fd) {}

  Status In(const std::string& from, const std::string& to) {
    struct stat info {};
    const bool standard_input = from == "-";
    UniqueFd file;
    if (standard_input) {
      ATOLL_ASSIGN(file, Spool());
      info.st_mode = S_IFREG | 0644;
    } else {
      ATOLL_ASSIGN(file, sys::Open(from, O_RDONLY));
    }
    struct stat content {};
    if (fstat(file.get(), &content) != 0) return FailSys("fstat " + from);
    if (!standard_input) info = content;
    ATOLL_ASSIGN(const std::string there, TypeOf(to));
    if (S_ISDIR(info.st_mode)) {
      if (there == "file") return Fail(Code::kInvalidArgument, to + " is a file in the sandbox");
      Words skipped;
      ATOLL_ASSIGN(const UniqueFd tar, PackDirectory(from, &skipped));
      TellSkipped(skipped);
      return Send(tar.get(), there.empty() ? to : Join(to, BaseNameOf(from)), from);
    }
    if (!S_ISREG(info.st_mode)) {
      return Fail(Code::kInvalidArgument, from + " is neither a file nor a directory");
    }
    // If the target is a directory of the sandbox, standard input is a tar archive.
    if (standard_input && there == "directory") return Send(file.get(), to, "standard input");
    const bool into = there == "directory" || to.ends_with('/');
    ATOLL_ASSIGN(const UniqueFd tar,
                 PackFile(file.get(), into ? BaseNameOf(from) : BaseNameOf(to),
                          static_cast<uint64_t>(content.st_size), info.st_mode));
    return Send(tar.get(), into ? to : ParentOf(to), from);
  }

  Status Out(const std::string& from, const std::string& to) {
    ATOLL_ASSIGN(const std::string there, TypeOf(from));
    if (there.empty()) return Fail(Code::kNotFound, "the sandbox has no " + from);
    const bool directory = there == "directory";
    const std::string route = directory
                                  ? "/directories/tar?path=" + PercentEncode(from)
                                  : "/files/download?path=" + PercentEncode(LiteralPath(from));
    if (to == "-") return Receive(route, from, STDOUT_FILENO, false);
    struct stat info {};
    const bool into = stat(to.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
    // Links in the path that the user named are followed; links below it are not.
    ATOLL_ASSIGN(const UniqueFd place, sys::Open(into ? to : ParentOf(to), O_RDONLY | O_DIRECTORY));
    const std::string name = BaseNameOf(into ? from : to);
    // "/srv/." means the content of /srv.
    if (name.empty() || name == "/" || name == "..") {
      return Fail(Code::kInvalidArgument, from + " has no file name; give one in TO");
    }
    if (!directory) {
      ATOLL_ASSIGN(PlacedFile file, PlacedFile::Begin(place.get(), name));
      ATOLL_TRY(Receive(route, from, file.fd(), file.fresh()));
      return file.Finish();
    }
    ATOLL_ASSIGN(const UniqueFd tar, TemporaryFile());
    ATOLL_TRY(Receive(route, from, tar.get(), true));
    if (lseek(tar.get(), 0, SEEK_SET) != 0) return FailSys("lseek");
    return UnpackInto(tar.get(), place.get(), name);
  }

 private:
  // Returns "file", "directory", …; empty if the path does not exist.
  Result<std::string> TypeOf(const std::string& path) {
    http::Client::Call call;
    call.target = way_.base + "/files/info?path=" + PercentEncode(LiteralPath(path));
    call.headers = way_.headers;
    const auto response = api_.Send(std::move(call));
    if (!response && response.error().code() == Code::kNotFound) return std::string();
    if (!response) return Fail(response.error());
    const auto told = JsonOrNull(response->body);
    if (!told.is_object() || told.empty()) {
      return Fail(Code::kInternal, "the sandbox's answer is not JSON");
    }
    return told.begin().value().value("type", "");
  }

  Result<UniqueFd> Spool() {
    ATOLL_ASSIGN(UniqueFd file, TemporaryFile());
    std::string part(256 << 10, '\0');
    while (true) {
      const ssize_t n = read(STDIN_FILENO, part.data(), part.size());
      if (n < 0) return FailSys("read standard input");
      if (n == 0) break;
      ATOLL_TRY(
          WriteWithHoles(file.get(), std::string_view(part).substr(0, static_cast<size_t>(n))));
    }
    ATOLL_TRY(EndWithHoles(file.get()));
    if (lseek(file.get(), 0, SEEK_SET) != 0) return FailSys("lseek");
    return file;
  }

  Status Send(int tar, const std::string& directory, const std::string& label) {
    struct stat info {};
    if (fstat(tar, &info) != 0) return FailSys("fstat");
    Progress progress("copying " + label, static_cast<uint64_t>(info.st_size));
    http::Client::Call call;
    call.method = "POST";
    call.target = way_.base + "/directories/tar?path=" + PercentEncode(directory);
    call.headers = way_.headers;
    call.headers.Set("Content-Type", "application/x-tar");
    call.body_fd = tar;
    call.body_size = static_cast<uint64_t>(info.st_size);
    call.on_progress = [&progress](uint64_t sent) { progress.Update(sent); };
    call.cancel_fd = cancel_fd_;
    ATOLL_TRY(api_.Send(std::move(call)));
    return {};
  }

  // `fresh`: `to` is an empty regular file, so zeros may become holes.
  Status Receive(const std::string& route, const std::string& path, int to, bool fresh) {
    http::Client::Call call;
    call.target = way_.base + route;
    call.headers = way_.headers;
    call.cancel_fd = cancel_fd_;
    Progress progress("copying " + path, 0);
    uint64_t received = 0;
    Status wrote;
    ATOLL_TRY(api_.Stream(std::move(call), [&](std::string_view bytes) {
      wrote = fresh ? WriteWithHoles(to, bytes) : sys::WriteAll(to, bytes);
      received += bytes.size();
      progress.Received(received);
      return wrote.has_value();
    }));
    return fresh && wrote ? EndWithHoles(to) : wrote;
  }

  Api api_;
  ExecdWay way_;
  const int cancel_fd_;
};

Result<int> CopyBetween(const Settings& settings, const Side& from, const Side& to) {
  if (from.sandbox.empty() == to.sandbox.empty()) {
    return Fail(Code::kInvalidArgument,
                "one of FROM and TO must be ID:PATH, the other a path on this machine");
  }
  const Side& inside = from.sandbox.empty() ? to : from;
  if (inside.path.empty()) {
    return Fail(Code::kInvalidArgument, inside.sandbox + ": needs a path after the colon");
  }
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, inside.sandbox));
  ATOLL_ASSIGN(ExecdWay way, FindExecd(api, id));
  Copy copy(std::move(api), std::move(way), cancel_fd);
  const Status done =
      from.sandbox.empty() ? copy.In(from.path, to.path) : copy.Out(from.path, to.path);
  if (CaughtSignal() != 0) return 128 + CaughtSignal();
  if (!done) return Fail(done.error());
  return 0;
}

}  // namespace

void AddCopyVerb(Verb& root, const Settings& settings) {
  struct Options {
    std::string from, to;
  };
  const auto options = std::make_shared<Options>();
  root.Add("cp", "Copy files and directories into a sandbox, or out of it")
      .Takes(Argument{"FROM", "ID:PATH, a path of ours, or - for standard input", &options->from})
      .Takes(Argument{"TO", "ID:PATH, a path of ours, or - for standard output", &options->to})
      .Says(
          "Into a directory that exists it is copied by its name. Through - a file passes as it "
          "is, "
          "a\ndirectory as a tar archive.\n\n"
          "Examples:\n"
          "  atoll cp ./src web:/srv\n"
          "  atoll cp web:/srv/out.csv .\n"
          "  atoll cp web:/etc - | tar tv")
      .Does([options, &settings] {
        return CopyBetween(settings, ParseSide(options->from), ParseSide(options->to));
      });
}

}  // namespace atl::cli
