#include "runtime/wire/device.h"

#include <algorithm>

#include "runtime/wire/volume.h"

namespace atl::wire {
namespace {

struct Part {
  std::string_view word;
  std::vector<DevicePath> Device::*list;
};
constexpr Part kParts[] = {
    {"node=", &Device::nodes}, {"mount=", &Device::mounts}, {"link=", &Device::links}};
constexpr std::string_view kEnv = "env=";

Error Bad(const Device& device, const std::string& why) {
  return Error(Code::kInvalidArgument, "device '" + device.name.substr(0, 64) + "': " + why);
}

bool Visible(std::string_view text) {
  return !text.empty() && text.size() <= kMaxDeviceText &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool IsPath(std::string_view path) {
  return Visible(path) && path.find(':') == path.npos && PlainAbsolutePath(path);
}

bool IsVariable(std::string_view entry) {
  const size_t equals = entry.find('=');
  return Visible(entry) && equals != entry.npos && equals != 0;
}

std::string Quoted(std::string_view text) {
  return "'" + std::string(text.substr(0, 200)) + "'";
}

}  // namespace

bool ValidDeviceName(std::string_view name) {
  const auto alphanumeric = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !name.empty() && name.size() <= 64 && alphanumeric(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return alphanumeric(c) || c == '_' || c == '.' || c == ':' || c == '-';
         });
}

Status CheckForm(const Device& device) {
  if (!ValidDeviceName(device.name)) return Fail(Bad(device, "is not a device name"));
  for (const auto* list : {&device.nodes, &device.mounts}) {
    for (const DevicePath& file : *list) {
      if (!IsPath(file.source)) return Fail(Bad(device, Quoted(file.source) + " is not a path"));
    }
  }
  for (const auto* list : {&device.nodes, &device.mounts, &device.links}) {
    for (const DevicePath& file : *list) {
      if (!IsPath(file.target)) return Fail(Bad(device, Quoted(file.target) + " is not a path"));
    }
  }
  for (const DevicePath& node : device.nodes) {
    if (!node.target.starts_with("/dev/")) {
      return Fail(Bad(device, "the node " + Quoted(node.target) + " is not below /dev"));
    }
  }
  for (const DevicePath& link : device.links) {
    if (!Visible(link.source) || link.source.find(':') != link.source.npos) {
      return Fail(Bad(device, "the link " + Quoted(link.target) + " leads nowhere"));
    }
  }
  size_t bytes = 0;
  for (const std::string& entry : device.env) {
    bytes += entry.size();
    if (!IsVariable(entry)) return Fail(Bad(device, "env " + Quoted(entry) + " is not NAME=VALUE"));
  }
  const size_t parts =
      device.nodes.size() + device.mounts.size() + device.links.size() + device.env.size();
  if (parts > kMaxDeviceParts || bytes > kMaxDeviceEnv)
    return Fail(Bad(device, "has too many parts"));
  if (device.nodes.empty()) return Fail(Bad(device, "has no device node"));
  return {};
}

std::string DeviceLine(const Device& device) {
  std::string line = device.name;
  for (const Part& part : kParts) {
    for (const DevicePath& file : device.*part.list) {
      line.append(" ").append(part.word).append(file.source).append(":").append(file.target);
    }
  }
  for (const std::string& entry : device.env) line.append(" ").append(kEnv).append(entry);
  return line;
}

Result<Device> ParseDeviceLine(std::string_view line) {
  Device device;
  if (line.size() > kMaxDeviceLine) return Fail(Bad(device, "its line is too long"));
  device.name = line.substr(0, line.find(' '));
  line.remove_prefix(device.name.size());
  while (!line.empty()) {
    line.remove_prefix(1);
    std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(word.size());
    if (word.starts_with(kEnv)) {
      device.env.emplace_back(word.substr(kEnv.size()));
      continue;
    }
    const auto* const part =
        std::find_if(std::begin(kParts), std::end(kParts),
                     [word](const Part& p) { return word.starts_with(p.word); });
    if (part == std::end(kParts)) return Fail(Bad(device, Quoted(word) + " is not known"));
    word.remove_prefix(part->word.size());
    const size_t colon = word.find(':');
    if (colon == word.npos) return Fail(Bad(device, Quoted(word) + " has no ':'"));
    (device.*part->list)
        .push_back({std::string(word.substr(0, colon)), std::string(word.substr(colon + 1))});
  }
  ATOLL_TRY(CheckForm(device));
  return device;
}

Status AddDevice(std::string_view line, std::vector<Device>* devices) {
  ATOLL_ASSIGN(Device device, ParseDeviceLine(line));
  if (devices->size() >= kMaxDevices) return Fail(Bad(device, "exceeds the limit of devices"));
  for (const Device& other : *devices) {
    if (other.name == device.name) return Fail(Bad(device, "occurs twice"));
  }
  devices->push_back(std::move(device));
  return {};
}

}  // namespace atl::wire
