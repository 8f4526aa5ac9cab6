// The durable records of snapshots, in a table of their own. Commits survive power loss, as the
// snapshots themselves do.
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

// The files that a sandbox had written when the snapshot was taken, on top of the sandbox's own
// layers.
struct Snapshot {
  static constexpr char kTable[] = "snapshots";

  // A deleted snapshot has no record. The collection of unused layers removes its layers.
  enum class State : uint8_t { kCreating, kReady, kFailed };

  std::string id;
  std::string tenant;      // owner; empty: the host
  std::string sandbox_id;  // the source, which may be gone
  std::string name;        // empty: none
  State state = State::kCreating;
  std::string reason;
  std::string message;
  int64_t created_at_ms = 0;
  int64_t transition_at_ms = 0;
  uint64_t size_bytes = 0;  // bytes of its own layer

  // A restore uses these.
  std::string image;  // the name by which the source was created
  std::string image_digest;
  images::ImageConfig config;  // the image's, with the source's environment
  std::map<std::string, std::string> metadata;
  std::vector<wire::LayerId> layers;  // topmost first: its own layer, then the layers of its source

  static constexpr auto kId = &Snapshot::id;
};
inline constexpr std::string_view kSnapshotStates[] = {"Creating", "Ready", "Failed"};
// Returns the word that the API shows and the store keeps.
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
  io.Optional("tenant", snapshot.tenant);
}

using SnapshotStore = RecordTable<Snapshot>;

}  // namespace atl::sandbox
