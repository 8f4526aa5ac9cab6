#include "runtime/spawner/tier/gvisor_spec.h"

#include "runtime/spawner/rules/config.h"
#include "runtime/wire/guard.h"

namespace atl::spawner {
namespace {

// Escapes as RFC 8259 section 7 asks. Only targets of volumes need it.
std::string Quoted(const std::string& text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      quoted.append("\\u00").append({kHex[byte >> 4], kHex[byte & 15]});
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string Mount(const std::string& to, const char* type, const std::string& from,
                  const std::string& options) {
  return "{\"destination\":" + Quoted(to) + ",\"type\":" + Quoted(type) +
         ",\"source\":" + Quoted(from) + ",\"options\":[" + options + "]}";
}

std::string CapabilityList(uint64_t mask) {
  std::string list;
  for (const std::string& name : CapabilityNames(mask)) {
    list += (list.empty() ? "" : ",") + Quoted(name);
  }
  return "[" + list + "]";
}

}  // namespace

std::string GvisorSpecText(const GvisorSpec& spec) {
  const std::string capabilities = CapabilityList(spec.capabilities);
  const std::string files = std::to_string(spec.nofile);
  std::string mounts = Mount("/proc", "proc", "proc", "") + "," +
                       Mount("/dev", "tmpfs", "tmpfs", "\"nosuid\",\"mode=755\"") + "," +
                       Mount("/dev/pts", "devpts", "devpts", "\"nosuid\",\"noexec\"") + "," +
                       Mount("/dev/shm", "tmpfs", "tmpfs",
                             "\"nosuid\",\"noexec\",\"nodev\",\"mode=1777\"," +
                                 Quoted("size=" + std::to_string(spec.shm_bytes))) +
                       "," + Mount("/sys", "sysfs", "sysfs", "\"nosuid\",\"noexec\",\"ro\"") + "," +
                       Mount(wire::kGuardedDirectory, "bind", wire::kGuardShared,
                             "\"rbind\",\"rw\",\"nosuid\",\"nodev\"");
  // gVisor would put a file system in memory over an empty /tmp, which no snapshot and no fork
  // would have.
  if (spec.tmp) {
    mounts += "," + Mount("/tmp", "bind", "/root/tmp",
                          std::string("\"rbind\",") + (spec.readonly_root ? "\"ro\"" : "\"rw\""));
  }
  for (const GvisorVolume& volume : spec.volumes) {
    mounts += "," + Mount(volume.target, "bind", volume.source,
                          std::string("\"rbind\",\"nosuid\",\"nodev\",") +
                              (volume.read_only ? "\"ro\"" : "\"rw\""));
  }
  return "{\"ociVersion\":\"1.0.2\",\"process\":{\"user\":{\"uid\":0,\"gid\":0},"
         "\"args\":[\"/.atoll/execd\",\"--guarded=1\"],\"env\":[],\"cwd\":\"/"
         "\",\"noNewPrivileges\":true,"
         "\"rlimits\":[{\"type\":\"RLIMIT_NOFILE\",\"soft\":" +
         files + ",\"hard\":" + files + "}],\"capabilities\":{\"bounding\":" + capabilities +
         ",\"effective\":" + capabilities + ",\"permitted\":" + capabilities +
         "}},\"root\":{\"path\":\"/root\",\"readonly\":" + (spec.readonly_root ? "true" : "false") +
         "},\"hostname\":" + Quoted(spec.hostname) + ",\"mounts\":[" + mounts +
         "],\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"ipc\"},{\"type\":\"uts\"},"
         "{\"type\":\"mount\"},{\"type\":\"network\",\"path\":\"/proc/self/ns/net\"}]}}";
}

}  // namespace atl::spawner
