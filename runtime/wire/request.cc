#include "runtime/wire/request.h"

#include <algorithm>

#include "runtime/wire/plan.h"

namespace atl::wire {
namespace {

Status CheckName(const std::string& name) {
  if (ValidVolumeDirectory(name)) return {};
  return Fail(Code::kInvalidArgument, "'" + name.substr(0, 64) + "' is not a volume name");
}

Status CheckTier(const std::string& name) {
  if (ValidTierName(name)) return {};
  return Fail(Code::kInvalidArgument, "the name of a tier is 1 to 32 of a-z, 0-9 and '-'");
}

Status CheckLink(const std::string& name) {
  if (name.size() <= kMaxLinkName &&
      std::all_of(name.begin(), name.end(), [](char c) { return LowerOrDigit(c) || c == '-'; })) {
    return {};
  }
  return Fail(Code::kInvalidArgument, "the name of a link is up to 15 of a-z, 0-9 and '-'");
}

struct Form {
  Status operator()(const PrepareSlot& prepare) const { return CheckTier(prepare.tier); }
  Status operator()(const Build& build) const {
    ATOLL_TRY(CheckTier(build.plan->tier));
    ATOLL_TRY(CheckLink(build.plan->link));
    return CheckForm(build.plan->volumes);
  }
  Status operator()(const MakeVolume& make) const { return CheckName(make.name); }
  Status operator()(const RemoveVolume& remove) const { return CheckName(remove.name); }
  Status operator()(const MeasureVolume& measure) const { return CheckName(measure.name); }
  Status operator()(const CheckVolume& check) const { return CheckForm(check.volume); }
  Status operator()(const MountObjects& mount) const {
    ATOLL_TRY(CheckForm(mount.volume));
    const bool own = mount.volume.own_credentials;
    if (mount.volume.kind != Volume::Kind::kObjects || mount.index >= kMaxVolumes ||
        (own ? !ValidCredentials(mount.credentials) : mount.credentials != ObjectCredentials())) {
      return Fail(Code::kInvalidArgument, "a bucket is missing, or its credentials");
    }
    return {};
  }
  Status operator()(const MakeSession& make) const {
    ATOLL_TRY(CheckForm(make.spec));
    ATOLL_TRY(CheckForm(make.user));
    return CheckForm(make.terms);
  }
  Status operator()(const EndSession& end) const {
    return CheckForm(SessionSpec{.number = end.number, .mounts = {}});
  }
  // All other messages hold only numbers and names that are looked up.
  template <typename T>
  Status operator()(const T&) const {
    return {};
  }
};

}  // namespace

bool ValidTierName(std::string_view name) {
  return !name.empty() && name.size() <= 32 &&
         std::all_of(name.begin(), name.end(), [](char c) { return LowerOrDigit(c) || c == '-'; });
}

TierOverhead OverheadOf(std::string_view tier) {
  // Measured: 50 MiB for the sentry and the gofer of one sandbox, 30 each with a dozen. A process
  // of the sandbox is a process of the host; the sentry adds threads for what blocks.
  if (tier == kGvisorTier) return {.memory_bytes = 64 << 20, .pids_factor = 2, .pids = 256};
  // QEMU with the translations of emulated code, at most 128 MiB of them, and the file servers. The
  // processes of the sandbox are the guest's own; these are the threads of QEMU.
  if (tier == kMicrovmTier) return {.memory_bytes = 256 << 20, .pids_factor = 1, .pids = 256};
  return {};
}

uint64_t LeastMemoryOf(std::string_view tier) {
  // The guest's kernel and its initramfs take that much before they give something back.
  return tier == kMicrovmTier ? uint64_t{128} << 20 : 0;
}

bool CanStandStill(std::string_view tier) {
  return tier != kGvisorTier;
}

Status CheckForm(const Message& message) {
  return std::visit(Form(), message);
}

}  // namespace atl::wire
