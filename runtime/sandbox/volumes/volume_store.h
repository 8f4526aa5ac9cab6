// The durable records of named volumes: a table of its own beside the sandboxes', with commits that
// survive power loss, as the volumes themselves do.
//
// Thread rule: on the loop. A write is one row and an fsync; volumes come and go rarely.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/sandbox/store/record_table.h"

namespace atl::sandbox {

struct VolumeRecord {
  // What is kMaking or kRemoving after a restart was never acknowledged, or its removal was: its
  // directory goes. kTrial is ready, and made for a create that has not succeeded yet, of which
  // `owner` is the sandbox: if that is not recorded either, the create was never acknowledged.
  enum class State : uint8_t { kMaking = 0, kReady = 1, kRemoving = 2, kTrial = 3 };

  std::string name;
  State state = State::kMaking;
  int64_t created_at_ms = 0;
  std::string owner;  // a sandbox whose end is the volume's, too; empty: none
};

class VolumeStore {
 public:
  // `path`: that of Store, which was opened before.
  static Result<std::unique_ptr<VolumeStore>> Open(const std::string& path);

  Result<std::vector<VolumeRecord>> Load();
  // Inserts or replaces. A new one on a full disk is kResourceExhausted with ENOSPC.
  Status Write(const VolumeRecord& record);
  // An unknown name is not an error.
  Status Remove(const std::string& name);

 private:
  explicit VolumeStore(RecordTable table) : table_(std::move(table)) {}

  RecordTable table_;
};

}  // namespace atl::sandbox
