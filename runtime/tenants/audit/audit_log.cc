#include "runtime/tenants/audit/audit_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sys.h"
#include "runtime/tenants/audit/kept_lines.h"
#include "runtime/tenants/audit/log_files.h"

namespace atl::audit {
namespace {

constexpr size_t kBootBytes = 8;
constexpr int64_t kTickUs = 1'000'000;
constexpr int64_t kHeadMs = 60'000;
constexpr size_t kTailPiece = 64 << 10;

// Returns the offset behind the last newline of the file, and the line before it.
struct Tail {
  uint64_t end = 0;
  std::string line;  // empty: the file has no whole line
};
Result<Tail> ReadTail(int fd, uint64_t size) {
  Tail tail;
  std::string text;
  uint64_t start = size;
  // A power cut may leave zeros at the end of the file, so the newline may be far from it.
  while (start > 0) {
    const size_t piece = std::min<uint64_t>(kTailPiece, start);
    start -= piece;
    std::string read(piece, '\0');
    const ssize_t n = ::pread(fd, read.data(), piece, static_cast<off_t>(start));
    if (n != static_cast<ssize_t>(piece)) return FailSys("read the end of the audit log");
    text.insert(0, read);
    const size_t last = text.rfind('\n');
    if (last == std::string::npos) {
      text.clear();  // a torn line, or zeros
      continue;
    }
    const size_t before = last == 0 ? std::string::npos : text.rfind('\n', last - 1);
    if (before == std::string::npos && start > 0 && last < kMaxLine) {
      text.resize(last + 1);
      continue;
    }
    const size_t from = before == std::string::npos ? 0 : before + 1;
    tail.end = start + last + 1;
    tail.line = text.substr(from, last - from);
    return tail;
  }
  return tail;
}

constexpr char kBegin[] = "begin";

void TellTrimFailed(const Error& why) {
  LogLine(LogLevel::kWarning, "cannot compress or remove files of the audit log").Add(why);
}

// Returns the line before the first one of the files; unset: nobody knows it.
std::optional<Head> HeadBefore(int directory, uint64_t index) {
  auto reader = LogReader::Open(directory, index);
  if (!reader) return {};
  const auto line = reader->Next();
  if (!line || !*line) return {};
  const auto parsed = ParseLine(**line);
  if (!parsed || parsed->seq == 0) return {};
  return Head{parsed->seq - 1, std::string(parsed->prev)};
}

// Overwrites the file in its place, which needs no room on a full disk.
Status WriteBegin(int directory, const Head& begin) {
  ATOLL_ASSIGN(
      const UniqueFd file,
      sys::OpenAt(directory, kBegin, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, kFileMode));
  ATOLL_TRY(ShowToGroup(file.get()));
  std::string text = HeadText(begin);
  constexpr size_t kSize = 20 + 1 + kHashDigits;
  text.insert(0, kSize - text.size(), '0').push_back('\n');
  if (::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return FailSys("write where the audit log begins");
  }
  if (::fdatasync(file.get()) != 0) return FailSys("fdatasync where the audit log begins");
  return {};
}

}  // namespace

// Files that are too old or too many.
struct AuditLog::Excess {
  std::vector<LogFile> files;
  std::optional<Head> head;  // their last line; unset: the file behind them cannot be read
};

namespace {

// Compresses files that have ended, keeps lines of those that will be deleted, and lists these.
Status FindExcess(int directory, const LogSettings& settings, uint64_t current, uint64_t needed,
                  int64_t now_s, std::vector<LogFile>* excess) {
  Status first;
  ATOLL_ASSIGN(std::vector<LogFile> files, ListLogFiles(directory));
  for (const LogFile& file : files) {
    if (file.compressed || file.index >= std::min(current, needed)) continue;
    if (Status done = Compress(directory, file.index); !done && first) first = std::move(done);
  }
  const int64_t oldest_s = now_s - static_cast<int64_t>(settings.keep_seconds);
  if (settings.keep_seconds != 0) ATOLL_TRY(DeleteKept(directory, oldest_s));
  ATOLL_ASSIGN(files, ListLogFiles(directory));
  ATOLL_ASSIGN(uint64_t kept, SizeOfKept(directory));
  uint64_t total = 0;
  for (const LogFile& file : files) total += file.size;
  for (const LogFile& file : files) {
    if (file.index >= current) break;
    const bool is_old = settings.keep_seconds != 0 && file.unix_s < oldest_s;
    const bool too_much = settings.keep_bytes != 0 && total + kept > settings.keep_bytes;
    if (!too_much && (!is_old || file.index >= needed)) break;
    if (!is_old && settings.tenant_bytes != 0) {
      ATOLL_TRY(KeepLines(directory, file.index, settings.tenant_bytes, settings.keep_bytes));
      ATOLL_ASSIGN(kept, SizeOfKept(directory));
    }
    excess->push_back(file);
    total -= file.size;
  }
  return first;
}

}  // namespace

std::string HeadText(const Head& head) {
  return std::to_string(head.seq) + ":" + head.hash;
}

Result<Head> ParseHead(const std::string& text) {
  Head head;
  const auto number = std::from_chars(text.data(), text.data() + text.size(), head.seq);
  const auto used = static_cast<size_t>(number.ptr - text.data());
  if (number.ec == std::errc() && used < text.size() && text[used] == ':') {
    head.hash = text.substr(used + 1);
    if (head.hash.size() == kHashDigits &&
        head.hash.find_first_not_of("0123456789abcdef") == std::string::npos) {
      return head;
    }
  }
  return Fail(Code::kInvalidArgument,
              "'" + text.substr(0, 100) + "': a head is SEQ:HASH, with 64 digits of the hash");
}

AuditLog::AuditLog(Loop& loop, const Clock& clock, Health& health, LogSettings settings)
    : loop_(loop),
      clock_(clock),
      health_(health),
      settings_(std::move(settings)),
      boot_(HexEncode(sys::RandomBytes(kBootBytes))) {}

AuditLog::~AuditLog() {
  loop_.Cancel(timer_);
}

Result<std::unique_ptr<AuditLog>> AuditLog::Open(Loop& loop, const Clock& clock, Health& health,
                                                 LogSettings settings) {
  std::unique_ptr<AuditLog> log(new AuditLog(loop, clock, health, std::move(settings)));
  const std::string& directory = log->settings_.directory;
  ATOLL_ASSIGN(log->directory_, sys::Open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (::flock(log->directory_.get(), LOCK_EX | LOCK_NB) != 0) {
    return Fail(Code::kFailedPrecondition, "another atolld writes its audit log to " + directory +
                                               ": stop it, or set audit.directory");
  }
  if (Status recovered = log->Recover(); !recovered) {
    return Fail(std::move(recovered).error().Wrap("audit log in " + directory));
  }
  // A daemon on a full disk serves, so that clients can delete.
  if (const Status reserved = log->Reserve(); !reserved) log->SetTrouble(reserved.error());
  if (const Status checked = log->CheckBegin(); !checked) {
    LogLine(LogLevel::kWarning, "cannot tell whether the audit log begins where it did")
        .Add(checked.error());
  }
  log->Trim();
  return log;
}

Status AuditLog::Recover() {
  ATOLL_ASSIGN(const auto files, ListLogFiles(directory_.get()));
  if (files.empty()) return OpenFile(1);
  const LogFile& last = files.back();
  Tail tail;
  if (last.compressed) {
    ATOLL_ASSIGN(auto reader, LogReader::Open(directory_.get(), last.index));
    for (;;) {
      ATOLL_ASSIGN(const auto line, reader.Next());
      if (!line) break;
      tail.line = *line;
    }
    ATOLL_TRY(OpenFile(last.index + 1));
  } else {
    ATOLL_TRY(OpenFile(last.index));
    ATOLL_ASSIGN(tail, ReadTail(file_.get(), size_));
    torn_ = size_ - tail.end;
    if (torn_ != 0 && ::ftruncate(file_.get(), static_cast<off_t>(tail.end)) != 0) {
      return FailSys("cut off an incomplete line");
    }
    size_ = tail.end;
    if (tail.line.empty() && files.size() > 1) {
      // The file had no line yet, so the chain goes on from the one before.
      ATOLL_ASSIGN(auto reader, LogReader::Open(directory_.get(), files[files.size() - 2].index));
      for (;;) {
        ATOLL_ASSIGN(const auto line, reader.Next());
        if (!line) break;
        tail.line = *line;
      }
    }
  }
  if (tail.line.empty()) return {};
  const auto parsed = ParseLine(tail.line);
  if (!parsed || !HashMatches(*parsed)) {
    return Fail(
        Code::kFailedPrecondition,
        "the last line is not what a daemon wrote: run 'atoll audit verify', keep the files "
        "as evidence, and move them away");
  }
  seq_ = parsed->seq;
  prev_ = parsed->hash;
  return {};
}

Status AuditLog::OpenFile(uint64_t index) {
  const std::string name = LogFile{.index = index}.Name();
  ATOLL_ASSIGN(file_,
               sys::OpenAt(directory_.get(), name,
                           O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, kFileMode));
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) return FailSys("fstat " + name);
  if (!S_ISREG(info.st_mode)) {
    file_.reset();
    return Fail(Code::kFailedPrecondition, name + " is not a regular file: remove it");
  }
  ATOLL_TRY(ShowToGroup(file_.get()));
  index_ = index;
  size_ = static_cast<uint64_t>(info.st_size);
  return {};
}

Status AuditLog::Reserve() {
  if (::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(settings_.file_bytes)) ==
          0 ||
      errno == EOPNOTSUPP) {
    return {};
  }
  return FailSys("reserve room for the audit log");
}

