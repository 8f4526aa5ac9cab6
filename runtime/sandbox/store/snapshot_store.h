// The durable records of snapshots: a table of its own beside the sandboxes', with commits that
// survive power loss, as the snapshots themselves do.
//
// Thread rule: on the loop. A write is one row and an fsync; snapshots come and go rarely.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "images/image.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/store/record_table.h"
#include "runtime/wire/layer.h"

namespace atl::sandbox {

inline constexpr size_t kMaxSnapshotName = 253;  // bytes

// What a sandbox had written when it was taken, over the layers that it was made of.
struct Snapshot {
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
};
// "Creating", …: as the API shows it.
std::string_view SnapshotStateName(Snapshot::State state);

class SnapshotStore {
 public:
  // `path`: that of Store, which was opened before.
  static Result<std::unique_ptr<SnapshotStore>> Open(const std::string& path);

  Result<std::vector<Snapshot>> Load();
  // A new one on a full disk is kResourceExhausted with ENOSPC.
  Status Insert(const Snapshot& snapshot);
  Status Update(const Snapshot& snapshot);
  // An unknown id is not an error.
  Status Remove(const std::string& id);

 private:
  explicit SnapshotStore(RecordTable table) : table_(std::move(table)) {}

  RecordTable table_;
};

}  // namespace atl::sandbox
