// GPUs: whether the host has descriptions that Atoll can read (runtime/daemon/cdi.h).
#include <fcntl.h>
#include <unistd.h>

#include <set>

#include "runtime/base/sys.h"
#include "runtime/daemon/cdi.h"
#include "tools/doctor/checks.h"

namespace atl::doctor {
namespace {

constexpr char kName[] = "gpu";
constexpr const char* kDirectories[] = {"/etc/cdi", "/var/run/cdi"};
constexpr char kGenerate[] =
    "describe it for gpu.kind: nvidia-ctk cdi generate --format=json "
    "--output=/etc/cdi/nvidia.json (package nvidia-container-toolkit)";

// Adds a finding for a file, unless it is sound.
void CheckFile(int directory, const std::string& name, const std::string& path,
               std::set<std::string>* kinds, std::vector<Finding>* findings) {
  const auto text = sys::ReadFileAt(directory, name, daemon::kMaxCdiFile);
  const auto kind = text ? daemon::KindOf(*text, path) : Fail(text.error());
  const auto devices = kind ? daemon::ParseCdi(*text, *kind, path) : Fail(kind.error());
  if (devices) {
    kinds->insert(*kind);
  } else {
    findings->push_back(Warning(kName, devices.error().message(),
                                "sandboxes get none of its devices, and gpu.kind is refused"));
  }
}

}  // namespace

std::vector<Finding> CheckGpu() {
  std::vector<Finding> findings;
  std::set<std::string> kinds;
  for (const char* path : kDirectories) {
    const auto directory = sys::Open(path, O_RDONLY | O_DIRECTORY);
    const auto names = directory ? sys::ListDir(directory->get()) : Fail(directory.error());
    if (!names) continue;
    for (const std::string& name : *names) {
      if (name.ends_with(".yaml") || name.ends_with(".yml")) {
        findings.push_back(
            Warning(kName, std::string(path) + "/" + name + " is YAML, which Atoll does not read",
                    kGenerate));
      } else if (name.ends_with(".json")) {
        CheckFile(directory->get(), name, std::string(path) + "/" + name, &kinds, &findings);
      }
    }
  }
  for (const std::string& kind : kinds) {
    const auto devices = daemon::ReadCdi({std::begin(kDirectories), std::end(kDirectories)}, kind);
    if (!devices) {
      findings.push_back(Warning(kName, devices.error().message(), "gpu.kind is refused"));
    } else {
      findings.push_back(Ok(
          kName, std::to_string(devices->size()) + " devices of kind " + kind + ", for gpu.kind"));
    }
  }
  if (findings.empty() && ::access("/dev/nvidiactl", F_OK) == 0) {
    findings.push_back(
        Warning(kName, "the host has an NVIDIA GPU and no description of it", kGenerate));
  }
  return findings;
}

}  // namespace atl::doctor
