#include "tools/atoll/archives/kernel_package.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "runtime/base/cpio.h"
#include "runtime/base/sys.h"
#include "runtime/wire/initramfs.h"

namespace atl::cli {
namespace {

constexpr size_t kMostKernel = 256 << 20;
constexpr size_t kMostModule = 16 << 20;
constexpr int kDeepest = 16;  // levels of folders, and of modules that need each other
constexpr char kMetaPackage[] = "linux-image-cloud-amd64";

// Devices that a machine of Atoll's has, the file system of its root, and that of the overlays of
// isolated sessions.
constexpr const char* kWanted[] = {"virtio_mmio",    "virtio_rng", "vmw_vsock_virtio_transport",
                                   "virtio_balloon", "virtiofs",   "virtio_net",
                                   "overlay"};

Error Foreign(const std::string& what) {
  return Error(Code::kInvalidArgument, what + ": is this a package linux-image-*-cloud-amd64?");
}

// Returns the package behind kMetaPackage.
Result<std::string> NewestKernel(int cancel_fd) {
  ATOLL_ASSIGN(const std::string shown, RunChild({.argv = {"apt-cache", "show", kMetaPackage},
                                                  .env = {},
                                                  .apt = "apt",
                                                  .cwd = "",
                                                  .meanwhile = {}},
                                                 cancel_fd));
  constexpr std::string_view kDepends = "\nDepends: linux-image-";
  const size_t at = shown.find(kDepends);
  if (at == std::string::npos) {
    return Fail(Code::kFailedPrecondition,
                std::string("apt knows no ") + kMetaPackage +
                    ": try 'apt-get update', or give a package with --from");
  }
  const size_t begin = at + std::strlen("\nDepends: ");
  return shown.substr(begin, shown.find_first_of(" ,\n", begin) - begin);
}

template <typename T>
T Number(std::string_view bytes, size_t at) {
  T value{};
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Names of modules have underscores, and their files now and then hyphens.
std::string ModuleName(std::string file) {
  file.resize(std::min(file.find(".ko"), file.size()));
  std::replace(file.begin(), file.end(), '-', '_');
  return file;
}

// An unpacked package.
class Tree {
 public:
  Tree(const std::string& path, int cancel_fd) : path_(path), cancel_fd_(cancel_fd) {}

  Status Find() {
    ATOLL_ASSIGN(root_, sys::Open(path_, O_RDONLY | O_DIRECTORY));
    ATOLL_ASSIGN(const std::string image, OnlyName("boot", "vmlinuz-"));
    version_ = image.substr(image.find('-') + 1);
    for (const char* place : {"usr/lib/modules/", "lib/modules/"}) {
      modules_ = place + version_;
      const auto directory = sys::OpenBeneath(root_.get(), modules_, O_RDONLY | O_DIRECTORY);
      if (directory) return Collect(modules_ + "/kernel", 0);
    }
    return Fail(Foreign("it has no modules of " + version_));
  }

  const std::string& version() const { return version_; }

  Result<std::string> Image() {
    ATOLL_ASSIGN(const std::string bzimage, Read("boot/vmlinuz-" + version_, kMostKernel));
    ATOLL_ASSIGN(const Payload payload, PayloadOf(bzimage));
    ATOLL_ASSIGN(std::string image, Decompress("kernel", payload, kMostKernel));
    if (image.compare(0, SELFMAG, ELFMAG) != 0) return Fail(Foreign("its kernel is no ELF file"));
    return image;
  }

  Result<std::string> Modules() {
    for (const char* name : kWanted) ATOLL_TRY(Take(name, 0));
    CpioWriter writer;
    const std::string folder = wire::vm::kModulesPath + 1;
    writer.AddDirectory(folder);
    std::string order;
    for (const auto& [name, bytes] : taken_) {
      writer.AddFile(folder + "/" + name, 0644, bytes);
      order += name + "\n";
    }
    writer.AddFile(folder + "/" + wire::vm::kModuleOrder, 0644, order);
    return writer.Finish();
  }

 private:
  Result<std::string> Read(const std::string& path, size_t most) {
    ATOLL_ASSIGN(const UniqueFd file,
                 sys::OpenBeneath(root_.get(), path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
    return sys::ReadAll(file.get(), most);
  }

  Result<std::string> OnlyName(const std::string& folder, const std::string& prefix) {
    ATOLL_ASSIGN(const UniqueFd directory,
                 sys::OpenBeneath(root_.get(), folder, O_RDONLY | O_DIRECTORY));
    ATOLL_ASSIGN(const std::vector<std::string> names, sys::ListDir(directory.get()));
    std::string found;
    for (const std::string& name : names) {
      if (!name.starts_with(prefix)) continue;
      if (!found.empty()) return Fail(Foreign("it has several kernels"));
      found = name;
    }
    if (found.empty()) return Fail(Foreign("it has no kernel"));
    return found;
  }

  Status Collect(const std::string& folder, int depth) {
    if (depth > kDeepest) return Fail(Foreign("its modules lie too deep"));
    ATOLL_ASSIGN(const UniqueFd directory,
                 sys::OpenBeneath(root_.get(), folder, O_RDONLY | O_DIRECTORY));
    ATOLL_ASSIGN(const std::vector<std::string> folders, sys::ListSubdirectories(directory.get()));
    for (const std::string& name : folders) ATOLL_TRY(Collect(folder + "/" + name, depth + 1));
    ATOLL_ASSIGN(const std::vector<std::string> names, sys::ListDir(directory.get()));
    for (const std::string& name : names) {
      if (name.find(".ko") != std::string::npos) files_[ModuleName(name)] = folder + "/" + name;
    }
    return {};
  }

  Result<std::string> Decompress(const std::string& name, const Payload& payload, size_t most) {
    const std::string path = path_ + "/" + name;
    ATOLL_ASSIGN(const UniqueFd directory, sys::Open(path_, O_RDONLY | O_DIRECTORY));
    ATOLL_TRY(sys::ReplaceFileAt(directory.get(), name + payload.suffix, payload.bytes, 0644));
    Words argv = {payload.program, "-q", "-d", path + payload.suffix};
    // Else it writes to its standard output, unless that is a terminal.
    if (payload.program == "lz4") argv.push_back(path);
    ATOLL_TRY(RunChild(
        {.argv = argv, .env = {}, .apt = payload.package, .cwd = "", .meanwhile = {}}, cancel_fd_));
    return Read(name, most);
  }

  // Takes a module behind those that it needs.
  Status Take(const std::string& name, int depth) {
    const auto file = files_.find(name);
    if (depth > kDeepest) return Fail(Foreign("its modules need each other"));
    if (file == files_.end()) {
      // A part of the kernel.
      ATOLL_ASSIGN(const std::string builtin, Read(modules_ + "/modules.builtin", kMostModule));
      for (const std::string& line : Lines(builtin)) {
        if (ModuleName(line.substr(line.rfind('/') + 1)) == name) return {};
      }
      return Fail(Foreign("it has no module " + name));
    }
    const std::string own = name + ".ko";
    const auto same = [&own](const auto& one) { return one.first == own; };
    if (std::any_of(taken_.begin(), taken_.end(), same)) return {};
    ATOLL_ASSIGN(std::string bytes, Read(file->second, kMostModule));
    if (file->second.ends_with(".xz")) {
      ATOLL_ASSIGN(bytes, Decompress("module", {bytes, "xz", ".xz", "xz-utils"}, kMostModule));
      if (::unlink((path_ + "/module").c_str()) != 0) return FailSys("unlink module");
    }
    const std::string needs = ModuleInfo(bytes, "depends");
    for (size_t at = 0; at < needs.size();) {
      const size_t end = std::min(needs.find(',', at), needs.size());
      ATOLL_TRY(Take(ModuleName(needs.substr(at, end - at)), depth + 1));
      at = end + 1;
    }
    taken_.emplace_back(own, std::move(bytes));
    return {};
  }

  static std::vector<std::string> Lines(const std::string& text) {
    std::vector<std::string> lines;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  }

  const std::string path_;
  const int cancel_fd_;
  UniqueFd root_;
  std::string version_, modules_;
  std::map<std::string, std::string> files_;  // paths by the names of modules
  std::vector<std::pair<std::string, std::string>> taken_;
};

}  // namespace

std::string ModuleInfo(std::string_view module, std::string_view key) {
  const std::string wanted = std::string(1, '\0') + std::string(key) + "=";
  const size_t at = module.find(wanted);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = module.substr(at + wanted.size());
  return std::string(rest.substr(0, rest.find('\0')));
}

// Documentation/arch/x86/boot.rst, "payload_offset". The last four bytes are the size of what was
// compressed, for forms that do not have it.
Result<Payload> PayloadOf(std::string_view bzimage) {
  constexpr size_t kSectors = 0x1f1, kMagic = 0x202, kOffset = 0x248, kLength = 0x24c, kSize = 4;
  if (bzimage.substr(std::min(kMagic, bzimage.size()), 4) != "HdrS") {
    return Fail(Foreign("its kernel is no bzImage"));
  }
  const size_t setup = (size_t{Number<uint8_t>(bzimage, kSectors)} + 1) * 512;
  const size_t begin = setup + Number<uint32_t>(bzimage, kOffset);
  const size_t length = Number<uint32_t>(bzimage, kLength);
  if (length <= kSize || begin > bzimage.size() || length > bzimage.size() - begin) {
    return Fail(Foreign("its kernel is cut off"));
  }
  const std::string_view bytes = bzimage.substr(begin, length);
  const Payload kForms[] = {{std::string_view("\x02\x21\x4c\x18", 4), "lz4", ".lz4", "lz4"},
                            {std::string_view("\x28\xb5\x2f\xfd", 4), "zstd", ".zst", "zstd"},
                            {std::string_view("\xfd"
                                              "7zXZ",
                                              5),
                             "xz", ".xz", "xz-utils"},
                            {std::string_view("\x1f\x8b\x08", 3), "gzip", ".gz", "gzip"}};
  for (const Payload& form : kForms) {
    if (!bytes.starts_with(form.bytes)) continue;
    const size_t tail = form.program == "gzip" ? 0 : kSize;  // the size is a part of gzip's form
    return Payload{bytes.substr(0, length - tail), form.program, form.suffix, form.package};
  }
  return Fail(Foreign("its kernel is compressed in an unknown way"));
}

Result<std::string> DownloadKernelPackage(const std::string& directory, int cancel_fd) {
  ATOLL_ASSIGN(const std::string package, NewestKernel(cancel_fd));
  // Another user of apt's could not write here.
  ATOLL_TRY(RunChild({.argv = {"apt-get", "-q", "-o", "APT::Sandbox::User=root", "-o",
                               "APT::Get::AllowUnauthenticated=false", "download", package},
                      .env = {},
                      .apt = "apt",
                      .cwd = directory,
                      .told = true,
                      .meanwhile = {}},
                     cancel_fd));
  ATOLL_ASSIGN(const UniqueFd opened, sys::Open(directory, O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(const std::vector<std::string> names, sys::ListDir(opened.get()));
  for (const std::string& name : names) {
    if (name.ends_with(".deb")) return directory + "/" + name;
  }
  return Fail(Code::kInternal, "apt-get has downloaded nothing");
}

Result<GuestKernel> ReadKernelPackage(const std::string& package, int cancel_fd) {
  ATOLL_ASSIGN(const TemporaryDirectory work, TemporaryDirectory::Make());
  const std::string unpacked = work.path() + "/unpacked";
  const uid_t user = ::geteuid() == 0 ? NobodysId() : 0;
  if (::chmod(work.path().c_str(), 0755) != 0) return FailSys("chmod " + work.path());
  if (::mkdir(unpacked.c_str(), 0755) != 0) return FailSys("mkdir " + unpacked);
  if (user != 0 && ::chown(unpacked.c_str(), user, user) != 0) return FailSys("chown " + unpacked);
  // A copy that nobody can read, wherever the package lies.
  const std::string copy = work.path() + "/package.deb";
  {
    ATOLL_ASSIGN(const UniqueFd from, sys::Open(package, O_RDONLY));
    ATOLL_ASSIGN(const std::string bytes, sys::ReadAll(from.get(), kMostKernel));
    ATOLL_ASSIGN(const UniqueFd directory, sys::Open(work.path(), O_RDONLY | O_DIRECTORY));
    ATOLL_TRY(sys::ReplaceFileAt(directory.get(), "package.deb", bytes, 0644));
  }
  ATOLL_TRY(RunChild({.argv = {"dpkg-deb", "--extract", copy, unpacked},
                      .env = {},
                      .apt = "dpkg",
                      .cwd = "/",
                      .user = user,
                      .meanwhile = {}},
                     cancel_fd));
  Tree tree(unpacked, cancel_fd);
  ATOLL_TRY(tree.Find());
  GuestKernel kernel;
  kernel.version = tree.version();
  ATOLL_ASSIGN(kernel.image, tree.Image());
  ATOLL_ASSIGN(kernel.modules, tree.Modules());
  return kernel;
}

}  // namespace atl::cli
