#include "execd/trust/trust.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "execd/core/core.h"
#include "execd/files/files.h"
#include "execd/trust/bundle.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

// Limit on a bundle. Mozilla's, which most images have, is 250 KiB.
constexpr size_t kMaxBundle = 4 << 20;

// Bundles of distributions: Debian and Alpine, Fedora, SUSE, Alpine again, Fedora again.
constexpr const char* kBundles[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
};

// Directories from which update-ca-certificates and update-ca-trust build the bundle.
struct Source {
  const char* directory;
  const char* name;
};
constexpr Source kSources[] = {
    {"/usr/local/share/ca-certificates", "opensandbox-mitmproxy-ca.crt"},
    {"/etc/pki/ca-trust/source/anchors", "opensandbox-mitmproxy-ca.pem"},
};

constexpr const char* kHashDirectory = "/etc/ssl/certs";

struct FileOwner {
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t mode = 0644;
};

Status PutInPlace(const UniqueFd& directory, const std::string& name, std::string_view text,
                  const FileOwner& owner = {}) {
  const std::string temporary = ".execd-trust-" + NewUuid(false);
  const UniqueFd file(::openat(directory.get(), temporary.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return FailSys("create");
  Cleanup remove([&] { ::unlinkat(directory.get(), temporary.c_str(), 0); });
  ATOLL_TRY(sys::WriteAll(file.get(), text));
  // fchown comes first, because it clears bits of the mode.
  if ((owner.uid != 0 || owner.gid != 0) && ::fchown(file.get(), owner.uid, owner.gid) != 0) {
    return FailSys("fchown");
  }
  if (::fchmod(file.get(), owner.mode) != 0) return FailSys("fchmod");
  if (::renameat(directory.get(), temporary.c_str(), directory.get(), name.c_str()) != 0) {
    return FailSys("rename");
  }
  remove.Release();
  return {};
}

// Returns directory and name of an absolute path.
std::pair<std::string, std::string> Parts(const std::string& path) {
  const size_t slash = path.rfind('/');
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

// Writes a file and creates missing directories.
Status WriteNew(const std::string& path, std::string_view text) {
  const auto [directory, name] = Parts(path);
  ATOLL_ASSIGN(const UniqueFd place, MakeDirectory(directory, Identity()));
  return PutInPlace(place, name, text);
}

struct Bundle {
  std::string path;  // the file itself, with links resolved; empty: not a system bundle
  std::string text;
  FileOwner owner;
};

// Returns nullopt if there is no readable bundle at this path.
std::optional<Bundle> ReadBundle(const std::string& path) {
  struct stat info;
  const auto file = OpenRegular(path, O_RDONLY, &info);
  if (!file) return {};
  auto text = sys::ReadAll(file->get(), kMaxBundle);
  // Checks the contents, because they are copied to a file that everybody can read.
  if (!text || !HoldsCertificate(*text)) return {};
  Bundle bundle{std::string(PATH_MAX, '\0'),
                *std::move(text),
                {info.st_uid, info.st_gid, info.st_mode & 0777}};
  const std::string link = sys::FdPath(file->get());
  const ssize_t size = ::readlink(link.c_str(), bundle.path.data(), bundle.path.size());
  bundle.path.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return bundle;
}

// Returns the bundle of a pip. An image without a system bundle often has Python, and each pip has
// a bundle: "/usr/lib/python3.11/…".
std::optional<Bundle> ReadPythonBundle() {
  constexpr int kMostNames = 1000;
  for (const std::string base : {"/usr/local/lib", "/usr/lib"}) {
    const auto directory = OpenNoMagic(base, O_RDONLY | O_DIRECTORY);
    if (!directory) continue;
    std::vector<std::string> versions;
    int names = 0;
    [[maybe_unused]] const Status listed = sys::EachName(directory->get(), [&](const char* name) {
      if (std::string_view(name).starts_with("python3")) versions.emplace_back(name);
      return ++names < kMostNames && versions.size() < 8;
    });
    for (const std::string& version : versions) {
      for (const char* rest :
           {"/site-packages/certifi/cacert.pem", "/site-packages/pip/_vendor/certifi/cacert.pem",
            "/dist-packages/pip/_vendor/certifi/cacert.pem"}) {
        auto bundle = ReadBundle(base + "/" + version + rest);
        if (!bundle) continue;
        bundle->path.clear();
        return bundle;
      }
    }
  }
  return {};
}

Bundle FindBundle() {
  for (const char* path : kBundles) {
    if (auto bundle = ReadBundle(path)) return *std::move(bundle);
  }
  return ReadPythonBundle().value_or(Bundle());
}

// Creates the hash link. If a name is in use, tries the next number, as OpenSSL does in lookups.
Status LinkByHash(std::string name) {
  const auto directory = OpenDirectory(kHashDirectory, Identity());
  if (!directory) return {};  // no program looks there
  for (char number = '0'; number <= '9'; ++number) {
    name.back() = number;
    if (::symlinkat(kAuthorityFile, directory->get(), name.c_str()) == 0) return {};
    if (errno != EEXIST) return FailSys("link " + name);
    char target[64];
    const ssize_t size = ::readlinkat(directory->get(), name.c_str(), target, sizeof target);
    if (size > 0 && std::string_view(target, static_cast<size_t>(size)) == kAuthorityFile) {
      return {};
    }
  }
  return Fail(Code::kAlreadyExists, std::string(kHashDirectory) + ": " +
                                        name.substr(0, name.size() - 1) +
                                        "0 to 9 are other certificates; remove one from the image");
}

}  // namespace

Status TrustAuthority(const wire::TrustedAuthority& authority, Environment* env,
                      const std::function<void(std::string_view)>& complain) {
  const std::string& certificate = authority.certificate;
  const auto named = [](const char* path, Status status) -> Status {
    if (status) return {};
    return Fail(
        std::move(status).error().Wrap(std::string("certificate authority: write ") + path));
  };
  const auto best_effort = [&](const std::string& path, const Status& status) {
    if (!status) complain("write " + path + ": " + status.error().message());
  };
  const auto former = ReadSmallFile(kAuthorityFile, wire::kMaxCertificate);
  ATOLL_TRY(named(kAuthorityFile, WriteNew(kAuthorityFile, certificate)));
  const Bundle bundle = FindBundle();
  const std::string merged = WithAuthority(bundle.text, certificate, former ? *former : "");
  ATOLL_TRY(named(kMergedBundle, WriteNew(kMergedBundle, merged)));

  if (bundle.text.empty()) {
    complain("the image has no bundle of certificates: what reads one trusts this authority alone");
  }
  // A bundle that already has the certificate, as after a rollback, is not written: the write would
  // copy it up unchanged.
  if (!bundle.path.empty() && merged != bundle.text) {
    const auto [directory, name] = Parts(bundle.path);
    const auto place = OpenDirectory(directory, Identity());
    best_effort(bundle.path, place ? PutInPlace(*place, name, merged, bundle.owner)
                                   : Status(Fail(place.error())));
  }
  for (const Source& source : kSources) {
    const auto place = OpenDirectory(source.directory, Identity());
    if (!place) continue;
    best_effort(std::string(source.directory) + "/" + source.name,
                PutInPlace(*place, source.name, std::string(kAuthorityMark) + certificate));
  }
  best_effort(kHashDirectory, LinkByHash(authority.link));

  for (const auto& [name, path] : {std::pair{"NODE_EXTRA_CA_CERTS", kAuthorityFile},
                                   {"REQUESTS_CA_BUNDLE", kMergedBundle},
                                   {"SSL_CERT_FILE", kMergedBundle}}) {
    if (!env->Get(name)) env->Set(name, path);
  }
  return {};
}

}  // namespace atl::execd
