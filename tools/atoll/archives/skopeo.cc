#include "tools/atoll/archives/skopeo.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "runtime/base/sys.h"

namespace atl::cli {
namespace {

// Returns the credentials file of 'skopeo login' or docker; empty if there is none.
std::string FindAuthFile(const std::string& given) {
  if (!given.empty()) return given;
  if (const char* named = getenv("REGISTRY_AUTH_FILE")) return named;
  const auto there = [](const char* variable, const char* name) {
    const char* place = getenv(variable);
    const std::string path = place == nullptr ? "" : std::string(place) + name;
    return !path.empty() && access(path.c_str(), R_OK) == 0 ? path : std::string();
  };
  const std::string logged_in = there("XDG_RUNTIME_DIR", "/containers/auth.json");
  return logged_in.empty() ? there("HOME", "/.docker/config.json") : logged_in;
}

}  // namespace

void AddWays(Verb& verb, RegistryOptions& options) {
  verb.Takes(Option{"--authfile", "FILE",
                    "Who we are, as 'skopeo login' writes it; nobody else may read it",
                    &options.authfile});
  verb.Takes(Option{"--cert-dir", "DIR", "Authorities (*.crt), and our certificates",
                    &options.certificates});
  verb.Takes(
      Option{"--insecure", "", "Neither TLS nor certificates are insisted on", &options.insecure});
}

Result<Workplace> Workplace::Make() {
  ATOLL_ASSIGN(TemporaryDirectory place, TemporaryDirectory::Make());
  // Only root can give the directory to another user. Other users run skopeo as themselves.
  const uid_t user = geteuid() == 0 ? NobodysId() : 0;
  ATOLL_ASSIGN(UniqueFd directory, sys::Open(place.path(), O_RDONLY | O_DIRECTORY));
  Workplace work(std::move(place), std::move(directory), user);
  ATOLL_TRY(work.GiveAway(work.directory_.get(), work.path()));
  return work;
}

Status Workplace::GiveAway(int fd, const std::string& name) const {
  if (user_ != 0 && fchown(fd, user_, user_) != 0) return FailSys("fchown " + name);
  return {};
}

Result<UniqueFd> Workplace::NewFile(const std::string& name) const {
  ATOLL_ASSIGN(UniqueFd file,
               sys::OpenAt(directory_.get(), name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  ATOLL_TRY(GiveAway(file.get(), name));
  return file;
}

Result<UniqueFd> Workplace::NewDirectory(const std::string& name) const {
  if (mkdirat(directory_.get(), name.c_str(), 0700) != 0) return FailSys("mkdir " + name);
  ATOLL_ASSIGN(UniqueFd directory,
               sys::OpenBeneath(directory_.get(), name, O_RDONLY | O_DIRECTORY));
  ATOLL_TRY(GiveAway(directory.get(), name));
  return directory;
}

Status Workplace::Copy(const std::string& from, const std::string& name) const {
  constexpr size_t kMost = 1 << 20;
  ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(AT_FDCWD, from, kMost));
  ATOLL_ASSIGN(const UniqueFd file, NewFile(name));
  return sys::WriteAll(file.get(), text);
}

Result<Skopeo> Skopeo::Prepare(const RegistryOptions& options) {
  ATOLL_ASSIGN(Workplace place, Workplace::Make());
  Skopeo skopeo(std::move(place));
  const std::string authfile = FindAuthFile(options.authfile);
  if (!authfile.empty()) {
    struct stat info {};
    if (stat(authfile.c_str(), &info) != 0) return FailSys("stat " + authfile);
    if ((info.st_mode & 077) != 0) {
      return Fail(Code::kPermissionDenied,
                  authfile + " has passwords, and others may read it; type: chmod 600 " + authfile);
    }
    ATOLL_TRY(skopeo.work_.Copy(authfile, "auth.json"));
    skopeo.ways_.emplace_back("authfile=auth.json");
  }
  if (!options.certificates.empty()) {
    ATOLL_ASSIGN(const UniqueFd directory, sys::Open(options.certificates, O_RDONLY | O_DIRECTORY));
    ATOLL_ASSIGN(const std::vector<std::string> names, sys::ListDir(directory.get()));
    for (const std::string& name : names) {
      if (!name.ends_with(".crt") && !name.ends_with(".cert") && !name.ends_with(".key")) continue;
      ATOLL_TRY(skopeo.work_.Copy(options.certificates + "/" + name, name));
    }
    skopeo.ways_.emplace_back("cert-dir=.");
  }
  if (options.insecure) skopeo.ways_.emplace_back("tls-verify=false");
  return skopeo;
}

Child Skopeo::Command(const std::string& verb, const std::string& side, const Words& words) const {
  const std::string& place = work_.path();
  Child child{.argv = {"skopeo", "--tmpdir", place, verb},
              .env = {"HOME=" + place, "TMPDIR=" + place, "XDG_RUNTIME_DIR=" + place,
                      "REGISTRY_AUTH_FILE="},
              .apt = "skopeo",
              .cwd = place,
              .user = work_.user()};
  for (const std::string& way : ways_) child.argv.push_back("--" + side + way);
  child.argv.insert(child.argv.end(), words.begin(), words.end());
  return child;
}

}  // namespace atl::cli
