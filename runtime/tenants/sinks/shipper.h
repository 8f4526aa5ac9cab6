// Sends the lines of an audit log to one sink, from the log's files, on a thread of its own.
//
// The place up to which the sink has everything (the cursor) is a file beside the log, so a restart
// goes on there and sends a line twice at most. A sink that is away falls behind on disk. If its
// next file was deleted meanwhile, the shipper goes on with the oldest one that is left and reports
// the number of lost lines.
//
// Thread rule: create and destroy on the loop. The getters may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/tenants/sinks/sink.h"

namespace atl::sinks {

class Shipper {
 public:
  // `directory` is the log's. `lost` is called on the shipper's thread with a number of lines. A
  // new sink begins with the oldest file.
  static Result<std::unique_ptr<Shipper>> Start(const std::string& directory, std::string name,
                                                std::unique_ptr<Sink> sink,
                                                std::function<void(uint64_t)> lost);
  Shipper(const Shipper&) = delete;
  Shipper& operator=(const Shipper&) = delete;
  // Waits for the batch in flight: at most 30 s if the receiver hangs.
  ~Shipper();

  const std::string& name() const { return name_; }
  // Returns the oldest file that the sink has not read to its end.
  uint64_t needed() const { return file_; }
  uint64_t sent() const { return seq_; }
  uint64_t lost() const { return lost_; }
  // Returns the microseconds of CLOCK_MONOTONIC at which sending began to fail; 0: it works.
  int64_t failing_since_us() const { return failing_since_us_; }

 private:
  Shipper(UniqueFd directory, UniqueFd stop, std::string name, std::unique_ptr<Sink> sink,
          std::function<void(uint64_t)> lost);
  Status LoadCursor();
  Status SaveCursor();
  void Run();
  // Sends one batch. Returns false if nothing was left to send.
  Result<bool> SendSome();
  Status SkipTo(uint64_t file);
  // Returns true if the shipper is to end.
  bool Sleep(int milliseconds) const;

  const UniqueFd directory_;
  const UniqueFd stop_;  // an eventfd: readable when the shipper is to end
  const std::string name_;
  const std::unique_ptr<Sink> sink_;
  const std::function<void(uint64_t)> report_lost_;
  std::atomic<uint64_t> file_ = 1;
  uint64_t offset_ = 0;
  bool cursor_kept_ = true;  // false: its last write failed
  std::atomic<uint64_t> seq_ = 0;
  std::atomic<uint64_t> lost_ = 0;
  std::atomic<int64_t> failing_since_us_ = 0;
  std::thread thread_;
};

}  // namespace atl::sinks
