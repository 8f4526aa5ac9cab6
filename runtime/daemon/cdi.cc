#include "runtime/daemon/cdi.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "images/foreign_json.h"
#include "runtime/base/plain_file.h"
#include "runtime/base/sys.h"

namespace atl::daemon {
namespace {

using nlohmann::json;
using wire::Device;
using wire::DevicePath;

constexpr std::string_view kVersions[] = {"0.3.0", "0.4.0", "0.5.0", "0.6.0",
                                          "0.7.0", "0.8.0", "1.0.0", "1.1.0"};
constexpr size_t kMaxFiles = 64;

// One object or array of a file, with its path in errors.
class Node {
 public:
  Node(const json& value, std::string where) : value_(value), where_(std::move(where)) {}

  Error Bad(const std::string& why) const {
    return Error(Code::kInvalidArgument, where_ + ": " + why);
  }
  // Refuses anything but an object with some of these fields.
  Status HasOnly(const std::vector<std::string_view>& known) const {
    if (!value_.is_object()) return Fail(Bad("must be an object"));
    for (const auto& [name, value] : value_.items()) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        return Fail(Bad("'" + name.substr(0, 64) + "' is not supported"));
      }
    }
    return {};
  }
  bool Has(const char* name) const { return value_.contains(name); }
  Node At(const char* name) const { return {value_.at(name), where_ + "." + name}; }
  // A missing text is empty.
  Result<std::string> Text(const char* name) const {
    if (!Has(name)) return std::string();
    if (!value_.at(name).is_string()) return Fail(At(name).Bad("must be a string"));
    return value_.at(name).get<std::string>();
  }
  // A missing list is empty.
  Result<std::vector<Node>> List(const char* name) const {
    std::vector<Node> nodes;
    if (!Has(name)) return nodes;
    const json& list = value_.at(name);
    if (!list.is_array()) return Fail(At(name).Bad("must be an array"));
    if (list.size() > wire::kMaxDeviceParts) return Fail(At(name).Bad("has too many elements"));
    for (size_t i = 0; i < list.size(); ++i) {
      nodes.emplace_back(list[i], where_ + "." + name + "[" + std::to_string(i) + "]");
    }
    return nodes;
  }
  Result<std::vector<std::string>> Texts(const char* name) const {
    std::vector<std::string> texts;
    ATOLL_ASSIGN(const std::vector<Node> nodes, List(name));
    for (const Node& node : nodes) {
      if (!node.value_.is_string()) return Fail(node.Bad("must be a string"));
      texts.push_back(node.value_.get<std::string>());
    }
    return texts;
  }
  const json& value() const { return value_; }

 private:
  const json& value_;
  std::string where_;
};

// Edits of a file or of a device.
struct Edits {
  std::vector<DevicePath> nodes, mounts, links;
  std::vector<std::string> env;
  std::vector<std::string> libraries;  // directories for the dynamic loader
};

Status ReadNode(const Node& node, Edits* edits) {
  ATOLL_TRY(node.HasOnly(
      {"path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"}));
  ATOLL_ASSIGN(const std::string type, node.Text("type"));
  // A block device is a disk of the host.
  if (!type.empty() && type != "c" && type != "u") {
    return Fail(
        node.Bad("type '" + type.substr(0, 16) + "': only character devices are supported"));
  }
  DevicePath file;
  ATOLL_ASSIGN(file.target, node.Text("path"));
  ATOLL_ASSIGN(file.source, node.Text("hostPath"));
  if (file.source.empty()) file.source = file.target;
  edits->nodes.push_back(std::move(file));
  return {};
}

Status ReadMount(const Node& mount, Edits* edits) {
  ATOLL_TRY(mount.HasOnly({"hostPath", "containerPath", "options", "type"}));
  static const std::set<std::string> kOptions = {"ro",    "nosuid",  "nodev",    "noexec",  "bind",
                                                 "rbind", "private", "rprivate", "relatime"};
  ATOLL_ASSIGN(const std::vector<std::string> options, mount.Texts("options"));
  for (const std::string& option : options) {
    if (!kOptions.contains(option)) {
      return Fail(mount.Bad("option '" + option.substr(0, 64) + "' is not supported"));
    }
  }
  ATOLL_ASSIGN(const std::string type, mount.Text("type"));
  if (!type.empty() && type != "bind" && type != "none") {
    return Fail(mount.Bad("type '" + type.substr(0, 64) + "' is not supported"));
  }
  DevicePath file;
  ATOLL_ASSIGN(file.source, mount.Text("hostPath"));
  ATOLL_ASSIGN(file.target, mount.Text("containerPath"));
  edits->mounts.push_back(std::move(file));
  return {};
}

