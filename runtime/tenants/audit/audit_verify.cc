#include "runtime/tenants/audit/audit_verify.h"

#include <fcntl.h>

#include "runtime/base/sys.h"
#include "runtime/tenants/audit/kept_lines.h"
#include "runtime/tenants/audit/log_files.h"

namespace atl::audit {
namespace {

class Verifier {
 public:
  explicit Verifier(const std::optional<Head>& expected) : expected_(expected) {}

  // Returns what is wrong with the line; empty: nothing.
  std::string Check(std::string_view line, bool first_of_log) {
    const auto parsed = ParseLine(line);
    if (!parsed) return "no line of an audit log";
    if (!HashMatches(*parsed)) return "the line was changed: its hash is not that of its text";
    if (report_.lines == 0) {
      if (first_of_log && (parsed->seq != 1 || parsed->prev != kNoHash)) {
        return "the first file does not begin with the first line of a log";
      }
      report_.first_seq = parsed->seq;
      begin_ = {parsed->seq - 1, std::string(parsed->prev)};
    } else if (parsed->seq != report_.head.seq + 1) {
      return "its number is " + std::to_string(parsed->seq) + " after " +
             std::to_string(report_.head.seq) + ": lines were removed or inserted";
    } else if (parsed->prev != report_.head.hash) {
      return "it does not continue the line before: one of both was replaced";
    }
    Accept(*parsed, line);
    return {};
  }

  VerifyReport& report() { return report_; }

  // Returns false if the files before the first one are missing, and no line tells of it.
  bool BeginsRightly() const { return report_.lines == 0 || begin_ == Head() || told_; }

  void CheckHead() {
    if (!expected_ || head_seen_) return;
    if (!report_.head_trouble.empty()) return;
    const std::string seq = std::to_string(expected_->seq);
    report_.head_trouble =
        expected_->seq > report_.head.seq
            ? "the log ends at line " + std::to_string(report_.head.seq) + ", before line " + seq +
                  ": its end was cut off"
            : "line " + seq + " is older than the first one that is kept, or behind a bad line";
  }

 private:
  void Accept(const ParsedLine& parsed, std::string_view line) {
    ++report_.lines;
    report_.head = {parsed.seq, std::string(parsed.hash)};
    report_.time = parsed.time;
    if (boot_ != parsed.boot) {
      boot_ = parsed.boot;
      if (report_.boots.size() < kMostReported) {
        report_.boots.push_back({boot_, parsed.seq, std::string(parsed.time)});
      }
    }
    if (parsed.action == "audit.trim") TakeTrim(line, parsed);
    if (parsed.action == "audit.gap" && report_.gaps.size() < kMostReported) {
      report_.gaps.push_back({parsed.seq, std::string(line)});
    }
    if (!expected_ || expected_->seq != parsed.seq) return;
    head_seen_ = expected_->hash == parsed.hash;
    if (!head_seen_) {
      report_.head_trouble =
          "line " + std::to_string(parsed.seq) + " has another hash: the log was written anew";
    }
  }

  // A line about the beginning of the log. The daemon has written it as a whole.
  void TakeTrim(std::string_view line, const ParsedLine& parsed) {
    if (line.find("\"removed\":\"" + HeadText(begin_) + "\"") == line.npos) return;
    told_ = true;
    const bool found = line.find(kFoundSo) != line.npos;
    report_.found_so = found ? std::string(parsed.time) : std::string();
  }

  const std::optional<Head> expected_;
  Head begin_;         // the line before the first one
  bool told_ = false;  // a line tells that what is before was removed
  VerifyReport report_;
  std::string boot_;
  bool head_seen_ = false;
};

// Checks the kept lines. Each has its hash, but not the line before it.
Status CheckKept(int directory, VerifyReport* report) {
  uint64_t last = 0;
  return EachKept(directory, {}, UINT64_MAX, [&](const KeptLine& kept) -> Result<bool> {
    const auto parsed = ParseLine(kept.line);
    const char* reason = nullptr;
    if (!parsed) {
      reason = "no line of an audit log";
    } else if (!HashMatches(*parsed)) {
      reason = "the line was changed: its hash is not that of its text";
    } else if (parsed->seq <= last) {
      reason = "the line is kept twice, or out of its order";
    }
    if (reason != nullptr) {
      report->bad = {std::string(kept.file), kept.number, reason};
      return false;
    }
    last = parsed->seq;
    ++report->kept;
    return true;
  });
}

}  // namespace

Result<VerifyReport> VerifyLog(const std::string& directory, const std::optional<Head>& expected) {
  ATOLL_ASSIGN(const UniqueFd dir, sys::Open(directory, O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(const auto files, ListLogFiles(dir.get()));
  Verifier verifier(expected);
  VerifyReport& report = verifier.report();
  uint64_t index = files.empty() ? 0 : files.front().index;
  for (const LogFile& file : files) {
    if (file.index != index++) {
      report.bad = {LogFile{.index = index - 1}.Name(), 0, "the file is missing"};
      break;
    }
    ++report.files;
    ATOLL_ASSIGN(auto reader, LogReader::Open(dir.get(), file.index));
    for (uint64_t number = 1;; ++number) {
      auto line = reader.Next();
      std::string reason;
      if (!line) {
        reason = line.error().message();
      } else if (*line) {
        reason = verifier.Check(**line, file.index == 1);
      } else {
        report.torn = reader.torn();
        if (report.torn == 0 || file.index == files.back().index) break;
        reason = "the file ends within a line";
      }
      if (reason.empty()) continue;
      report.bad = {file.Name(), number, reason};
      break;
    }
    if (report.bad) break;
  }
  if (!report.bad && !verifier.BeginsRightly()) {
    report.bad = {
        files.front().Name(), 1,
        "lines before it are missing, and no line of the log tells that they were deleted "
        "for their age or for room"};
  }
  if (!report.bad) ATOLL_TRY(CheckKept(dir.get(), &report));
  verifier.CheckHead();
  return std::move(report);
}

}  // namespace atl::audit
