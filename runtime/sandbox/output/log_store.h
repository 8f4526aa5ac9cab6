// The files that hold the output of sandboxes' entrypoints:
//
//   <directory>/<id>/log            the newest output, frames of runtime/wire/output.h
//   <directory>/<id>/log.1          what was before it
//   <directory>/<id>.removed-<ms>   the same of a sandbox that was removed at that time
//
// 0600 in directories of 0700. Each file is at most half of the limit; when the first is full it
// takes the place of the second. What the process or the disk cut off at the end of a file is no
// frame and is left out, here and by every reader.
//
// Thread rule: const, from any thread; two calls about one sandbox never at the same time, except
// OpenFiles. Everything but OpenFiles may block on the disk.
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
  // Makes `directory` if it is absent; its parent must exist. `max_bytes`: of one sandbox, both
  // files together; at least kMinBytes.
  static constexpr uint64_t kMinBytes = 64 << 10;
  static Result<std::unique_ptr<LogStore>> Open(const std::string& directory, uint64_t max_bytes);

  // Adds whole frames. On an error (the disk is full) none of them is there.
  Status Append(const std::string& id, std::string_view frames) const;

  // Where the log of a sandbox ends. No log: zeros.
  struct End {
    uint64_t offset = 0;
    int64_t time_us = 0;
  };
  // Cuts off what is no frame at the end, so that appending can go on.
  Result<End> FindEnd(const std::string& id) const;

  // Oldest first; empty if nothing was ever written.
  using Files = std::vector<UniqueFd>;
  Files OpenFiles(const std::string& name) const;

  Status Remove(const std::string& name) const;
  // Keeps the files under another name, which is returned, as those of `kept_as`.
  Result<std::string> MarkRemoved(const std::string& id, const std::string& kept_as,
                                  int64_t now_ms) const;

  struct Found {
    std::string name;  // of the directory
    std::string id;
    int64_t removed_ms = 0;  // 0: it was not
  };
  // What is there; removes what nobody has put there under a name of ours.
  Result<std::vector<Found>> List() const;

 private:
  LogStore(UniqueFd directory, uint64_t max_file)
      : directory_(std::move(directory)), max_file_(max_file) {}

  const UniqueFd directory_;
  const uint64_t max_file_;
};

// The frames of one log file, from its start; what is no frame ends it.
Result<std::string> ReadLogFile(int fd);

}  // namespace atl::sandbox