void AuditLog::Write(const Event& event) {
  ArmTimer();
  // A failed log is tried once a second, so that a full disk costs the requests nothing.
  if (!trouble_.empty()) return Miss(event, Error(Code::kUnavailable, trouble_));
  Status written = TellGap();
  if (written) written = Append(event);
  if (!written) Miss(event, written.error());
}

Status AuditLog::Append(const Event& event) {
  if (!file_) {
    ATOLL_TRY(OpenFile(std::max<uint64_t>(index_, 1)));
    ATOLL_TRY(Reserve());
  }
  if (size_ + kMaxLine > settings_.file_bytes) {
    // Gives the rest of the reserved room back.
    const int ended = ::ftruncate(file_.get(), static_cast<off_t>(size_));
    if (ended != 0) return FailSys("ftruncate");
    if (::fdatasync(file_.get()) != 0) return FailSys("fdatasync");
    ATOLL_TRY(OpenFile(index_ + 1));
    ATOLL_TRY(Reserve());
    Trim();
  }
  const std::string_view line = formatter_.Format(
      event, {.seq = seq_ + 1, .boot = boot_, .unix_micros = UnixMicros(), .prev = prev_});
  ssize_t n;
  do {
    n = ::write(file_.get(), line.data(), line.size());
  } while (n < 0 && errno == EINTR);
  if (n != static_cast<ssize_t>(line.size())) {
    const Error why = n < 0 ? SysError("write") : SysError("write", ENOSPC);
    if (n > 0 && ::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) file_.reset();
    return Fail(why);
  }
  size_ += line.size();
  ++seq_;
  prev_ = formatter_.hash();
  ++lines_;
  dirty_ = true;
  return {};
}

