// The durable records of named volumes, in a table of their own. Commits survive power loss, as the
// volumes themselves do.
//
// Thread rule: on the loop. A write is one row and an fsync; volumes come and go rarely.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/sandbox/record/fields.h"
#include "runtime/sandbox/store/record_table.h"

namespace atl::sandbox {

struct VolumeRecord {
  static constexpr char kTable[] = "volumes";

  // A restart removes the directory of a volume in state kMaking, whose creation was never
  // acknowledged, and in state kRemoving, whose removal was. A kTrial volume is ready, and was made
  // for a create that has not succeeded yet; `owner` is the sandbox of that create. If the sandbox
  // has no record either, the create was never acknowledged.
  enum class State : uint8_t { kMaking = 0, kReady = 1, kRemoving = 2, kTrial = 3 };

  std::string directory;  // wire::VolumeDirectory
  State state = State::kMaking;
  int64_t created_at_ms = 0;
  std::string owner;        // the sandbox whose end removes the volume; empty: none
  std::string tenant;       // empty: the host
  uint64_t disk_bytes = 0;  // disk limit of a tenant's volume; 0: none

  static constexpr auto kId = &VolumeRecord::directory;
};

inline constexpr std::string_view kVolumeStates[] = {"making", "ready", "removing", "trial"};

template <MaybeConst<VolumeRecord> R, typename Io>
void VisitFields(R& volume, Io& io) {
  io.Word("state", volume.state, kVolumeStates);
  io.Required("owner", volume.owner);
  io.Optional("tenant", volume.tenant);
  io.Optional("disk_bytes", volume.disk_bytes);
}

using VolumeStore = RecordTable<VolumeRecord>;

}  // namespace atl::sandbox
