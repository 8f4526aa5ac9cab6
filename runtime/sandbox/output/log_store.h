// The files with the output of sandboxes' entrypoints:
//
//   <directory>/<id>/log     the newest output, frames of runtime/wire/output.h
//   <directory>/<id>/log.1   the output before it
//
// A log keeps its name after the removal of its sandbox, for as long as the history has it.
//
// Files are 0600, directories 0700. Each file has at most half of the limit. A full `log` is
// renamed to `log.1`. If a crash or a full disk cut off the last frame of a file, this class and
// every reader ignore the rest of it.
//
// Thread rule: const, from any thread. Calls for one sandbox must not overlap, except OpenFiles.
// Everything but OpenFiles may block on the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/output.h"

namespace atl::sandbox {

class LogStore {
 public:
  // Creates `directory` if it is absent; its parent must exist. `max_bytes`: limit per sandbox,
  // both files together; at least kMinBytes.
  static constexpr uint64_t kMinBytes = 64 << 10;
  static Result<std::unique_ptr<LogStore>> Open(const std::string& directory, uint64_t max_bytes);

  // Appends whole frames. After an error, such as a full disk, none of them is stored.
  Status Append(const std::string& id, std::string_view frames) const;

  // The end of a sandbox's log; zeros if there is no log.
  struct End {
    uint64_t offset = 0;
    int64_t time_us = 0;
  };
  // Finds the end, and cuts off a partial frame there so that Append can continue.
  Result<End> FindEnd(const std::string& id) const;

  // Opens a log's files, oldest first; empty if nothing was written.
  using Files = std::vector<UniqueFd>;
  Files OpenFiles(const std::string& id) const;
  // Returns the size of a log's files in bytes; 0 if nothing was written.
  uint64_t SizeOf(const std::string& id) const;

  Status Remove(const std::string& id) const;

  // Lists the ids that have a log. Removes entries whose name is no id.
  Result<std::vector<std::string>> List() const;

 private:
  LogStore(UniqueFd directory, uint64_t max_file)
      : directory_(std::move(directory)), max_file_(max_file) {}

  const UniqueFd directory_;
  const uint64_t max_file_;
};

// Returns the frames of a log file from its start, up to the first malformed one.
Result<std::string> ReadLogFile(int fd);

}  // namespace atl::sandbox