Status AuditLog::TellGap() {
  if (torn_ != 0) {
    ATOLL_TRY(Append({.action = "audit.gap",
                      .outcome = "failed",
                      .what = {{"reason", "a line was incomplete after a power cut or a full disk"},
                               {"bytes", static_cast<int64_t>(torn_)}}}));
    torn_ = 0;
  }
  if (gap_.reason.empty()) return {};
  std::string actions;
  for (const auto& [action, count] : gap_.by_action) {
    actions.append(actions.empty() ? "" : " ").append(action).append("=");
    actions.append(std::to_string(count));
  }
  ATOLL_TRY(Append({.action = "audit.gap",
                    .outcome = "failed",
                    .what = {{"reason", gap_.reason},
                             {"from_unix_ms", gap_.from_ms},
                             {"to_unix_ms", clock_.UnixMillis()},
                             {"count", static_cast<int64_t>(gap_.count)},
                             {"by_action", actions}}}));
  LogLine(LogLevel::kWarning, "the audit log is written again").Add("missing", gap_.count);
  gap_ = {};
  return {};
}

void AuditLog::Miss(const Event& event, const Error& why) {
  if (trouble_.empty()) SetTrouble(why);
  ++missed_;
  ++gap_.count;
  ++gap_.by_action[std::string(event.action)];
}

