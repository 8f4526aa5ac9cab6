// atoll image pull and push: by way of skopeo, which knows registries, their ways of asking who one
// is, and whom to trust. It runs as nobody, in a directory of its own, and without a shell; what is
// secret reaches it in files that are its own.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/base/sys.h"
#include "tools/atoll/child.h"
#include "tools/atoll/image_archive.h"
#include "tools/atoll/image_import.h"
#include "tools/atoll/image_list.h"
#include "tools/atoll/image_verbs.h"
#include "tools/atoll/interrupt.h"
#include "tools/atoll/json_text.h"

namespace atl::cli {
namespace {

struct RegistryOptions {
  std::string image, name, authfile, certificates;
  bool insecure = false;
};

constexpr char kPassingArchive[] = "image.tar";

// The directory that skopeo works in, and whose it is.
class Workplace {
 public:
  static Result<Workplace> Make() {
    ATOLL_ASSIGN(TemporaryDirectory place, TemporaryDirectory::Make());
    // Without root's rights we cannot give it away, and need not.
    const uid_t user = geteuid() == 0 ? NobodysId() : 0;
    ATOLL_ASSIGN(UniqueFd directory, sys::Open(place.path(), O_RDONLY | O_DIRECTORY));
    if (user != 0 && fchown(directory.get(), user, user) != 0) return FailSys("fchown");
    return Workplace(std::move(place), std::move(directory), user);
  }

