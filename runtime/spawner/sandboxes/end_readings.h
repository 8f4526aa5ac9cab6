// The readings of destroyed sandboxes that no daemon has stored yet: the last record of each, in
// <run_dir>/spawner/ends. They survive the death of the spawner and of the daemon, so a sandbox
// that ends while either is away is still billed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/sandboxes/record.h"
#include "runtime/wire/reply.h"

namespace atl::spawner {

class EndReadings {
 public:
  // Most readings that are kept, a page of memory each. The oldest go first: a daemon that settles
  // none for so many sandboxes cannot write its ledger.
  static constexpr size_t kMost = 4096;

  // `directory`: of the files. `most` is for tests.
  explicit EndReadings(UniqueFd directory, size_t most = kMost)
      : directory_(std::move(directory)), most_(most) {}

  // Reads the files of an earlier spawner, in the order of the ends.
  Status Load();
  // Moves the record of a destroyed sandbox here from `records`. Does nothing if it has no record,
  // because then its build failed and no daemon knows it.
  Status Keep(int records, const Record& record);
  // Returns the reading; one that was not read for an unknown id.
  wire::EndReading Find(const std::string& id) const;
  void Settle(const std::vector<std::string>& ids);
  // Returns the oldest readings, at most wire::kMaxEnds.
  std::vector<wire::SandboxEnd> Oldest() const;

 private:
  void Add(const Record& record);
  void Remove(uint64_t number);

  const UniqueFd directory_;
  const size_t most_;
  uint64_t last_ = 0;
  std::map<uint64_t, wire::SandboxEnd> ends_;  // oldest first
  std::unordered_map<std::string, uint64_t> numbers_;
};

}  // namespace atl::spawner