// Returns the values of `option` ("--folder /a", "--folder=/a"), and refuses any other argument.
Result<std::vector<std::string>> ValuesOf(const Node& hook, const std::vector<std::string>& args,
                                          const std::vector<std::string_view>& options) {
  std::vector<std::string> values;
  for (size_t i = 2; i < args.size(); ++i) {
    const size_t equals = args[i].find('=');
    const std::string name = args[i].substr(0, equals);
    const auto known = std::find(options.begin(), options.end(), name);
    const bool has_value = equals != std::string::npos || i + 1 < args.size();
    if (known == options.end() || !has_value) {
      return Fail(hook.Bad("hook " + args[1].substr(0, 64) + ": argument '" +
                           args[i].substr(0, 200) + "' is not supported"));
    }
    const std::string value = equals != std::string::npos ? args[i].substr(equals + 1) : args[++i];
    // Only the first option matters here; others, such as a mode, have no effect in a sandbox.
    if (known == options.begin()) values.push_back(value);
  }
  return values;
}

Status ReadHook(const Node& hook, Edits* edits) {
  ATOLL_TRY(hook.HasOnly({"hookName", "path", "args", "env", "timeout"}));
  ATOLL_ASSIGN(const std::string when, hook.Text("hookName"));
  ATOLL_ASSIGN(const std::vector<std::string> args, hook.Texts("args"));
  const std::string what = args.size() > 1 ? args[1] : "";
  if (when != "createContainer") {
    return Fail(hook.Bad("hook '" + when.substr(0, 64) + "' is not supported"));
  }
  if (what == "create-symlinks") {
    ATOLL_ASSIGN(const std::vector<std::string> links, ValuesOf(hook, args, {"--link"}));
    for (const std::string& link : links) {
      const size_t colons = link.find("::");
      if (colons == std::string::npos) {
        return Fail(hook.Bad("--link '" + link.substr(0, 200) + "' is not TARGET::PATH"));
      }
      edits->links.push_back({link.substr(0, colons), link.substr(colons + 2)});
    }
    return {};
  }
  if (what == "update-ldcache") {
    ATOLL_ASSIGN(edits->libraries, ValuesOf(hook, args, {"--folder", "--ldconfig-path"}));
    return {};
  }
  if (what == "chmod") {
    ATOLL_TRY(ValuesOf(hook, args, {"--path", "--mode"}));
    return {};
  }
  if (what == "disable-device-node-modification") {
    ATOLL_TRY(ValuesOf(hook, args, {}));
    return {};
  }
  return Fail(hook.Bad("hook '" + what.substr(0, 64) +
                       "' is not supported: Atoll runs no programs of a device's vendor; leave the "
                       "hook out, such as by nvidia-ctk cdi generate --disable-hook=" +
                       what.substr(0, 64)));
}

Status ReadEdits(const Node& parent, Edits* edits) {
  if (!parent.Has("containerEdits")) return {};
  const Node node = parent.At("containerEdits");
  ATOLL_TRY(node.HasOnly({"env", "deviceNodes", "mounts", "hooks", "additionalGids"}));
  ATOLL_ASSIGN(const std::vector<std::string> env, node.Texts("env"));
  edits->env.insert(edits->env.end(), env.begin(), env.end());
  ATOLL_ASSIGN(const std::vector<Node> nodes, node.List("deviceNodes"));
  for (const Node& each : nodes) ATOLL_TRY(ReadNode(each, edits));
  ATOLL_ASSIGN(const std::vector<Node> mounts, node.List("mounts"));
  for (const Node& each : mounts) ATOLL_TRY(ReadMount(each, edits));
  ATOLL_ASSIGN(const std::vector<Node> hooks, node.List("hooks"));
  for (const Node& each : hooks) ATOLL_TRY(ReadHook(each, edits));
  // No id of the host has a counterpart in a sandbox, so a group gives no access. A node that only
  // a group may open is refused when it is mounted (spawner/root/device_mounts.h).
  ATOLL_ASSIGN(const std::vector<Node> gids, node.List("additionalGids"));
  for (const Node& gid : gids) {
    if (!gid.value().is_number_unsigned()) return Fail(gid.Bad("must be a group's number"));
  }
  return {};
}

template <typename T>
void Append(std::vector<T>* to, const std::vector<T>& from) {
  for (const T& item : from) {
    if (std::find(to->begin(), to->end(), item) == to->end()) to->push_back(item);
  }
}

Device DeviceOf(const std::string& name, const Edits& edits, const Edits& common) {
  Device device{.name = name};
  std::vector<std::string> libraries;
  for (const Edits* each : {&common, &edits}) {
    Append(&device.nodes, each->nodes);
    Append(&device.mounts, each->mounts);
    Append(&device.links, each->links);
    Append(&device.env, each->env);
    Append(&libraries, each->libraries);
  }
  std::string path;
  for (const std::string& directory : libraries) path += (path.empty() ? "" : ":") + directory;
  if (!path.empty()) device.env.push_back("LD_LIBRARY_PATH=" + path);
  return device;
}

