// The spawner's records: one file for each sandbox in <run_dir>/spawner/records, written when
// process 1 runs and again when it has ended, so that the next spawner can adopt the sandbox. A
// destroyed sandbox's record moves to <run_dir>/spawner/ends (end_readings.h).
// Root's own, mode 0600, on a tmpfs: records and sandboxes are both gone after a restart of the
// host.
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
  uint64_t start_time = 0;  // process 1's sys::ProcessStartTime; identifies it with the pid
  std::string tier{wire::kNamespaceTier};
  std::string link;  // name of its interface on the host; "": none
  wire::EndReading end;

  // A program of another version reads it, so fields are only ever appended.
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.sandbox, self.start_time, self.tier, self.link, self.end);
  }
};

// `directory`: an open directory descriptor. Writes the record of a sandbox that has not been
// acknowledged yet. A crash in the middle leaves a file that is no record, and the next spawner
// then kills the sandbox as a stray.
Status CreateRecord(int directory, const Record& record);
// Replaces the record as a whole, or leaves it as it was.
Status ReplaceRecord(int directory, const Record& record);
Status RemoveRecord(int directory, const std::string& id);
// Removes files that are not records (a crash in the middle of a write), and leaves them out.
Result<std::vector<Record>> ReadRecords(int directory);

}  // namespace atl::spawner
