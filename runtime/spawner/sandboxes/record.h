// The spawner's memory of a sandbox: one file per sandbox in <run_dir>/spawner, written when
// process 1 is running and when it has ended, so that the next spawner can adopt it. Root's own,
// mode 0600, on a tmpfs: what it describes dies with the host, as it does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/wire/reply.h"
#include "runtime/wire/tier.h"

namespace atl::spawner {

struct Record {
  wire::SandboxRecord sandbox;
  uint64_t start_time = 0;  // of process 1, sys::ProcessStartTime: with the pid it names a process
  std::string tier{wire::kNamespaceTier};

  // Not a message: the next program reads it, of whatever version. Fields are only ever appended.
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.sandbox, self.start_time, self.tier);
  }
};

// `directory`: an open directory descriptor.
// Of a sandbox that nobody has been told of yet: a crash in the middle leaves a file that is no
// record, and the next spawner takes the sandbox for a stray.
Status CreateRecord(int directory, const Record& record);
// Whole or as it was.
Status ReplaceRecord(int directory, const Record& record);
Status RemoveRecord(int directory, const std::string& id);
// Files that are not records (a crash in the middle of a write) are removed and left out.
Result<std::vector<Record>> ReadRecords(int directory);

}  // namespace atl::spawner
