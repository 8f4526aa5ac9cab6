// The durable records of named volumes: a table of its own beside the sandboxes', with commits that
// survive power loss, as the volumes themselves do.
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

  // What is kMaking or kRemoving after a restart was never acknowledged, or its removal was: its
  // directory goes. kTrial is ready, and made for a create that has not succeeded yet, of which
  // `owner` is the sandbox: if that is not recorded either, the create was never acknowledged.
  enum class State : uint8_t { kMaking = 0, kReady = 1, kRemoving = 2, kTrial = 3 };

  std::string name;
  State state = State::kMaking;
  int64_t created_at_ms = 0;
  std::string owner;  // a sandbox whose end is the volume's, too; empty: none

  static constexpr auto kId = &VolumeRecord::name;
};

inline constexpr std::string_view kVolumeStates[] = {"making", "ready", "removing", "trial"};

template <MaybeConst<VolumeRecord> R, typename Io>
void VisitFields(R& volume, Io& io) {
  io.Word("state", volume.state, kVolumeStates);
  io.Required("owner", volume.owner);
}

using VolumeStore = RecordTable<VolumeRecord>;

}  // namespace atl::sandbox