Result<std::string> ReadRootsFile(int directory, const std::string& name, const std::string& path) {
  ATOLL_ASSIGN(const UniqueFd file,
               sys::OpenAt(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return FailSys("fstat " + path);
  if (!S_ISREG(info.st_mode)) return Fail(Code::kFailedPrecondition, path + " is not a file");
  ATOLL_TRY(CheckWriters(path, info, {0}));
  if (info.st_size > static_cast<off_t>(kMaxCdiFile)) {
    return Fail(Code::kFailedPrecondition, path + " is larger than 1 MiB");
  }
  return sys::ReadAll(file.get(), kMaxCdiFile);
}

std::set<std::string> NodesOf(const Device& device) {
  std::set<std::string> nodes;
  for (const DevicePath& node : device.nodes) nodes.insert(node.source);
  return nodes;
}

}  // namespace

Result<std::vector<Device>> ParseCdi(std::string_view text, const std::string& kind,
                                     const std::string& file) {
  ATOLL_ASSIGN(const json parsed, images::ParseForeignObject(text, file));
  const Node top(parsed, file);
  std::vector<Device> devices;
  ATOLL_ASSIGN(const std::string its_kind, top.Text("kind"));
  if (its_kind != kind) return devices;
  ATOLL_TRY(top.HasOnly({"cdiVersion", "kind", "annotations", "devices", "containerEdits"}));
  ATOLL_ASSIGN(const std::string version, top.Text("cdiVersion"));
  if (std::find(std::begin(kVersions), std::end(kVersions), version) == std::end(kVersions)) {
    return Fail(top.Bad("cdiVersion '" + version.substr(0, 32) + "' is not supported"));
  }
  Edits common;
  ATOLL_TRY(ReadEdits(top, &common));
  ATOLL_ASSIGN(const std::vector<Node> nodes, top.List("devices"));
  for (const Node& node : nodes) {
    ATOLL_TRY(node.HasOnly({"name", "annotations", "containerEdits"}));
    ATOLL_ASSIGN(const std::string name, node.Text("name"));
    Edits edits;
    ATOLL_TRY(ReadEdits(node, &edits));
    Device device = DeviceOf(name, edits, common);
    if (Status right = wire::CheckForm(device); !right) {
      return Fail(std::move(right).error().Wrap(file));
    }
    for (const Device& other : devices) {
      if (other.name == name) return Fail(node.Bad("device '" + name + "' occurs twice"));
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

Result<std::string> KindOf(std::string_view text, const std::string& file) {
  ATOLL_ASSIGN(const json parsed, images::ParseForeignObject(text, file));
  return Node(parsed, file).Text("kind");
}

Result<std::vector<Device>> ReadCdi(const std::vector<std::string>& directories,
                                    const std::string& kind) {
  std::vector<Device> found;
  for (const std::string& path : directories) {
    const auto directory = sys::Open(path, O_RDONLY | O_DIRECTORY);
    if (!directory && directory.error().code() == Code::kNotFound) continue;
    if (!directory) return Fail(directory.error());
    struct stat info {};
    if (::fstat(directory->get(), &info) != 0) return FailSys("fstat " + path);
    ATOLL_TRY(CheckWriters(path, info, {0}));
    ATOLL_ASSIGN(std::vector<std::string> names, sys::ListDir(directory->get()));
    std::erase_if(names, [](const std::string& name) { return !name.ends_with(".json"); });
    std::sort(names.begin(), names.end());
    if (names.size() > kMaxFiles)
      return Fail(Code::kFailedPrecondition, path + " has too many files");
    std::vector<Device> here;
    for (const std::string& name : names) {
      const std::string file = path + "/" + name;
      ATOLL_ASSIGN(const std::string text, ReadRootsFile(directory->get(), name, file));
      ATOLL_ASSIGN(std::vector<Device> devices, ParseCdi(text, kind, file));
      for (Device& device : devices) {
        const auto same = [&device](const Device& other) { return other.name == device.name; };
        if (std::any_of(here.begin(), here.end(), same)) {
          return Fail(Code::kFailedPrecondition,
                      file + ": device '" + device.name + "' is in another file, too");
        }
        here.push_back(std::move(device));
      }
    }
    for (Device& device : here) {
      std::erase_if(found, [&](const Device& other) { return other.name == device.name; });
      found.push_back(std::move(device));
    }
  }
  // Numbers come before the longer names of the same devices.
  std::sort(found.begin(), found.end(), [](const Device& a, const Device& b) {
    return std::pair(a.name.size(), a.name) < std::pair(b.name.size(), b.name);
  });
  std::vector<Device> devices;
  std::set<std::set<std::string>> nodes;
  for (Device& device : found) {
    if (device.name == "all" || !nodes.insert(NodesOf(device)).second) continue;
    devices.push_back(std::move(device));
  }
  if (devices.size() > wire::kMaxDevices) {
    return Fail(Code::kFailedPrecondition,
                std::to_string(devices.size()) + " devices of kind " + kind + " are too many");
  }
  return devices;
}

}  // namespace atl::daemon
