#include "runtime/spawner/rules/config.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <iterator>
#include <optional>
#include <string_view>

#include "runtime/base/log_format.h"
#include "runtime/base/sys.h"
#include "runtime/wire/swap.h"
#include "runtime/wire/volume.h"

namespace atl::spawner {
namespace {

struct NamedCapability {
  std::string_view name;
  int number;
};

// The capabilities that a sandbox may have. Docker's fourteen, minus NET_RAW, MKNOD, SETFCAP and
// AUDIT_WRITE: nothing here reaches beyond the sandbox's own files, ids and processes.
constexpr NamedCapability kCapabilities[] = {
    {"cap_chown", CAP_CHOWN},   {"cap_dac_override", CAP_DAC_OVERRIDE},
    {"cap_fowner", CAP_FOWNER}, {"cap_fsetid", CAP_FSETID},
    {"cap_kill", CAP_KILL},     {"cap_net_bind_service", CAP_NET_BIND_SERVICE},
    {"cap_setgid", CAP_SETGID}, {"cap_setpcap", CAP_SETPCAP},
    {"cap_setuid", CAP_SETUID}, {"cap_sys_chroot", CAP_SYS_CHROOT},
};

Result<uint64_t> ParseCapabilities(std::string_view text) {
  uint64_t mask = 0;
  while (!text.empty()) {
    const std::string_view name = text.substr(0, text.find(','));
    bool known = false;
    for (const NamedCapability& capability : kCapabilities) {
      if (capability.name != name) continue;
      mask |= uint64_t{1} << capability.number;
      known = true;
    }
    if (!known) {
      return Fail(Code::kInvalidArgument,
                  "--capabilities: '" + std::string(name) +
                      "' cannot be given to a sandbox; known are cap_chown, cap_dac_override, "
                      "cap_fowner, cap_fsetid, cap_kill, cap_net_bind_service, cap_setgid, "
                      "cap_setpcap, cap_setuid, cap_sys_chroot");
    }
    text.remove_prefix(std::min(name.size() + 1, text.size()));
  }
  return mask;
}

Result<bool> ParseSwitch(std::string_view flag, std::string_view value) {
  if (value == "yes") return true;
  if (value == "no") return false;
  return Fail(Code::kInvalidArgument,
              std::string(flag) + " '" + std::string(value) + "': must be 'yes' or 'no'");
}

Result<uint64_t> ParseSwapSize(std::string_view value) {
  uint64_t bytes = 0;
  const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), bytes);
  const bool number = error == std::errc() && rest == value.data() + value.size();
  if (number && (bytes == 0 || wire::IsSwapSize(bytes))) return bytes;
  return Fail(Code::kInvalidArgument, "--swap-size '" + std::string(value) +
                                          "': use a number of bytes, a multiple of 4096, from " +
                                          std::to_string(wire::kLeastSwapBytes) + " to " +
                                          std::to_string(wire::kMostSwapBytes) + ", or 0 for none");
}

uint64_t AllCapabilities() {
  uint64_t mask = 0;
  for (const NamedCapability& capability : kCapabilities) mask |= uint64_t{1} << capability.number;
  return mask;
}

// Reads /etc/passwd itself, because this program is static and getpwnam would load libnss at run
// time.
Status LookUpUser(std::string_view user, Config* config) {
  ATOLL_ASSIGN(const std::string passwd, sys::ReadFileAt(AT_FDCWD, "/etc/passwd", 8 << 20));
  std::string_view rest = passwd;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    std::string_view fields[4];
    for (std::string_view& field : fields) {
      field = line.substr(0, line.find(':'));
      line.remove_prefix(std::min(field.size() + 1, line.size()));
    }
    if (fields[0] != user) continue;
    std::from_chars(fields[2].data(), fields[2].data() + fields[2].size(), config->daemon_uid);
    std::from_chars(fields[3].data(), fields[3].data() + fields[3].size(), config->daemon_gid);
    return {};
  }
  return Fail(Code::kNotFound, "user '" + std::string(user) +
                                   "' is not in /etc/passwd: create it with 'useradd --system "
                                   "--no-create-home --shell /usr/sbin/nologin " +
                                   std::string(user) + "'");
}

Result<std::string> OwnPath() {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  if (n <= 0) return FailSys("readlink /proc/self/exe");
  return std::string(path, static_cast<size_t>(n));
}

// Returns the kind whose name is `text`. The names are in the order of the kinds.
template <typename Kind, size_t kKinds>
std::optional<Kind> KindOf(const std::string_view (&names)[kKinds], std::string_view text) {
  const auto* const found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<Kind>(found - std::begin(names));
}

Result<VmAccel> ParseVmAccel(std::string_view text) {
  if (const auto accel = KindOf<VmAccel>(kVmAccelNames, text)) return *accel;
  return Fail(Code::kInvalidArgument,
              "--vm-accel '" + std::string(text) + "': must be auto, kvm or tcg");
}

}  // namespace

Result<SwapKind> ParseSwapKind(std::string_view text) {
  if (const auto kind = KindOf<SwapKind>(kSwapKindNames, text)) return *kind;
  return Fail(Code::kInvalidArgument,
              "'" + std::string(text) + "': must be auto, dm-crypt or zram");
}

uint32_t SlotOf(const std::string& name) {
  uint32_t slot = 0;
  if (name.size() > 1) std::from_chars(name.data() + 1, name.data() + name.size(), slot);
  return slot <= kMaxSlot && SlotGroup(slot) == name ? slot : 0;
}

