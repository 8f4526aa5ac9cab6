// The durable records of snapshots: a table of its own beside the sandboxes', with commits that
// survive power loss, as the snapshots themselves do.
//
// Thread rule: on the loop. A write is one row and an fsync; snapshots come and go rarely.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "images/image.h"
#include "runtime/sandbox/record/record_fields.h"
#include "runtime/sandbox/store/record_table.h"
#include "runtime/wire/layer.h"

namespace atl::sandbox {

inline constexpr size_t kMaxSnapshotName = 253;  // bytes

// What a sandbox had written when it was taken, over the layers that it was made of.
struct Snapshot {
  static constexpr char kTable[] = "snapshots";

  // One that is deleted has no record any more: its layers are found by who looks for unused ones.
  enum class State : uint8_t { kCreating, kReady, kFailed };

  std::string id;
  std::string sandbox_id;  // its source, which may be gone
  std::string name;        // empty: none
  State state = State::kCreating;
  std::string reason;
  std::string message;
  int64_t created_at_ms = 0;
  int64_t transition_at_ms = 0;
  uint64_t size_bytes = 0;  // of its own layer

  // Of a restore.
  std::string image;  // the name that the source's was created by
  std::string image_digest;
  images::ImageConfig config;  // the image's, with the source's environment
  std::map<std::string, std::string> metadata;
  std::vector<wire::LayerId> layers;  // topmost first: its own, those of its source

  static constexpr auto kId = &Snapshot::id;
};
inline constexpr std::string_view kSnapshotStates[] = {"Creating", "Ready", "Failed"};
// As the API shows it, and the store keeps it.
inline std::string_view SnapshotStateName(Snapshot::State state) {
  return kSnapshotStates[static_cast<size_t>(state)];
}

template <MaybeConst<Snapshot> S, typename Io>
void VisitFields(S& snapshot, Io& io) {
  io.Required("sandbox", snapshot.sandbox_id);
  io.Required("name", snapshot.name);
  io.Word("state", snapshot.state, kSnapshotStates);
  io.Required("reason", snapshot.reason);
  io.Required("message", snapshot.message);
  io.Required("transition", snapshot.transition_at_ms);
  io.Required("size", snapshot.size_bytes);
  io.Required("image", snapshot.image);
  io.Required("digest", snapshot.image_digest);
  io.Group("config", snapshot.config, [](auto& in, auto& config) {
    VisitProcess(config, in);
    in.Optional("entrypoint", config.entrypoint);
    in.Optional("cmd", config.cmd);
    in.Optional("labels", config.labels);
    in.Optional("ports", config.exposed_ports);
    in.Optional("shell", config.shell);
  });
  io.Required("metadata", snapshot.metadata);
  io.Required("layers", snapshot.layers);
}

using SnapshotStore = RecordTable<Snapshot>;

}  // namespace atl::sandbox