void AuditLog::SetTrouble(const Error& why) {
  ArmTimer();
  ++errors_;
  trouble_ = why.message();
  if (gap_.reason.empty()) {
    gap_.reason = trouble_;
    gap_.from_ms = clock_.UnixMillis();
  }
  LogLine(LogLevel::kError, "the audit log cannot be written").Add(why);
  health_.Set("audit", "the audit log cannot be written (" + trouble_ + "), so " +
                           (settings_.refuses ? "requests that change something are refused"
                                              : "events are only counted") +
                           "; make room on its file system");
}

void AuditLog::ArmTimer() {
  if (timer_ != 0) return;
  timer_ = loop_.After(kTickUs, [this] {
    timer_ = 0;
    Tick();
  });
}

void AuditLog::Tick() {
  if (!trouble_.empty()) {
    Status again = file_ ? Reserve() : Status();
    if (again) again = TellGap();
    if (again) {
      trouble_.clear();
      health_.Clear("audit");
    }
  }
  if (dirty_ && !syncing_ && file_) {
    // The pool thread has a descriptor of its own, because the file may end meanwhile.
    const auto copy = std::make_shared<UniqueFd>(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
    const auto error = std::make_shared<int>(0);
    dirty_ = false;
    syncing_ = true;
    loop_.RunBlocking(
        [copy, error] {
          if (*copy && ::fdatasync(copy->get()) != 0) *error = errno;
        },
        guard_([this, error] {
          syncing_ = false;
          if (*error != 0 && trouble_.empty()) {
            SetTrouble(SysError("fdatasync of the audit log", *error));
          }
        }));
  }
  const int64_t now_ms = clock_.UnixMillis();
  const bool head_due = now_ms - head_told_ms_ >= kHeadMs || now_ms < head_told_ms_;
  if (seq_ != head_told_ && head_due) {
    // A chain alone does not show that its end was cut off, or that root has written all of it
    // anew. A copy of the head outside of the files does.
    LogLine(LogLevel::kInfo, "audit head").Add("seq", seq_).Add("hash", prev_);
    head_told_ = seq_;
    head_told_ms_ = now_ms;
  }
  if (dirty_ || syncing_ || !trouble_.empty() || seq_ != head_told_) ArmTimer();
}

void AuditLog::Sync() {
  if (file_ && ::fdatasync(file_.get()) != 0) {
    LogLine(LogLevel::kError, "cannot sync the audit log").Add(SysError("fdatasync"));
  }
  LogLine(LogLevel::kInfo, "audit head").Add("seq", seq_).Add("hash", prev_);
}

void AuditLog::Trim() {
  if (std::exchange(trimming_, true)) {
    trim_again_ = true;
    return;
  }
  const auto directory = std::make_shared<UniqueFd>(::fcntl(directory_.get(), F_DUPFD_CLOEXEC, 0));
  const auto done = std::make_shared<Status>();
  const auto excess = std::make_shared<Excess>();
  loop_.RunBlocking(
      [directory, done, excess, settings = settings_, current = index_, head = head(),
       needed = needed_ ? needed_() : UINT64_MAX, now_s = clock_.UnixMillis() / 1000] {
        if (!*directory) return;
        *done = FindExcess(directory->get(), settings, current, needed, now_s, &excess->files);
        if (excess->files.empty()) return;
        const uint64_t next = excess->files.back().index + 1;
        excess->head = HeadBefore(directory->get(), next);
        // The current file has no line yet, so the last line is that of the file before.
        if (!excess->head && next == current) excess->head = head;
      },
      guard_([this, done, excess] {
        if (excess->files.empty()) return Trimmed(*done);
        // A full disk, on which nothing can be compressed, needs the removal most.
        if (!*done) TellTrimFailed(done->error());
        Remove(*excess);
      }));
}

void AuditLog::Remove(const Excess& excess) {
  if (excess.head) {
    // Only if the chain tells of it may a file go.
    const Status told = Append({.action = "audit.trim",
                                .outcome = "success",
                                .what = {{"removed", HeadText(*excess.head)},
                                         {"files", static_cast<int64_t>(excess.files.size())}}});
    if (!told) return Trimmed(told);
    ArmTimer();
  }
  const auto directory = std::make_shared<UniqueFd>(::fcntl(directory_.get(), F_DUPFD_CLOEXEC, 0));
  const auto file = std::make_shared<UniqueFd>(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
  const auto done = std::make_shared<Status>();
  loop_.RunBlocking(
      [directory, file, done, excess] {
        *done = [&]() -> Status {
          if (!*directory || !*file) return FailSys("fcntl");
          if (::fdatasync(file->get()) != 0) return FailSys("fdatasync of the audit log");
          if (excess.head) ATOLL_TRY(WriteBegin(directory->get(), *excess.head));
          for (const LogFile& each : excess.files) {
            const std::string name = each.Name();
            if (::unlinkat(directory->get(), name.c_str(), 0) != 0)
              return FailSys("unlink " + name);
          }
          return {};
        }();
      },
      guard_([this, done] { Trimmed(*done); }));
}

void AuditLog::Trimmed(const Status& status) {
  trimming_ = false;
  if (!status) TellTrimFailed(status.error());
  if (std::exchange(trim_again_, false)) Trim();
}

Status AuditLog::CheckBegin() {
  ATOLL_ASSIGN(const auto files, ListLogFiles(directory_.get()));
  const auto begin = files.empty() ? Head() : HeadBefore(directory_.get(), files.front().index);
  // The log is new, or its first file is damaged, which verifying tells.
  if (!begin && seq_ != 0) return {};
  const Head found = begin.value_or(Head());
  const auto text = sys::ReadFileAt(directory_.get(), kBegin, kMaxLine);
  if (!text && text.error().code() != Code::kNotFound) return Fail(text.error());
  if (text) {
    ATOLL_ASSIGN(const Head known, ParseHead(text->substr(0, text->find('\n'))));
    // Files that go may still be there, if the daemon died meanwhile.
    if (found.seq <= known.seq) return {};
    LogLine(LogLevel::kError, "the first files of the audit log are missing")
        .Add("from_seq", known.seq + 1)
        .Add("to_seq", found.seq);
    Write({.action = "audit.gap",
           .outcome = "failed",
           .what = {{"reason", "files at the beginning of the log are missing"},
                    {"from_seq", static_cast<int64_t>(known.seq + 1)},
                    {"to_seq", static_cast<int64_t>(found.seq)}}});
  } else if (found.seq != 0) {
    Write({.action = "audit.trim",
           .outcome = "success",
           .what = {{"removed", HeadText(found)}, {"reason", std::string(kFoundSo)}}});
  }
  // A line that is missing is written by a later start.
  return trouble_.empty() ? WriteBegin(directory_.get(), found) : Status();
}

void AuditLog::AddMetrics(MetricSet* metrics) const {
  metrics->Counter("atoll_audit_lines_total", "Lines written to the audit log.").Add(lines_);
  metrics
      ->Counter("atoll_audit_write_errors_total",
                "Times at which the audit log could no longer be written.")
      .Add(errors_);
  metrics->Counter("atoll_audit_missed_total", "Events that are missing in the audit log.")
      .Add(missed_);
}

}  // namespace atl::audit