std::vector<std::string> CapabilityNames(uint64_t mask) {
  std::vector<std::string> names;
  for (const NamedCapability& capability : kCapabilities) {
    if ((mask >> capability.number & 1) == 0) continue;
    std::string name(capability.name);
    for (char& c : name) c = static_cast<char>(c == '_' ? c : c - 'a' + 'A');
    names.push_back(std::move(name));
  }
  return names;
}

Result<Config> ParseCommandLine(int argc, char** argv) {
  Config config;
  config.capabilities = AllCapabilities();
  ATOLL_ASSIGN(config.program, OwnPath());
  const std::string own_directory = config.program.substr(0, config.program.rfind('/'));
  config.execd = own_directory + "/atoll-execd";
  config.unpack = own_directory + "/atoll-unpack";
  config.objects = own_directory + "/atoll-objects";
  config.intercept = own_directory + "/atoll-intercept";
  config.guard = own_directory + "/atoll-guard";
  config.vm_guard = own_directory + "/atoll-vm";
  config.vm_init = own_directory + "/atoll-vm-init";
  config.qemu = kQemu;
  config.virtiofsd = kVirtiofsd;
  bool user_given = false;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (i + 1 >= argc) return Fail(Code::kInvalidArgument, std::string(flag) + " needs a value");
    const std::string_view value = argv[i + 1];
    if (flag != "--ready-fd" && flag != "--successor" && flag != "--trial") {
      config.arguments.insert(config.arguments.end(), {argv[i], argv[i + 1]});
    }
    if (flag == "--data-dir") {
      config.data_dir = value;
    } else if (flag == "--run-dir") {
      config.run_dir = value;
    } else if (flag == "--user") {
      ATOLL_TRY(LookUpUser(value, &config));
      user_given = true;
    } else if (flag == "--cgroup") {
      config.cgroup = value;
    } else if (flag == "--execd") {
      config.execd = value;
    } else if (flag == "--unpack") {
      config.unpack = value;
    } else if (flag == "--objects") {
      config.objects = value;
    } else if (flag == "--guard") {
      config.guard = value;
    } else if (flag == "--runsc") {
      config.runsc = value;
    } else if (flag == "--vm-dir") {
      config.vm_dir = value;
    } else if (flag == "--vm-accel") {
      ATOLL_ASSIGN(config.vm_accel, ParseVmAccel(value));
    } else if (flag == "--vm-emulation") {
      ATOLL_ASSIGN(config.vm_emulation, ParseSwitch(flag, value));
    } else if (flag == "--object-store") {
      ATOLL_TRY(wire::AddObjectStore(value, &config.object_stores));
    } else if (flag == "--device") {
      ATOLL_TRY(wire::AddDevice(value, &config.devices));
    } else if (flag == "--ready-fd") {
      std::from_chars(value.data(), value.data() + value.size(), config.ready_fd);
    } else if (flag == "--respawn") {
      ATOLL_ASSIGN(config.respawn, ParseSwitch(flag, value));
    } else if (flag == "--successor") {
      ATOLL_ASSIGN(config.successor, ParseSwitch(flag, value));
    } else if (flag == "--trial") {
      ATOLL_ASSIGN(config.trial, ParseSwitch(flag, value));
    } else if (flag == "--swap-size") {
      ATOLL_ASSIGN(config.swap_bytes, ParseSwapSize(value));
    } else if (flag == "--swap-kind") {
      auto kind = ParseSwapKind(value);
      if (!kind) return Fail(std::move(kind).error().Wrap("--swap-kind"));
      config.swap_kind = *kind;
    } else if (flag == "--log-format") {
      ATOLL_ASSIGN(const LogFormat format, ParseLogFormat(value));
      SetLogFormat(format);
    } else if (flag == "--capabilities") {
      ATOLL_ASSIGN(config.capabilities, ParseCapabilities(value));
    } else if (flag == "--host-path") {
      if (!wire::PlainAbsolutePath(value)) {
        return Fail(Code::kInvalidArgument,
                    "--host-path '" + std::string(value) +
                        "': use an absolute path other than /, without '.', '..', '//' and a slash "
                        "at the end");
      }
      config.host_paths.emplace_back(value);
    } else {
      return Fail(Code::kInvalidArgument, "unknown flag " + std::string(flag));
    }
  }
  if (!config.data_dir.starts_with('/') || !config.run_dir.starts_with('/') || !user_given) {
    return Fail(Code::kInvalidArgument,
                "usage: atoll-spawner --data-dir /DIR --run-dir /DIR --user NAME [--execd PATH] "
                "[--unpack PATH] [--objects PATH] [--guard PATH] [--runsc PATH] [--vm-dir /DIR] "
                "[--vm-accel auto|kvm|tcg] [--vm-emulation yes] [--capabilities "
                "LIST] [--host-path /DIR]… "
                "[--object-store LINE]… [--device LINE]… [--log-format FORMAT] [--swap-size BYTES] "
                "[--swap-kind "
                "KIND] [--cgroup /PATH] "
                "[--respawn yes] [--successor yes] [--trial yes] "
                "[--ready-fd N]");
  }
  if (!config.cgroup.empty() && !config.cgroup.starts_with('/')) {
    return Fail(Code::kInvalidArgument, "--cgroup '" + config.cgroup + "' must start with '/'");
  }
  return config;
}

}  // namespace atl::spawner
