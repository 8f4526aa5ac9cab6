// The audit log of this daemon: a chain of lines in files that only grow.
//
// A line is written with one write(2), before the answer that it tells of leaves. It is then in the
// page cache and survives the death of the daemon. fdatasync follows within a second, on a pool
// thread, so a power cut may take the lines of the last second. Each file has its room reserved, so
// a full disk does not stop the log before the file is full.
//
// If a line cannot be written, the log counts it, and the first line after says what is missing
// (audit.gap). Until then MayAct() tells whether clients may still change something.
//
// The oldest files are deleted by age and size. Before that, the chain gets a line that names the
// last line of what goes (audit.trim, the fact `removed`). So the files that somebody else has
// deleted at the beginning are missed like those in the middle. The file "begin" beside the log has
// the same head: a daemon that starts looks whether the log still begins there.
//
// Thread rule: on the loop, except as said.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/health.h"
#include "runtime/base/loop.h"
#include "runtime/base/metrics.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/tenants/audit/audit_line.h"
#include "runtime/tenants/audit/event.h"

namespace atl::audit {

// The reason of an audit.trim line by a daemon that does not know who has deleted the lines.
inline constexpr std::string_view kFoundSo = "the log began there when a daemon started";

struct LogSettings {
  std::string directory;
  bool refuses = true;             // on_failure: without the log, clients may change nothing
  uint64_t file_bytes = 64 << 20;  // a file ends here; at least 16 KiB
  uint64_t keep_seconds = 0;       // older files are deleted; 0: never
  uint64_t keep_bytes = 0;         // the oldest files beyond this size are deleted; 0: never
  uint64_t tenant_bytes = 0;       // see KeepLines; 0: keeps no lines of deleted files
};

// A line of the log, such as its last one. Of no line: the head of an empty log.
struct Head {
  uint64_t seq = 0;
  std::string hash = std::string(kNoHash);
  bool operator==(const Head&) const = default;
};
std::string HeadText(const Head& head);  // "SEQ:HASH"
Result<Head> ParseHead(const std::string& text);

class AuditLog {
 public:
  // Continues the chain of the directory, which must exist. A line that an earlier daemon left
  // incomplete is cut off and told of by the next line. kFailedPrecondition: another daemon writes
  // there.
  static Result<std::unique_ptr<AuditLog>> Open(Loop& loop, const Clock& clock, Health& health,
                                                LogSettings settings);
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;
  ~AuditLog();

  // False: the log cannot be written, and a request that would change something must be refused.
  // Deleting and pausing stay possible.
  bool MayAct() const { return trouble_.empty() || !settings_.refuses; }

  void Write(const Event& event);
  // Waits for the disk. For the last line of a daemon.
  void Sync();

  Head head() const { return {seq_, prev_}; }
  const std::string& boot() const { return boot_; }
  const std::string& directory() const { return settings_.directory; }
  // `needed` returns the first file that a sink has not read to its end. Files from there on are
  // kept as they are; keep_bytes counts nevertheless.
  void SetNeeded(std::function<uint64_t()> needed) { needed_ = std::move(needed); }
  void AddMetrics(MetricSet* metrics) const;

  // Tests: what the timer does each second.
  void Tick();

 private:
  AuditLog(Loop& loop, const Clock& clock, Health& health, LogSettings settings);
  Status Recover();
  Status OpenFile(uint64_t index);
  Status Reserve();
  Status Append(const Event& event);
  // Writes audit.gap if lines are missing.
  Status TellGap();
  void Miss(const Event& event, const Error& why);
  void SetTrouble(const Error& why);
  void ArmTimer();
  // Compares the beginning of the log with that of before, and tells what is missing.
  Status CheckBegin();
  // Compresses files that have ended, and deletes the oldest ones.
  void Trim();
  struct Excess;
  void Remove(const Excess& excess);
  void Trimmed(const Status& status);

  Loop& loop_;
  const Clock& clock_;
  Health& health_;
  const LogSettings settings_;
  const std::string boot_;
  UniqueFd directory_;
  UniqueFd file_;  // invalid: none could be opened
  uint64_t index_ = 0;
  uint64_t size_ = 0;
  uint64_t seq_ = 0;
  std::string prev_ = std::string(kNoHash);
  LineFormatter formatter_;

  std::string trouble_;  // empty: the log can be written
  struct Gap {
    uint64_t count = 0;
    std::string reason;  // empty: nothing is missing
    std::map<std::string, uint64_t, std::less<>> by_action;
    int64_t from_ms = 0;
  };
  Gap gap_;
  uint64_t torn_ = 0;                 // bytes that were cut off at the start
  std::function<uint64_t()> needed_;  // null: there are no sinks

  bool dirty_ = false;
  bool syncing_ = false;
  bool trimming_ = false;
  bool trim_again_ = false;  // a file has ended meanwhile
  int64_t head_told_ms_ = 0;
  uint64_t head_told_ = 0;
  Loop::Id timer_ = 0;
  uint64_t lines_ = 0;
  uint64_t errors_ = 0;
  uint64_t missed_ = 0;
  Guard guard_;  // the last member
};

}  // namespace atl::audit