  // A new file of skopeo's, for its eyes alone.
  Result<UniqueFd> NewFile(const std::string& name) const {
    ATOLL_ASSIGN(UniqueFd file,
                 sys::OpenAt(directory_.get(), name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    if (user_ != 0 && fchown(file.get(), user_, user_) != 0) return FailSys("fchown " + name);
    return file;
  }
  // What it has written there; nothing that it has linked to.
  Result<UniqueFd> OpenFile(const std::string& name) const {
    ATOLL_ASSIGN(UniqueFd file,
                 sys::OpenAt(directory_.get(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
    struct stat info {};
    if (fstat(file.get(), &info) != 0) return FailSys("fstat " + name);
    if (!S_ISREG(info.st_mode) || info.st_nlink != 1) {
      return Fail(Code::kInternal, "skopeo has written no file");
    }
    return file;
  }
  Status Copy(const std::string& from, const std::string& name) const {
    constexpr size_t kMost = 1 << 20;
    ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(AT_FDCWD, from, kMost));
    ATOLL_ASSIGN(const UniqueFd file, NewFile(name));
    return sys::WriteAll(file.get(), text);
  }

  const std::string& path() const { return place_.path(); }
  uid_t user() const { return user_; }

 private:
  Workplace(TemporaryDirectory place, UniqueFd directory, uid_t user)
      : place_(std::move(place)), directory_(std::move(directory)), user_(user) {}

  TemporaryDirectory place_;
  UniqueFd directory_;
  uid_t user_;
};

// Where 'skopeo login' and docker leave what registries want to know; empty: nowhere.
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

// Its words but for where from and where to. `side`: "src" or "dest".
Result<Child> Skopeo(const Workplace& work, const RegistryOptions& options,
                     const std::string& side) {
  Child skopeo{.argv = {"skopeo", "--tmpdir", work.path(), "copy"},
               .env = {"HOME=" + work.path(), "TMPDIR=" + work.path(),
                       "XDG_RUNTIME_DIR=" + work.path(), "REGISTRY_AUTH_FILE="},
               .apt = "skopeo",
               .cwd = work.path(),
               .user = work.user(),
               .told = true};
  const std::string authfile = FindAuthFile(options.authfile);
  if (!authfile.empty()) {
    struct stat info {};
    if (stat(authfile.c_str(), &info) != 0) return FailSys("stat " + authfile);
    if ((info.st_mode & 077) != 0) {
      return Fail(Code::kPermissionDenied,
                  authfile + " has passwords, and others may read it; type: chmod 600 " + authfile);
    }
    ATOLL_TRY(work.Copy(authfile, "auth.json"));
    skopeo.argv.insert(skopeo.argv.end(), {"--" + side + "-authfile", "auth.json"});
  }
  if (!options.certificates.empty()) {
    ATOLL_ASSIGN(const UniqueFd directory, sys::Open(options.certificates, O_RDONLY | O_DIRECTORY));
    ATOLL_ASSIGN(const std::vector<std::string> names, sys::ListDir(directory.get()));
    for (const std::string& name : names) {
      if (!name.ends_with(".crt") && !name.ends_with(".cert") && !name.ends_with(".key")) continue;
      ATOLL_TRY(work.Copy(options.certificates + "/" + name, name));
    }
    skopeo.argv.insert(skopeo.argv.end(), {"--" + side + "-cert-dir", "."});
  }
  if (options.insecure) skopeo.argv.push_back("--" + side + "-tls-verify=false");
  return skopeo;
}

Status PullImage(const Settings& settings, const RegistryOptions& options) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(const Workplace work, Workplace::Make());
  ATOLL_ASSIGN(Child skopeo, Skopeo(work, options, "src"));
  skopeo.argv.insert(skopeo.argv.end(), {"--", "docker://" + options.image,
                                         std::string("oci-archive:") + kPassingArchive});
  ATOLL_TRY(RunChild(skopeo, cancel_fd));
  ATOLL_ASSIGN(const UniqueFd archive, work.OpenFile(kPassingArchive));
  ATOLL_TRY(ImportImage(settings, "/proc/self/fd/" + std::to_string(archive.get()),
                        options.name.empty() ? options.image : options.name));
  return {};
}

Status PushImage(const Settings& settings, const RegistryOptions& options) {
  ATOLL_ASSIGN(const int cancel_fd, CatchInterrupts());
  ATOLL_ASSIGN(const Workplace work, Workplace::Make());
  ATOLL_ASSIGN(Child skopeo, Skopeo(work, options, "dest"));
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const auto image, FindImage(api, options.image));
  ATOLL_ASSIGN(const UniqueFd archive, work.NewFile(kPassingArchive));
  // Read where it stands; one of the form oci is unpacked first, with owners that nobody may give.
  ATOLL_TRY(ReceiveArchive(api, TextOf(image, "name"), "docker", archive.get(), cancel_fd));
  skopeo.argv.insert(skopeo.argv.end(),
                     {"--", std::string("docker-archive:") + kPassingArchive,
                      "docker://" + (options.name.empty() ? options.image : options.name)});
  ATOLL_TRY(RunChild(skopeo, cancel_fd));
  return {};
}

void AddWays(Verb& verb, RegistryOptions& options) {
  verb.Takes(Option{"--authfile", "FILE",
                    "Who we are, as 'skopeo login' writes it; nobody else may read it",
                    &options.authfile});
  verb.Takes(Option{"--cert-dir", "DIR", "Authorities (*.crt), and our certificates",
                    &options.certificates});
  verb.Takes(
      Option{"--insecure", "", "Neither TLS nor certificates are insisted on", &options.insecure});
}

}  // namespace

void AddRegistryVerbs(Verb& group, const Settings& settings, bool hidden) {
  const auto pull = std::make_shared<RegistryOptions>();
  Verb& pulls = group.Add("pull", "Fetch an image from a registry");
  pulls.Takes(Argument{"NAME", "As the registry has it, with its host", &pull->image});
  pulls.Takes(Option{"--name", "NAME[:TAG]", "Name to give it; else the same", &pull->name});
  AddWays(pulls, *pull);
  pulls.Says(
      "skopeo (apt-get install skopeo) speaks to the registry, as nobody.\n\n"
      "Examples:\n"
      "  atoll image pull docker.io/library/alpine:3 --name alpine:3\n"
      "  skopeo login --authfile auth.json registry.example && chmod 600 auth.json\n"
      "  atoll image pull --authfile auth.json registry.example/team/tool:1");
  pulls.Does([pull, &settings] { return PullImage(settings, *pull); });

  const auto push = std::make_shared<RegistryOptions>();
  Verb& pushes = group.Add("push", "Send an image to a registry");
  pushes.Takes(Argument{"IMAGE", "An image as 'atoll image ls' shows it", &push->image});
  pushes.Takes(Argument{"NAME", "What it is to be called there, with the host; else the same",
                        &push->name, false});
  AddWays(pushes, *push);
  pushes.Does([push, &settings] { return PushImage(settings, *push); });
  if (!hidden) return;
  pulls.Hidden();
  pushes.Hidden();
}

}  // namespace atl::cli
